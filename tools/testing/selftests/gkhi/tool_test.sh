#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "ferrotrace hooks" on the running kernel: run as root in a guest with the hook task_fork in
# its kernel, with FERROTRACE set to the command. Loads and unloads samples/gkhi_fork_count.ko,
# with the exit fork_count armed from the start. Prints KTAP.
#
# Not pipefail: a refusal is searched in the command's output before it fails.
set -u

: "${FERROTRACE:?}"
MODULE=${FERROTRACE_KDIR:?set in the guest}/kernel/ferrotrace/samples/gkhi_fork_count.ko
GKHI=/sys/kernel/debug/gkhi
EXIT=task_fork/fork_count
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"

# Each check begins with the module loaded, the exit armed.
before() {
	loaded || insmod "$MODULE" || failed=1
	loaded && printf 1 >$GKHI/$EXIT
}
clean_up() { kill_jobs; }

hooks() { "$FERROTRACE" hooks "$@"; }
loaded() { [ -e /sys/module/gkhi_fork_count ]; }
armed() {
	local is
	read -r is <$GKHI/$EXIT && [ "$is" = "$1" ]
}

# field KEY: of the exit, as the kernel writes it.
field() { sed -n "/^hook=task_fork /,/^hook=/s/^ *exit=fork_count .*\b$1=\([^ ]*\).*/\1/p" $GKHI/hooks; }

forks() {
	local i
	for ((i = 0; i < $1; i++)); do (:); done
}

# moves, stands_still: checks the hits while processes are forked.
more_hits() {
	before=$(field hits)
	forks 20
	after=$(field hits)
	echo "hits: $before, $after"
}
moves() { more_hits && [ "$after" -ge $((before + 20)) ]; }
stands_still() { more_hits && [ "$after" = "$before" ]; }

# put CONTROL NAMES: writes the names themselves, all at once.
put() { printf '%s' "$2" >"$GKHI/$1"; }

# row: the exit's words in the table, from its name on.
row() { hooks list task_fork | awk '$2 == "fork_count" { print $2, $3, $5 }'; }

list_shows_it() {
	hooks list || return 1
	hooks list task_fork | grep -q '^task_fork  *active ' || return 1
	[ "$(row)" = "fork_count armed gkhi_fork_count" ] || return 1
	# every hook that the kernel has, and nothing else at its indentation but the names of the columns
	hooks list | awk 'NR > 1 && /^[^ ]/ { print $1 }' >"$work/names"
	sed -n 's/^hook=\([^ ]*\).*/\1/p' $GKHI/hooks | diff - "$work/names"
}

list_json() {
	hooks list --json >"$work/json" || return 1
	cat "$work/json"
	grep -q '"name": "task_fork"' "$work/json" || return 1
	grep -A 8 '"name": "fork_count"' "$work/json" >"$work/exit" || return 1
	grep -q '"armed": true' "$work/exit" && grep -q '"module": "gkhi_fork_count"' "$work/exit"
}

disarm_stops_it() {
	moves || return 1
	hooks disarm $EXIT || return 1
	armed 0 || return 1
	[ "$(row)" = "fork_count disarmed gkhi_fork_count" ] || return 1
	stands_still
}

arm_starts_it() {
	hooks disarm $EXIT && stands_still || return 1
	hooks arm $EXIT || return 1
	armed 1 && moves
}

twice_is_once() {
	hooks arm $EXIT && hooks arm $EXIT $EXIT && armed 1 || return 1
	hooks disarm $EXIT && hooks disarm $EXIT $EXIT && armed 0
}

a_hook_alone() {
	hooks disarm task_fork || return 1
	armed 0 && hooks list task_fork | grep -q '^task_fork  *dormant ' && stands_still || return 1
	hooks arm task_fork || return 1
	armed 1 && hooks list task_fork | grep -q '^task_fork  *active ' && moves
}

unknown_names_change_nothing() {
	refused "no exit task_fork/nothing; exits on task_fork: " hooks disarm $EXIT task_fork/nothing || return 1
	refused "no hook nothing; hooks: " hooks disarm $EXIT nothing/fork_count || return 1
	refused "did you mean the exit $EXIT?" hooks disarm fork_count || return 1
	armed 1 || return 1
	hooks disarm $EXIT || return 1
	refused "no exit task_fork/nothing" hooks arm $EXIT task_fork/nothing || return 1
	refused "no hook nothing" hooks arm $EXIT nothing || return 1
	armed 0 && stands_still || return 1
	refused "no hook nothing; hooks: " hooks list task_fork nothing || return 1
	refused "no hook nothing; hooks: " hooks watch -c 1 nothing
}

# The kernel itself is asked: the command does not implement all or none.
the_kernel_takes_all_or_none() {
	refused "No such file" put disarm "$EXIT task_fork/nothing" || return 1
	refused "No such file" put disarm "$EXIT nothing/fork_count" || return 1
	refused "Invalid argument" put disarm "$EXIT task_fork" || return 1
	armed 1 && moves || return 1
	put disarm "$EXIT $EXIT" && armed 0 || return 1
	refused "No such file" put arm "$EXIT task_fork/nothing" || return 1
	refused "No such file" put arm "$EXIT /fork_count" || return 1
	armed 0 && stands_still
}

# line PATTERN [COUNT]: waits until the watch in the background has written so many such lines.
line() {
	local i
	for ((i = 0; i < 1200; i++)); do
		[ "$(grep -c -- "$1" "$work/watch")" -ge "${2:-1}" ] && return
		sleep 0.05
	done
	cat "$work/watch"
	return 1
}

# Until there are two intervals with a rate.
watch_shows_a_rate() {
	local forker watch status
	(while :; do (:); done) &
	forker=$!
	"$FERROTRACE" hooks watch --interval 0.3 task_fork >"$work/watch" &
	watch=$!
	line " [1-9][0-9]*  *[0-9.]*  *[0-9]*  *$EXIT\$" 2
	status=$?
	kill $forker
	wait $forker 2>/dev/null
	kill -INT $watch
	wait $watch || return 1
	cat "$work/watch"
	[ $status = 0 ] || return 1
	# the first look at the armed exits, intervals with a rate, and their sum
	awk -v name=$EXIT '
		/^total of / { total = 1; next }
		$5 != name { next }
		total { sums++; bad += $2 != sum; next }
		$3 == "-" { first++; next }
		{ rates++; sum += $2; bad += $2 < 1 || $3 !~ /^[0-9]+\.[0-9]$/ }
		END { exit bad || first != 1 || rates < 2 || sums != 1 }' "$work/watch"
}

watch_sees_the_module_go_and_come() {
	local pid status
	"$FERROTRACE" hooks watch -i 0.1 >"$work/watch" &
	pid=$!
	line " $EXIT\$" || return 1
	rmmod gkhi_fork_count || return 1
	line " $EXIT (gone)\$" || return 1
	[ -z "$(field hits)" ] && [ ! -e $GKHI/$EXIT ] && [ -z "$(row)" ] || return 1
	refused "no exit $EXIT" hooks arm $EXIT || return 1
	insmod "$MODULE" || return 1
	forks 10
	line " $EXIT (new)\$" || return 1
	kill -TERM $pid
	wait $pid
	status=$?
	cat "$work/watch"
	[ $status = 0 ] && grep -q '^total of ' "$work/watch"
}

no_registry() {
	refused "/sys/kernel/debug/nothing: no such directory: the running kernel has no hook registry" \
		hooks list --dir /sys/kernel/debug/nothing
}

echo "TAP version 13"
checks tool. list_shows_it list_json disarm_stops_it arm_starts_it twice_is_once a_hook_alone \
	unknown_names_change_nothing the_kernel_takes_all_or_none watch_shows_a_rate \
	watch_sees_the_module_go_and_come no_registry
if loaded; then rmmod gkhi_fork_count || failed=1; fi
finish
