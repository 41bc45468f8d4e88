# SPDX-License-Identifier: MIT
# bash completion for jab
_jab()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}

	local events="-p -c -d -n -t --probe --function --buffer-size --max-overhead --no-follow --json --strict --allow-trap --dry-run -v --help"

	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "trace record count list check view recover -e -l -p -c --help --version" -- "$cur")
		compopt -o default	# scripts
		return
	fi
	case "$prev" in
	-t | --context)
		[ "$cmd" = view ] || mapfile -t COMPREPLY < <(compgen -W "regs reg: int: string: float: double: stack backtrace" -- "$cur")
		return ;;
	--snapshot-on)
		mapfile -t COMPREPLY < <(compgen -W "EXIT CRASH SIGNAL" -- "$cur")
		return ;;
	-p | --pid)
		mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=,comm= | tr -s ' ' '\n' | sort -u)" -- "$cur")
		return ;;
	--dump)
		mapfile -t COMPREPLY < <(compgen -W "ast ir asm" -- "$cur")
		return ;;
	-f | --format)
		mapfile -t COMPREPLY < <(compgen -W "text json" -- "$cur")
		return ;;
	-e | --execute)
		return ;;
	-o | --output | --trace)
		compopt -o default
		return ;;
	esac
	case "$cmd:$cur" in
	trace:-*) mapfile -t COMPREPLY < <(compgen -W "$events -o --no-colour" -- "$cur") ;;
	record:-*) mapfile -t COMPREPLY < <(compgen -W "$events -o --overwrite --snapshot-on" -- "$cur") ;;
	count:-*) mapfile -t COMPREPLY < <(compgen -W "-p -c -d -i -o -a --json --strict --allow-trap --dry-run -v --help" -- "$cur") ;;
	list:-*) mapfile -t COMPREPLY < <(compgen -W "-p -v --json --help" -- "$cur") ;;
	check:-*) mapfile -t COMPREPLY < <(compgen -W "-p -s -m -v --alone --json --help" -- "$cur") ;;
	view:-*) mapfile -t COMPREPLY < <(compgen -W "--from --to -t -p --probe --cpu -n -s --stats --fields -o --json --no-colour -v --help" -- "$cur") ;;
	view:*) compopt -o dirnames -o default ;;
	recover:-*) mapfile -t COMPREPLY < <(compgen -W "--json -v --help" -- "$cur") ;;
	list:* | check:*) compopt -o default ;;
	-*:-* | *.bt:-*) mapfile -t COMPREPLY < <(compgen -W "-e -l -p -c -d -f -o -q -v --dump --folded --max-overhead --trace --json --dry-run --buffer-size --no-follow --strict --allow-trap --help" -- "$cur") ;;
	-*:*) compopt -o default ;;
	esac
}
complete -F _jab jab
