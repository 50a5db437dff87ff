#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Live coverage: the kernel's part. Run as root in a guest; arguments choose cases by the start of their names. Prints KTAP.
#
#   run.sh bench    prints the figures of tools/testing/bench/coverage instead
#
# Functions are called by check().
#
# shellcheck disable=SC2317,SC2329
set -u

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"
BUILD=$FERROTRACE_KDIR/selftests-coverage
TRACING=/sys/kernel/tracing
FUNCTIONS="vfs_read ksys_read rw_verify_area vfs_write"
# Functions of storm() in coverage.c that are not in $FUNCTIONS.
STORM="vfs_open kernel_clone do_exit schedule __fput"
PATCH=$BUILD/module/coverage_livepatch.ko
PARAMETERS=/sys/module/coverage_target/parameters
cases=("$@")
# The process that holds a session.
holder=

load_ours ferrotrace_fs ferrotrace_core rust_kprobes ferrotrace_coverage
load_file "$BUILD/module/coverage_target.ko"
mountpoint -q $TRACING || mount -t tracefs tracefs $TRACING

# Reading /proc/kallsyms takes seconds.
export COVERAGE_SYMBOLS=$work/symbols
grep -v '\[' /proc/kallsyms | LC_ALL=C sort | awk -v names="$FUNCTIONS $STORM cmdline_proc_show exc_int3 asm_exc_int3 kprobe_int3_handler __SCT__cond_resched load_current_idt machine_kexec _stext _etext" '
	BEGIN { split(names, list, " "); for (i in list) wanted[list[i]] = 1 }
	name && $1 != start { print name, start, $1; name = "" }
	$3 in wanted { name = $3; start = $1 }' >"$COVERAGE_SYMBOLS"

if [ "${1:-}" = bench ]; then
	"$BUILD/coverage" bench
	exit
fi

# one NAME CMD...: a check, if it was asked for.
one() {
	local prefix wanted=0
	[ ${#cases[@]} = 0 ] && wanted=1
	for prefix in "${cases[@]}"; do if [[ $1 == "$prefix"* ]]; then wanted=1; fi; done
	[ $wanted = 1 ] && check "$@"
}

# A check must leave the code of the functions as it was, and no breakpoint.
before() {
	# shellcheck disable=SC2086
	"$BUILD/coverage" code $FUNCTIONS coverage_target >"$work/before"
}
after() {
	[ -e /sys/module/coverage_target ] || load_file "$BUILD/module/coverage_target.ko"
	grep -q '^state=none places=0 armed=0 ' $DEBUGFS/ferrotrace_coverage/control || return 1
	# shellcheck disable=SC2086
	"$BUILD/coverage" code $FUNCTIONS >"$work/after"
	grep -v coverage_target "$work/before" | diff - "$work/after"
}
clean_up() { [ -z "$holder" ] || release 2>/dev/null; }

# hold FUNCTION...: arms functions in the process $holder. release: ends that process.
hold() { holding hold "$@"; }
holding() {
	"$BUILD/coverage" "$@" >"$work/held" 2>/dev/kmsg &
	holder=$!
	while ! grep -q armed "$work/held"; do kill -0 "$holder" || return 1; sleep 0.1; done
}
release() {
	kill "$holder"
	wait "$holder" 2>/dev/null
	true
}

# with_text CMD...: runs CMD while places all over the kernel's text (see text() in coverage.c) are armed and
# hit. Afterwards places can still be hit, and the text must be as before.
with_text() {
	local status=0 busy
	holding text || return 1
	rm -f "$work/done"
	while [ ! -e "$work/done" ]; do cat /proc/version; done >"$work/read" &
	busy=$!
	"$@" || status=1
	echo reset >$DEBUGFS/ferrotrace_coverage/control || status=1
	sleep 0.5
	: >"$work/done"
	wait $busy
	sleep 0.2
	cat $DEBUGFS/ferrotrace_coverage/control
	[ "$(field hit)" -gt 500 ] || status=1
	kill "$holder"
	wait "$holder" || { cat "$work/held"; status=1; }
	return $status
}
field() { sed -n "s/.*\b$1=\([0-9]*\).*/\1/p" $DEBUGFS/ferrotrace_coverage/control | head -n 1; }

exact() { "$BUILD/coverage" exact; }
errors() { "$BUILD/coverage" errors; }
refused_places() { "$BUILD/coverage" refused; }
# Allocations fail, also those that may wait and those of any size.
faults() {
	local kind
	[ -e /proc/self/fail-nth ] || { skip="no CONFIG_FAULT_INJECTION"; return; }
	for kind in failslab fail_page_alloc; do
		echo N >$DEBUGFS/$kind/ignore-gfp-wait && echo 0 >$DEBUGFS/$kind/verbose || return 1
	done
	echo 0 >$DEBUGFS/fail_page_alloc/min-order
	"$BUILD/coverage" faults
}
storm() { "$BUILD/coverage" storm "$(storm_rounds 30)"; }

# SIGKILL of the session's process removes all breakpoints. Until then the module cannot be removed.
killed() {
	# shellcheck disable=SC2086
	hold $FUNCTIONS coverage_target || return 1
	[ "$(field armed)" -gt 100 ] || return 1
	! rmmod ferrotrace_coverage || return 1
	kill -9 "$holder"
	wait "$holder"
	true
}

# Unloading a module forgets its places. Another module may be loaded at the same addresses.
unload() {
	hold coverage_target || return 1
	rmmod coverage_target && load_file "$BUILD/module/coverage_target.ko" || return 1
	[ "$(field gone)" -gt 5 ] && [ "$(field armed)" = 0 ] || return 1
	echo 5 >/sys/module/coverage_target/parameters/call && [ "$(cat /sys/module/coverage_target/parameters/call)" = 6 ] || return 1
	release
}

# Sessions of a module that is loaded for each of them, while all CPUs call armed functions. The kernel's
# memory may grow by less than a module has.
reload() {
	local before after status=0 busy
	"$BUILD/coverage" busy &
	busy=$!
	# Until the caches have their size.
	sessions 5 || status=1
	before=$(kernel_memory)
	sessions "$(storm_rounds 100)" || status=1
	after=$(kernel_memory)
	kill $busy
	wait $busy 2>/dev/null
	memory_is_stable "$before" "$after" || status=1
	return $status
}
sessions() {
	local _
	for _ in $(seq "$1"); do
		# shellcheck disable=SC2086
		hold $FUNCTIONS && : </etc/hostname && [ "$(field hit)" -gt 50 ] && release && rmmod ferrotrace_coverage &&
			load_ours ferrotrace_coverage || return 1
	done
}
# kernel_memory: kB of slabs, vmalloc and CPUs' variables, and the number of areas of vmalloc.
kernel_memory() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 1
	awk '{ value[$1] = $2 } END { print value["Slab:"], value["VmallocUsed:"], value["Percpu:"], areas }
		FILENAME ~ /vmallocinfo/ { areas++ }' /proc/meminfo /proc/vmallocinfo
}
# memory_is_stable BEFORE AFTER: prints both, and fails if memory grew as with a leak in each round. The limits
# leave room for slabs that still grow.
memory_is_stable() {
	echo "slab, vmalloc, percpu in kB, areas of vmalloc: before $1, after $2" | tee /dev/kmsg
	awk -v before="$1" -v after="$2" 'BEGIN { split(before, b); split(after, a)
		exit !(a[1] - b[1] < 1024 && a[2] - b[2] < 256 && a[3] - b[3] < 64 && a[4] - b[4] < 10) }'
}

# Tracers on the armed functions, and on the path of a hit. The reset lets all places be hit again.
tracers() {
	local tracer function
	# shellcheck disable=SC2086
	hold $FUNCTIONS || return 1
	for function in $FUNCTIONS __rcu_read_lock irq_work_queue; do echo "$function"; done >$TRACING/set_ftrace_filter
	for tracer in function function_graph nop; do
		echo $tracer >$TRACING/current_tracer && echo reset >$DEBUGFS/ferrotrace_coverage/control || return 1
		cat /proc/version >"$work/read"
	done
	echo >$TRACING/set_ftrace_filter
	echo 1 >$TRACING/events/notifier/enable && echo reset >$DEBUGFS/ferrotrace_coverage/control && cat /proc/version >"$work/read"
	echo 0 >$TRACING/events/notifier/enable
	[ "$(field hit)" -gt 50 ] && release
}

probe() { echo "$1" >>$TRACING/kprobe_events; }
# traced EVENT...: reads a file, and fails if an event was not traced. Tracing is off while the trace is read:
# the read makes events.
traced() {
	local status=0 event
	: >$TRACING/trace
	echo 1 >$TRACING/tracing_on
	cat /proc/version >"$work/read"
	echo 0 >$TRACING/tracing_on
	for event in "$@"; do grep -q "$event:" $TRACING/trace || { echo "no $event"; status=1; }; done
	echo 1 >$TRACING/tracing_on
	return $status
}
# after_entry: the offset of the first instruction after the ftrace site, and after the landing pad, if any.
after_entry() { case $("$BUILD/coverage" code vfs_read) in "vfs_read f30f1efa"*) echo 9 ;; *) echo 5 ;; esac }

# Kprobes and kretprobes that are registered before, during and after a session.
kprobes() {
	local status=0 after
	[ -e $TRACING/kprobe_events ] || { skip="no CONFIG_KPROBE_EVENTS"; return; }
	after=$(after_entry)
	# The code behind the jump of an optimised kprobe of the Rust engine is not decoded.
	echo 0 >/proc/sys/debug/kprobes-optimization || return 1
	probe "p:cov_before vfs_read+$after" && probe 'r:cov_return ksys_read' || return 1
	echo 1 >$TRACING/events/kprobes/enable
	# shellcheck disable=SC2086
	hold $FUNCTIONS || return 1
	[ "$(field kprobe)" -ge 1 ] || status=1
	probe 'p:cov_entry vfs_write' || status=1
	echo 1 >$TRACING/events/kprobes/cov_entry/enable
	traced cov_before cov_return cov_entry || status=1
	[ "$(field hit)" -gt 50 ] || status=1
	release
	probe "p:cov_after ksys_read+$after" && echo 1 >$TRACING/events/kprobes/cov_after/enable && traced cov_after || status=1
	echo 0 >$TRACING/events/kprobes/enable
	echo >$TRACING/kprobe_events
	echo 1 >/proc/sys/debug/kprobes-optimization
	return $status
}

# Registers and unregisters kprobes and kretprobes in armed functions.
probe_storm() {
	local round status=0 after
	[ -e $TRACING/kprobe_events ] || { skip="no CONFIG_KPROBE_EVENTS"; return; }
	after=$(after_entry)
	# shellcheck disable=SC2086
	hold $FUNCTIONS || return 1
	for ((round = 0; round < $(storm_rounds 40); round++)); do
		probe 'p:cov_entry vfs_read' && probe 'r:cov_return ksys_read' || return 1
		# This kprobe is inside a function, and is refused if a breakpoint precedes it.
		probe "p:cov_inside rw_verify_area+$after" 2>/dev/null
		echo 1 >$TRACING/events/kprobes/enable
		echo reset >$DEBUGFS/ferrotrace_coverage/control
		traced cov_entry cov_return || { echo "in round $round"; status=1; }
		echo 0 >$TRACING/events/kprobes/enable
		echo >$TRACING/kprobe_events
	done
	[ "$(field hit)" -gt 50 ] || status=1
	release
	return $status
}

# Repeats the storm with our exit registered before that of rust_kprobes: ours is first in both orders.
order() {
	lsmod | grep -q '^rust_kprobes ' || { skip="the engine of kprobes is no module"; return; }
	rmmod ferrotrace_coverage rust_kprobes && load_ours ferrotrace_coverage rust_kprobes && storm
}

# Unloads and reloads a module with armed blocks, one of which has just been hit.
unload_storm() {
	local _
	for _ in $(seq "$(storm_rounds 50)"); do
		hold coverage_target || return 1
		echo 3 >/sys/module/coverage_target/parameters/call && rmmod coverage_target || return 1
		[ "$(field armed)" = 0 ] && load_file "$BUILD/module/coverage_target.ko" || return 1
		release
	done
}

# Breakpoints are hit on a CPU that goes offline, and on one that comes online.
cpu1_offline_online() {
	local _ cpu=/sys/devices/system/cpu/cpu1/online
	for _ in 1 2; do
		echo 0 >$cpu && echo reset >$DEBUGFS/ferrotrace_coverage/control && echo 1 >$cpu || return 1
		echo reset >$DEBUGFS/ferrotrace_coverage/control || return 1
	done
}
hotplug() {
	[ -e /sys/devices/system/cpu/cpu1/online ] || { skip="CPU 1 cannot go offline"; return; }
	with_text cpu1_offline_online
}

# Tries to unload all our modules while a session, probes and hooks use them, those first that others need.
# Repeats that until a round unloads none. The module with the session must stay, with its dependencies, and work.
unload_order() {
	local loaded="" name gone="" round status=0
	# The engines first.
	load_ours rust_relay rust_ftrace_tramp ferrotrace_relay ferrotrace_fast_relay ferrotrace_kprobe ferrotrace_ftrace \
		ferrotrace_ftrace_functions ferrotrace_jprobe ferrotrace_kprobe_events rust_dprobes clients/klog_relay samples/gkhi_fork_count
	for name in ferrotrace_fs ferrotrace_core rust_kprobes rust_relay rust_ftrace_tramp ferrotrace_relay ferrotrace_fast_relay \
		ferrotrace_kprobe ferrotrace_ftrace ferrotrace_coverage ferrotrace_kprobe_events ferrotrace_ftrace_functions ferrotrace_jprobe rust_dprobes \
		klog_relay gkhi_fork_count; do
		if [ -e "/sys/module/$name/refcnt" ]; then loaded+=" $name"; fi
	done
	[ ! -e $DEBUGFS/ferrotrace_kprobe_events ] || echo "p cov_order vfs_write" >$DEBUGFS/ferrotrace_kprobe_events/probes || return 1
	# shellcheck disable=SC2086
	hold $FUNCTIONS || return 1
	for round in {1..20}; do
		# shellcheck disable=SC2086
		"$BUILD/coverage" unload $loaded >"$work/gone" || status=1
		[ -s "$work/gone" ] || break
		while read -r name; do gone+=" $name" loaded=${loaded/ $name/}; done <"$work/gone"
	done
	echo "unloaded$gone; rounds $round; left$loaded" | tee /dev/kmsg
	[[ "$loaded " == *" ferrotrace_coverage "* && "$gone " != *" ferrotrace_core "* && "$gone " != *" ferrotrace_fs "* ]] || status=1
	echo reset >$DEBUGFS/ferrotrace_coverage/control && cat /proc/version >"$work/read" && [ "$(field hit)" -gt 50 ] || status=1
	release
	for round in {1..20}; do
		# shellcheck disable=SC2086
		"$BUILD/coverage" unload $loaded >"$work/gone" || status=1
		while read -r name; do loaded=${loaded/ $name/}; done <"$work/gone"
	done
	[ -z "$loaded" ] || { echo "not unloaded:$loaded"; status=1; }
	load_ours ferrotrace_fs ferrotrace_core rust_kprobes ferrotrace_coverage
	return $status
}

# Livepatches. The program compares the code of the functions.
livepatch() {
	[ -e "$PATCH" ] || { skip="no CONFIG_LIVEPATCH"; return; }
	"$BUILD/coverage" livepatch "$PATCH"
}
livepatch_text() {
	[ -e "$PATCH" ] || { skip="no CONFIG_LIVEPATCH"; return; }
	with_text patch_and_unpatch
}
# The patched module is unloaded and loaded as long as the patch is there.
patch_and_unpatch() {
	local of=/sys/kernel/livepatch/coverage_livepatch
	load_file "$PATCH" && wait_for "$of/transition" 0 && grep -qx patched /proc/cmdline || return 1
	grep -qx patched $PARAMETERS/blocks && rmmod coverage_target && load_file "$BUILD/module/coverage_target.ko" &&
		grep -qx patched $PARAMETERS/blocks || return 1
	echo 0 >$of/enabled && wait_for "$of/enabled" gone && ! grep -x patched /proc/cmdline $PARAMETERS/blocks && rmmod coverage_livepatch
}
# wait_for FILE TEXT: waits until FILE has that text. If TEXT is "gone", waits until FILE does not exist.
wait_for() {
	local _
	for _ in {1..600}; do [ "$(cat "$1" 2>/dev/null || echo gone)" = "$2" ] && return; sleep 0.1; done
	return 1
}

for test in exact errors refused_places faults killed unload tracers kprobes reload storm order probe_storm unload_storm hotplug livepatch livepatch_text unload_order; do one $test $test; done
finish
