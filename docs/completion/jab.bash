# SPDX-License-Identifier: MIT
# bash completion for jab

# Options are what --help says, so that they are never out of date.
_jab_options()
{
	"${COMP_WORDS[0]}" help "$1" 2>/dev/null |
		sed -n 's/^  \(-.\), \(--[a-z-]*\).*/\1 \2/p; s/^      \(--[a-z-]*\).*/\1/p'
}

_jab_words()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}")
}

_jab_tools()
{
	"${COMP_WORDS[0]}" help 2>/dev/null | sed -n '/^Ready tools/,$s/^  jab \([a-z]*\) .*/\1/p'
}

# The option or file that says where to look for functions: -p PID, or a file.
_jab_target()
{
	local i

	for ((i = 2; i < ${#COMP_WORDS[@]} - 1; i++)); do
		case "${COMP_WORDS[i]}" in
		-p | --pid) echo "-p ${COMP_WORDS[i+1]}"; return ;;
		/*) [ -f "${COMP_WORDS[i]}" ] && echo "${COMP_WORDS[i]}" && return ;;
		esac
	done
}

# Functions for "exe:ma": bash has cut the word at its colons, and wants what follows the last one.
_jab_functions()
{
	local line=${COMP_LINE:0:COMP_POINT} target word front
	target=$(_jab_target)
	word=${line##*[[:space:]\'\"]}
	front=${word%"${word##*:}"}
	front=${front#uprobe:} front=${front#u:} front=${front#uretprobe:} front=${front#ur:} front=${front#call:}
	[ -n "$target" ] || return
	# shellcheck disable=SC2086
	mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" list $target "$front${word##*:}*" 2>/dev/null |
		sed -n 's/^.*[^:]:\([A-Za-z0-9_.]*\)$/\1/p' | head -2000)
}

_jab()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}
	local commands="trace record count list check view recover"

	if [ "$COMP_CWORD" = 1 ]; then
		_jab_words "$commands $(_jab_tools) help -e -l -p -c --help --version"
		compopt -o default	# scripts
		return
	fi
	case " $commands help $(_jab_tools | tr '\n' ' ')" in
	*" $cmd "*) ;;
	*) cmd=script ;;
	esac
	case "$prev" in
	help) _jab_words "$commands $(_jab_tools) script"; return ;;
	-t | --context) [ "$cmd" = view ] || _jab_words "regs reg: int: string: float: double: stack backtrace"; return ;;
	--snapshot-on) _jab_words "EXIT CRASH SIGNAL"; return ;;
	--time) _jab_words "boot wall relative delta"; return ;;
	--color) _jab_words "auto always never"; return ;;
	-p | --pid) _jab_words "$(ps -eo pid=,comm= | tr -s ' ' '\n' | sort -u)"; return ;;
	--dump) _jab_words "ast ir asm"; return ;;
	-f | --format) _jab_words "text json"; return ;;
	-e | --execute) return ;;
	-o | --output | --trace | --include) compopt -o default; return ;;
	esac
	case "$cmd:$cur" in
	*:-*) _jab_words "$(_jab_options "$cmd")"; return ;;
	view:*) compopt -o dirnames -o default; return ;;
	esac
	_jab_functions
	[ "${#COMPREPLY[@]}" != 0 ] || case "$cmd" in
	list | check | script) compopt -o default ;;
	esac
}
complete -F _jab jab
