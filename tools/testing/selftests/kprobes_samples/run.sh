#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Loads each sample of kprobes on the running kernel, as root, and compares its output with the
# forks and failing opens of the test. Prints KTAP.
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
FORKS=20 FAILURES=20 REPORTS=3

log=$work/said
# The sample's output, where the check is not enough.
clean_up() { sed 's/^/# /' "$log"; }

# run MODULE WORKLOAD: loads and unloads the module; its output is in $log.
run() {
	dmesg -C
	insmod "$MODULE_DIR/samples/$1.ko" reports="$REPORTS" && "$2" && rmmod "$1"
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

echo "TAP version 13"
load_ours rust_kprobes ferrotrace_jprobe ferrotrace_kprobe
for module in kprobe_fork_c kprobe_fork entry_fork; do
	check "$module: loads and goes" run $module forks
	# And the fork that removes the module.
	check "$module: counts forks" within $((FORKS + 1)) $((FORKS + 40)) "$(number hits)"
	check "$module: misses none" within 0 0 "$(number missed)"
	case $module in
	entry_fork) check "$module: prints arguments" said $REPORTS 'entry_fork: clone flags 0x[0-9a-f]+, stack 0x' ;;
	*)
		check "$module: prints registers" said $REPORTS "$module: before .* sp (0x)?ffff"
		check "$module: dumps the stack" said $REPORTS 'Call Trace:'
		;;
	esac
done
module=jprobe_fork_c
check "$module: loads and goes" run $module forks
check "$module: counts forks" within $((FORKS + 1)) $((FORKS + 40)) "$(number hits)"
check "$module: misses none" within 0 0 "$(number missed)"
check "$module: prints arguments" said $REPORTS "$module: clone flags 0x[0-9a-f]+, stack 0x0 of 0x0 bytes, exit signal 17"
for module in kretprobe_open_c kretprobe_open; do
	check "$module: loads and goes" run $module failing_opens
	check "$module: counts failures" within $FAILURES $((FAILURES + 40)) "$(number failures)"
	check "$module: counts calls" within "$(($(number failures) + 1))" 1000 "$(number calls)"
	check "$module: misses none" within 0 0 "$(number missed)"
	check "$module: prints errors" said $REPORTS "$module: .*do_sys_openat2.* returns -2\$"
	if [ $module = kretprobe_open ]; then
		check "$module: prints names" said $REPORTS 'do_sys_openat2\(-100, "/nonexistent", \.\.\.\) returns -2$'
	fi
done
if [ -d /sys/kernel/debug/kprobes ]; then
	check "no probe is left" [ ! -s /sys/kernel/debug/kprobes/list ]
fi
finish
