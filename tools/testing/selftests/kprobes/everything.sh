#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# All users of code patching at once, for some time, as root: prints KTAP.
#
#	everything.sh SECONDS PLACES	PLACES: the output of jump-places for the running kernel
#
# Probes with jumps are registered and unregistered at random places of the kernel, and at
# neighbouring instructions that all CPUs execute. At the same time two writers switch jumps off and
# on, probed modules are loaded and unloaded, a CPU is taken down and up, ftrace traces the same
# functions, and static keys and static calls change. A livepatch is loaded and unloaded, if
# $LIVEPATCH has a sample of one. In the second half all probes are switched off and on as well.
#
# The kernel must complain of nothing, its text must be unchanged, and the cases of kprobes_selftest
# that count hits must pass in the first half.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
seconds=${1:?usage: everything.sh SECONDS PLACES}
places=${2:?usage: everything.sh SECONDS PLACES}
tests=$FERROTRACE_KDIR/selftests-kprobes/module
jumps=/proc/sys/debug/kprobes-optimization
enabled=$DEBUGFS/kprobes/enabled
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs tracefs $tracing || bail "no tracefs"

# address NAME
address() { awk -v name="$1" '$3 == name { print "0x" $1; exit }' /proc/kallsyms; }

load_ours rust_kprobes ferrotrace_jprobe
load_file "$tests/kprobes_selftest.ko" many=300 ms=3000
load_file "$FERROTRACE_KDIR/selftests-all_functions/module/kprobes_all_functions.ko" "text=$(address _text)" ms=700
echo 1 >/sys/kernel/rcu_expedited
cut -d ' ' -f 1 "$places" | split -l 300 - "$work/batch."

anywhere() {
	local batch
	while :; do
		for batch in "$work"/batch.*; do
			cat "$batch" >$DEBUGFS/kprobes_all_functions || echo "no probes anywhere" >>"$work/failed"
			echo >>"$work/batches"
		done
	done
}
switches() {
	while :; do
		echo 0 >$jumps
		sleep 0.0"$((RANDOM % 9))"
		echo 1 >$jumps
		sleep 0."$((RANDOM % 9))"
	done
}
modules() {
	while :; do
		insmod "$tests/kprobes_selftest_target.ko" || echo "no target" >>"$work/failed"
		echo 1 >/sys/module/kprobes_selftest_target/parameters/call
		sleep 0.3
		until rmmod kprobes_selftest_target 2>/dev/null; do sleep 0.05; done
		echo >>"$work/loads"
	done
}
cpus() {
	while :; do
		echo 0 >/sys/devices/system/cpu/cpu3/online
		sleep 0.5
		echo 1 >/sys/devices/system/cpu/cpu3/online
		sleep 1
		echo >>"$work/cpus"
	done
}
traces() {
	while :; do
		echo 'kst_*' >$tracing/set_ftrace_filter
		echo 'vfs_*' >>$tracing/set_ftrace_filter
		echo function >$tracing/current_tracer
		sleep 0.4
		echo function_graph >$tracing/current_tracer
		sleep 0.2
		echo nop >$tracing/current_tracer
	done
}
# A few groups at a time: enabling all of them holds a mutex for minutes here, and module loads wait
# for it.
keys() {
	local group
	while :; do
		for group in sched irq timer kmem syscalls workqueue; do
			[ -e $tracing/events/$group ] || continue
			echo 1 >$tracing/events/$group/enable
			sleep 0.3
			echo 0 >$tracing/events/$group/enable
			sleep 0.2
		done
	done
}
patches() {
	local name
	name=$(basename "$LIVEPATCH" .ko)
	name=${name//-/_}
	while :; do
		insmod "$LIVEPATCH" || echo "no livepatch" >>"$work/failed"
		sleep 1
		cat /proc/cmdline >/dev/null
		echo 0 >"/sys/kernel/livepatch/$name/enabled"
		until rmmod "$name" 2>/dev/null; do sleep 0.1; done
		echo >>"$work/patches"
	done
}
works() {
	while :; do
		find /proc/self /sys/kernel/mm -type f 2>/dev/null | head -n 60 | xargs cat >/dev/null 2>&1
		dd if=/dev/zero of="$work/file.$BASHPID" bs=64k count=8 status=none && sync "$work/file.$BASHPID"
	done
}
masters() {
	while :; do
		echo 0 >$enabled
		sleep 0.1
		echo 1 >$enabled
		sleep 0.4
	done
}

# cases UNTIL JUDGED: the storms of kprobes_selftest, one after the other.
cases() {
	local name said
	while [ $SECONDS -lt "$1" ]; do
		for name in jump.storm jump.toggled_neighbours load.storm jump.many jump.many_around races.in_any_order races.freed_at_once; do
			[ $SECONDS -lt "$1" ] || break
			grep -qx "$name" $DEBUGFS/kprobes_selftest/cases || continue
			echo "$name" >$DEBUGFS/kprobes_selftest/run
			said=$(<$DEBUGFS/kprobes_selftest/run)
			echo "$name ${said%%$'\n'*}" >>"$work/cases"
			# How many jumps there are when is chance while they are switched; everything else is not.
			if [ "$2" ] && grep -E '^[a-z_]+\.c:[0-9]+: ' <<<"$said" | grep -qvE 'jumps > 0|jumps\(count\)'; then
				printf '# %s: %s\n' "$name" "${said//$'\n'/$'\n'# }"
				echo "$name" >>"$work/failed"
			fi
		done
	done
}

echo "TAP version 13"
dmesg -C
touch "$work/failed"
for what in anywhere switches switches modules cpus traces keys works works; do $what & done
if [ -e "${LIVEPATCH:-}" ]; then patches & fi
cases $((seconds / 2)) judged
if [ -s "$work/failed" ]; then
	sort "$work/failed" | uniq -c | sed 's/^/# /'
	result "not ok" "everything: all that counts hits passes"
else
	result ok "everything: all that counts hits passes"
fi
masters &
cases "$seconds" ""
kill_jobs
echo 1 >$enabled
echo nop >$tracing/current_tracer
echo 0 >$tracing/events/enable
echo 1 >/sys/devices/system/cpu/cpu3/online
echo 1 >$jumps
until ! [ -e /sys/module/kprobes_selftest_target ]; do rmmod kprobes_selftest_target 2>/dev/null || sleep 0.1; done
for what in batches loads cpus patches; do
	[ -e "$work/$what" ] && echo "# $what: $(wc -l <"$work/$what")"
done
sort "$work/cases" | uniq -c | sed 's/^/# /'
# Its writer may be about to exit.
for _ in $(seq 300); do
	[ -e /sys/module/kprobes_all_functions ] || break
	rmmod kprobes_all_functions 2>/dev/null || sleep 0.1
done
rmmod kprobes_selftest || bail "kprobes_selftest stays"
if [ -s $DEBUGFS/kprobes/list ]; then
	sed 's/^/# left: /' $DEBUGFS/kprobes/list
	result "not ok" "everything: no probe is left"
else
	result ok "everything: no probe is left"
fi
dmesg | grep -E 'WARNING: |BUG: |Oops|INFO: (task|rcu|possible)|refcount_t:|general protection|other code has changed' >"$work/complaints"
if [ -s "$work/complaints" ]; then
	sed 's/^/# /' "$work/complaints" | head -n 30
	result "not ok" "everything: the kernel complains of nothing"
else
	result ok "everything: the kernel complains of nothing"
fi
finish
