# SPDX-License-Identifier: MIT
# fish completion for jab

function __jab_commands
	jab help 2>/dev/null | sed -n 's/^  jab \([a-z][a-z]*\)  *\([A-Za-z].*\)/\1\t\2/p'
	printf 'help\ttext on a command\n'
end

function __jab_command
	set -l words (commandline -opc)
	set -l names (__jab_commands | cut -f1)
	if test (count $words) -ge 2; and contains -- $words[2] $names
		echo $words[2]
	else
		echo script
	end
end

# Options are what --help says, so that they are never out of date.
function __jab_options
	jab help (__jab_command) 2>/dev/null | sed -n 's/^  \(-.\), \(--[a-z-]*\)[ A-Z|]*  *\(.*\)/\1\t\3\n\2\t\3/p; s/^      \(--[a-z-]*\)[ A-Z|]*  *\(.*\)/\1\t\2/p'
end

function __jab_target
	set -l words (commandline -opc)
	for i in (seq 3 (count $words))
		switch $words[$i]
			case -p --pid
				set -l next (math $i + 1)
				if test $next -le (count $words)
					printf '%s\n' -p $words[$next]
				end
				return
			case '/*'
				if test -f $words[$i]
					echo $words[$i]
					return
				end
		end
	end
end

function __jab_functions
	set -l target (__jab_target)
	test (count $target) -gt 0; or return
	set -l word (string trim -c '\'"' -- (commandline -ct))
	set -l front (string replace -r '[^:]*$' '' -- $word)
	set -l rest (string replace -r '^.*:' '' -- $word)
	set -l query (string replace -r '^(uprobe|u|uretprobe|ur|call):' '' -- $front)
	jab list $target "$query$rest*" 2>/dev/null | sed -n 's/^.*[^:]:\([A-Za-z0-9_.]*\)$/\1/p' | head -2000 | string replace -r '^' -- $front
end

function __jab_pids
	ps -eo pid=,comm= | string trim | string replace -r '^(\d+) +(.*)' '$1\t$2'
	ps -eo comm= | sort -u
end

function __jab_before
	contains -- (commandline -opc)[-1] $argv
end

function __jab_values
	switch (commandline -opc)[-1]
		case --time
			printf '%s\n' boot wall relative delta
		case --color
			printf '%s\n' auto always never
		case --snapshot-on
			printf '%s\n' EXIT CRASH SIGNAL
		case --dump
			printf '%s\n' ast ir asm
		case -f --format
			printf '%s\n' text json
		case -t --context
			printf '%s\n' regs reg: int: string: float: double: stack backtrace
		case -p --pid
			__jab_pids
	end
end

set -l valued --time --color --snapshot-on --dump -f --format -t --context -p --pid
complete -c jab -n 'test (count (commandline -opc)) = 1' -a '(__jab_commands)'
complete -c jab -n 'test (count (commandline -opc)) = 2; and __jab_before help' -f -a '(__jab_commands)'
complete -c jab -n "__jab_before $valued" -f -a '(__jab_values)'
complete -c jab -n "test (count (commandline -opc)) -ge 2; and not __jab_before $valued; and string match -q -- '-*' (commandline -ct)" -f -a '(__jab_options)'
complete -c jab -n "test (count (commandline -opc)) -ge 2; and not __jab_before $valued" -a '(__jab_functions)'
