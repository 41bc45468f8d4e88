#!/bin/sh
# SPDX-License-Identifier: MIT
# A folder of src/ may include only itself and those above it in the list; the command only base and the public headers.
# Shows each include that breaks this.
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
exit $bad
