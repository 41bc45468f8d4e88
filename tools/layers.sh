#!/bin/sh
# SPDX-License-Identifier: MIT
# A folder of src/ may include only itself and those above it in the list; the command only base and the public headers.
# Shows each include that breaks this.
# What belongs to one CPU is in src/arch: shows each line elsewhere that names its registers, writes instructions as bytes or
# uses its folder.
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

# src/blob has a folder for its CPU. Folders that still know the CPU, each with the number of such lines: it may only become less. The others have none.
known="ring:3 pad:6 trace:1 session:9 cmd:1"
registers='r[abcd]x|r[sd]i|r[bs]p|rip|r[89]|r1[0-5]|e[abcd]x|e[sd]i|e[bs]p|xmm[0-9]*|mxcsr|rdtsc|[er]flags'
cpu="(^|[^a-zA-Z0-9_])($registers)([^a-zA-Z0-9_]|\$)|0x[0-9a-f]{2}, *0x[0-9a-f]{2}|arch_x86|arch/x86|x86_regs"
lines_of() {
	grep -rniE "$cpu" "src/$1" | grep -v '^src/blob/x86/'
}
for d in $order; do
	[ "$d" = arch ] && continue
	[ -d "src/$d" ] || continue
	most=0
	for k in $known; do
		[ "${k%:*}" = "$d" ] && most=${k#*:}
	done
	n=$(lines_of "$d" | wc -l)
	[ "$n" -lt "$most" ] && echo "src/$d: $n lines know the CPU; say so in tools/layers.sh, which still has $most"
	[ "$n" -le "$most" ] && continue
	bad=1
	[ "$most" = 0 ] || echo "src/$d: $n lines know the CPU, more than the $most so far; all of them:"
	lines_of "$d"
done
exit $bad
