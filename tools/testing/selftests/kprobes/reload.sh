#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Loads and removes the engine's module again and again, with clients that see hits, while a task sleeps in a function that a
# return probe was on. As root; prints KTAP.
#
#	reload.sh [ROUNDS]
set -uo pipefail

rounds=${1:-100}
engine=$FERROTRACE_KDIR/kernel/ferrotrace/rust_kprobes.ko
samples=$FERROTRACE_KDIR/samples/kprobes
sleeper=hrtimer_nanosleep

# round: one load and removal; says what went wrong.
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

echo "TAP version 13"
if ! [ -e "$engine" ]; then
	echo "ok 1 reload # SKIP the engine is no module here"
	echo "1..1"
	exit
fi
mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
before=$(grep -c kprobe_insn_page /proc/kallsyms)
done=0
while [ $done -lt "$rounds" ] && round; do done=$((done + 1)); done
wait
if [ $done = "$rounds" ]; then echo "ok 1 reload: $rounds rounds"; else echo "not ok 1 reload: round $done of $rounds"; fi
after=$(grep -c kprobe_insn_page /proc/kallsyms)
# A page of each size of slots is kept.
if [ "$after" -le $((before + 2)) ]; then
	echo "ok 2 reload: no memory for copies is left"
else
	echo "not ok 2 reload: $after pages for copies, $before before"
fi
echo "1..2"
