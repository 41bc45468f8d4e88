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

_jab()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}
	local commands="trace record count list check view recover"

	if [ "$COMP_CWORD" = 1 ]; then
		_jab_words "$commands help -e -l -p -c --help --version"
		compopt -o default	# scripts
		return
	fi
	case " $commands help " in
	*" $cmd "*) ;;
	*) cmd=script ;;
	esac
	case "$prev" in
	help) _jab_words "$commands script"; return ;;
	-t | --context) [ "$cmd" = view ] || _jab_words "regs reg: int: string: float: double: stack backtrace"; return ;;
	--snapshot-on) _jab_words "EXIT CRASH SIGNAL"; return ;;
	-p | --pid) _jab_words "$(ps -eo pid=,comm= | tr -s ' ' '\n' | sort -u)"; return ;;
	--dump) _jab_words "ast ir asm"; return ;;
	-f | --format) _jab_words "text json"; return ;;
	-e | --execute) return ;;
	-o | --output | --trace | --include) compopt -o default; return ;;
	esac
	case "$cmd:$cur" in
	*:-*) _jab_words "$(_jab_options "$cmd")" ;;
	view:*) compopt -o dirnames -o default ;;
	list:* | check:* | script:*) compopt -o default ;;
	esac
}
complete -F _jab jab
