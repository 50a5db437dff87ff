#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Loads each sample of kprobes on the running kernel, as root, has it see forks and failing opens, and compares what
# it says with what happened. Prints KTAP.
# Functions are called by result().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

KO=$FERROTRACE_KDIR/kernel/ferrotrace
FORKS=20 FAILURES=20 REPORTS=3

count=0 failed=0

# result NAME CONDITION...: a result; on failure, what the sample said.
result() {
	local name=$1
	shift
	if "$@"; then
		echo "ok $((++count)) $name"
	else
		echo "not ok $((++count)) $name"
		sed 's/^/# /' "$log"
		failed=1
	fi
}

# run MODULE WORKLOAD: the module's life; what it said goes to $log.
run() {
	dmesg -C
	insmod "$KO/samples/$1.ko" reports="$REPORTS" && "$2" && rmmod "$1"
	local status=$?
	dmesg >"$log"
	return "$status"
}

forks() {
	local i
	for ((i = 0; i < FORKS; i++)); do (:); done
}

failing_opens() {
	local i
	for ((i = 0; i < FAILURES; i++)); do { : </nonexistent; } 2>/dev/null; done
	return 0
}

# said N PATTERN: N lines of the log match.
said() { [ "$(grep -cE "$2" "$log")" = "$1" ]; }

# number WORD: the number before WORD in the sample's last line.
number() { grep "$module" "$log" | tail -n 1 | sed -nE "s/.*[^0-9]([0-9]+) $1.*/\1/p"; }

# within LOW HIGH VALUE: the kernel may fork a few threads of its own, and programs look for files in vain.
within() { [ -n "$3" ] && [ "$3" -ge "$1" ] && [ "$3" -le "$2" ]; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "TAP version 13"
if [ -e "$KO/rust_kprobes.ko" ] && ! insmod "$KO/rust_kprobes.ko"; then
	echo "Bail out! cannot load rust_kprobes.ko"
	exit 1
fi
if [ -e "$KO/ferrotrace_jprobe.ko" ] && ! insmod "$KO/ferrotrace_jprobe.ko"; then
	echo "Bail out! cannot load ferrotrace_jprobe.ko"
	exit 1
fi
if ! insmod "$KO/ferrotrace_kprobe.ko"; then
	echo "Bail out! cannot load ferrotrace_kprobe.ko"
	exit 1
fi
for module in kprobe_fork_c kprobe_fork entry_fork; do
	result "$module: loads and goes" run $module forks
	# And the fork that removes the module.
	result "$module: counts forks" within $((FORKS + 1)) $((FORKS + 40)) "$(number hits)"
	result "$module: misses none" within 0 0 "$(number missed)"
	case $module in
	entry_fork) result "$module: prints arguments" said $REPORTS 'entry_fork: clone flags 0x[0-9a-f]+, stack 0x' ;;
	*)
		result "$module: prints registers" said $REPORTS "$module: before .* sp (0x)?ffff"
		result "$module: dumps the stack" said $REPORTS 'Call Trace:'
		;;
	esac
done
module=jprobe_fork_c
result "$module: loads and goes" run $module forks
result "$module: counts forks" within $((FORKS + 1)) $((FORKS + 40)) "$(number hits)"
result "$module: misses none" within 0 0 "$(number missed)"
result "$module: prints arguments" said $REPORTS "$module: clone flags 0x[0-9a-f]+, stack 0x0 of 0x0 bytes, exit signal 17"
for module in kretprobe_open_c kretprobe_open; do
	result "$module: loads and goes" run $module failing_opens
	result "$module: counts failures" within $FAILURES $((FAILURES + 40)) "$(number failures)"
	result "$module: counts calls" within "$(($(number failures) + 1))" 1000 "$(number calls)"
	result "$module: misses none" within 0 0 "$(number missed)"
	result "$module: prints errors" said $REPORTS "$module: .*do_sys_openat2.* returns -2\$"
done
if [ -d /sys/kernel/debug/kprobes ]; then
	result "no probe is left" [ ! -s /sys/kernel/debug/kprobes/list ]
fi
echo "1..$count"
exit $failed
