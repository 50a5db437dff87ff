#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Loads and removes the engine's module again and again, with clients that see hits, while a task
# sleeps in a function that had a return probe; while one sleeps in a detour buffer; and while a
# debugger is in a jump. Also unloads a module that patches its code during that. As root; prints
# KTAP.
set -uo pipefail

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
rounds=$(storm_rounds 100)
tests=$FERROTRACE_KDIR/selftests-kprobes/module
list=$DEBUGFS/kprobes/list
engine=$MODULE_DIR/rust_kprobes.ko
samples=$FERROTRACE_KDIR/samples/kprobes
sleeper=hrtimer_nanosleep

# round: one load and removal; prints what failed.
round() {
	insmod "$engine" || { echo "the engine does not load"; return 1; }
	insmod "$samples/kprobe_example.ko" || { echo "no probe"; return 1; }
	insmod "$samples/kretprobe_example.ko" func=$sleeper || { echo "no return probe"; return 1; }
	if rmmod rust_kprobes 2>/dev/null; then
		echo "the engine went before its clients"
		return 1
	fi
	dmesg -C
	sleep 0.01
	sleep 0.3 &
	# Not -q, which dmesg might not outlive.
	dmesg | grep 'handler_pre: <kernel_clone>' >/dev/null || { echo "no hit"; return 1; }
	dmesg | grep "$sleeper returned" >/dev/null || { echo "no return"; return 1; }
	# The second one is still in there.
	if ! rmmod kretprobe_example || ! rmmod kprobe_example || ! rmmod rust_kprobes; then
		echo "not removed"
		return 1
	fi
	if [ -e /sys/kernel/debug/kprobes ]; then
		echo "debugfs kprobes/ is left"
		return 1
	fi
}

# until_true COMMAND...: waits until it succeeds; fails when that takes 30 seconds.
until_true() {
	local tries=0
	until "$@"; do
		if [ $((tries += 1)) = 300 ]; then
			echo "# never: $*"
			return 1
		fi
		sleep 0.1
	done
}

# asleep: a task has reached the place where it sleeps through a jump, whose last displaced
# instruction is the call. The client is unloaded without its probe, then the engine, and neither
# waits for the task; then it returns.
asleep() {
	local pid
	local sleep=/sys/module/kprobes_selftest_target/parameters/sleep
	if ! insmod "$engine" || ! echo 1 >/proc/sys/debug/kprobes-optimization || ! insmod "$tests/kprobes_selftest_target.ko" ||
		! insmod "$tests/kprobes_selftest_leak.ko" symbol=kst_target_module_sleeps; then
		echo "# the modules do not load"
		return 1
	fi
	until_true grep -q 'kst_target_module_sleeps.*OPTIMIZED' "$list" || return 1
	# The jump is placed after a grace period.
	sleep 1
	(exec bash -c "echo 1 >$sleep") &
	pid=$!
	until_true grep -q kst_target_module_asleep "/proc/$pid/stack" || return 1
	if ! rmmod kprobes_selftest_leak || ! rmmod rust_kprobes; then
		echo "# not removed"
		return 1
	fi
	if [ -e /sys/module/rust_kprobes ] || ! grep -q kst_target_module_asleep "/proc/$pid/stack"; then
		echo "# the engine waited for the task"
		return 1
	fi
	kill $pid
	wait $pid
	[ "$(<$sleep)" = 42 ] || { echo "# it returned $(<$sleep)"; return 1; }
	rmmod kprobes_selftest_target
}

# write VALUE FILE: succeeds if the file accepts the value.
write() {
	echo "$1" 2>/dev/null >"$2"
}

# debugged: a debugger has a breakpoint in the jump of a probe that is unregistered. The jump cannot be removed, and the breakpoint leads
# to the engine once it is executed: rmmod says that the engine is in use.
debugged() {
	local at debugger=/sys/module/kprobes_selftest_debugger/parameters
	at=$(awk '$3 == "text_poke_copy" { print $1; exit }' /proc/kallsyms)
	if ! insmod "$engine" || ! insmod "$tests/kprobes_selftest_target.ko" ||
		! insmod "$tests/kprobes_selftest_leak.ko" symbol=kst_target_module_adds ||
		! insmod "$tests/kprobes_selftest_debugger.ko" text_poke_copy="0x$at"; then
		echo "# the modules do not load"
		return 1
	fi
	at=$(awk '$3 == "kst_target_module_adds" { print $1; exit }' /proc/kallsyms)
	until_true write "0x$at" $debugger/breakpoint && rmmod kprobes_selftest_leak || return 1
	# The work item that removes such jumps has run by then.
	sleep 1
	if rmmod rust_kprobes; then
		echo "# the engine did not stay"
		return 1
	fi
	write 0 $debugger/breakpoint && write 1 /sys/module/kprobes_selftest_target/parameters/add || return 1
	rmmod kprobes_selftest_debugger kprobes_selftest_target
}

# going: a module patches its code while it is unloaded; the neighbour of that code may get a jump.
going() {
	local target removal jumps=/proc/sys/debug/kprobes-optimization
	insmod "$engine" && echo 0 >$jumps && insmod "$tests/kprobes_selftest_target.ko" late=1 &&
		insmod "$samples/kprobe_example.ko" symbol=kst_target_module_keyed || return 1
	target=$(<"$list")
	dmesg -C
	rmmod kprobes_selftest_target &
	removal=$!
	until_true grep -q going /sys/module/kprobes_selftest_target/initstate && echo 1 >$jumps && wait $removal || return 1
	if dmesg | grep -E 'WARNING: |BUG: '; then return 1; fi
	if [[ $target != *kst_target_module_keyed+* ]] || ! grep -q '\[GONE\]' "$list"; then
		sed 's/^/# /' "$list"
		return 1
	fi
	rmmod kprobe_example rust_kprobes
}

echo "TAP version 13"
if ! [ -e "$engine" ]; then
	skipped reload "the engine is no module here"
	finish
	exit
fi
pages=$(grep -cE 'kprobe_(opt)?insn_page' /proc/kallsyms)
done=0
while [ $done -lt "$rounds" ] && round; do done=$((done + 1)); done
wait
if [ $done = "$rounds" ]; then result ok "reload: $rounds rounds"; else result "not ok" "reload: round $done of $rounds"; fi
after=$(grep -cE 'kprobe_(opt)?insn_page' /proc/kallsyms)
# A page of each size of slots is kept: two for copies, three for detours.
if [ "$after" -le $((pages + 5)) ]; then
	result ok "reload: no memory for copies and detours is left"
else
	result "not ok" "reload: $after pages for copies and detours, $pages before"
fi
if asleep; then result ok "reload: a task sleeps where a jump has led it"; else result "not ok" "reload: a task sleeps where a jump has led it"; fi
if going; then result ok "reload: a module that goes patches its code"; else result "not ok" "reload: a module that goes patches its code"; fi
if debugged; then result ok "reload: a debugger is in a jump"; else result "not ok" "reload: a debugger is in a jump"; fi
finish
