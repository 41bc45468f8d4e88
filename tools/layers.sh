#!/bin/sh
# SPDX-License-Identifier: MIT
# A folder of src/ may include only itself and those above it in the list; the command only base and the public headers.
# Shows each include that breaks this.
# What belongs to one CPU is in src/arch, and for the code inside targets in a folder of src/blob: shows each line elsewhere that names its
# registers, writes instructions as bytes or uses its folder.
cd "$(dirname "$0")/.." || exit 1
order="base arch sym proc ring blob lang gen pad trace session api cmd"
bad=0
above=
for d in $order; do
	above="$above $d"
	[ "$d" = cmd ] && above="base cmd"
	[ -d "src/$d" ] || continue
	for inc in $(grep -rhoE '^#include "[a-z]+/' "src/$d" | sed 's/.*"//; s,/,,' | sort -u); do
		case " $above jab " in
		*" $inc "*) ;;
		*) grep -rnE "^#include \"$inc/" "src/$d"; bad=1 ;;
		esac
	done
done

registers='r[abcd]x|r[sd]i|r[bs]p|rip|r[89]|r1[0-5]|e[abcd]x|e[sd]i|e[bs]p|xmm[0-9]*|mxcsr|rdtsc|[er]flags'
registers="$registers|x(29|30)|tpidr_el0|cntvct_el0|nzcv"
cpu="(^|[^a-zA-Z0-9_])($registers)([^a-zA-Z0-9_]|\$)|0x[0-9a-f]{2}, *0x[0-9a-f]{2}|(arch_|arch/)(x86|aarch64)|x86_regs|R_(X86_64|AARCH64)_|user_regs_struct"
if grep -rniE "$cpu" src --include='*.[ch]' | grep -vE '^src/(arch|blob/[a-z0-9]+)/'; then
	bad=1
fi
exit $bad
