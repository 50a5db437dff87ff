#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Clients of ftrace, with the engine that this kernel has: some of the kernel's samples of direct calls ("SAMPLE..."), of its
# livepatch selftests ("PATCH...", of test-PATCH.sh), which are in $LIVEPATCH, and of its ftrace selftests, which are in DIRECTORY.
# Prints KTAP.
#
#	clients.sh "SAMPLE..." "PATCH..." [DIRECTORY TEST...]
#
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
tracing=/sys/kernel/tracing
engine=$MODULE_DIR/rust_ftrace_tramp.ko
probes=$DEBUGFS/ferrotrace_kprobe_events/probes

# says: the trace has a line of a sample's function.
says() {
	local tries
	for ((tries = 0; tries < 200; tries++)); do
		if grep -q my_direct_func $tracing/trace; then return; fi
		sleep 0.1
	done
	cat $tracing/trace
	return 1
}

# direct SAMPLE: functions call it directly; through ftrace while they are traced as well, and directly again.
direct() {
	insmod "$FERROTRACE_KDIR/samples/ftrace/$1.ko" || return 1
	says || return 1
	echo wake_up_process handle_mm_fault >$tracing/set_ftrace_filter
	echo function >$tracing/current_tracer
	echo >$tracing/trace
	says || return 1
	if [ -e "$engine" ]; then rmmod rust_ftrace_tramp && echo >$tracing/trace && says && insmod "$engine" || return 1; fi
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	says && rmmod "$1"
}

# livepatch TEST: one of the kernel's tests, with modules that were built before. Its results are
# compared as ftracetest's are.
livepatch() {
	local status
	if ! [ -d "$work/patches" ]; then
		cp -r "$LIVEPATCH" "$work/patches" &&
			cp "$FERROTRACE_KDIR"/selftests-livepatch/*.ko "$work/patches/test_modules" &&
			cp "$FERROTRACE_KDIR/selftests-livepatch/test_klp-call_getpid" "$work/patches" || return 1
	fi
	(cd "$work/patches" && KDIR=$FERROTRACE_KDIR "./test-$1.sh")
	status=$?
	case $status in
	0) echo "livepatch: test-$1.sh|PASS" ;;
	4) echo "livepatch: test-$1.sh|UNSUPPORTED" && skip="not on this kernel" && status=0 ;;
	*) echo "livepatch: test-$1.sh|FAIL" ;;
	esac >>"$work/livepatch"
	return $status
}

# stubs: how many functions have one.
stubs() { sed -n 's/^32 bytes:.* trampolines \([0-9]*\)).*/\1/p' "$DEBUGFS/ftrace_tramp/pool" | grep . || echo 0; }

# opens: each is a hit of the probe.
opens() {
	local i before after
	before=$(sed -n 's/^.* name=ferro_stub .*\bhits=\([^ ]*\).*/\1/p' "$probes")
	for ((i = 0; i < 20; i++)); do : </dev/null; done
	after=$(sed -n 's/^.* name=ferro_stub .*\bhits=\([^ ]*\).*/\1/p' "$probes")
	echo "hits: $before, $after"
	[ $((after - before)) -ge 20 ]
}

# A kprobe at a function's entry is called with its data: the function has a stub while the engine
# is loaded.
probe_has_stub() {
	local before i
	before=$(stubs)
	echo 'p ferro_stub do_sys_openat2' >"$probes" && [ "$(stubs)" = $((before + 1)) ] && opens || return 1
	if [ -e "$engine" ]; then
		rmmod rust_ftrace_tramp && opens && insmod "$engine" && [ "$(stubs)" = $((before + 1)) ] && opens || return 1
	fi
	# with the function tracer, which traces the same function
	echo do_sys_openat2 >$tracing/set_ftrace_filter && echo function >$tracing/current_tracer && opens || return 1
	echo nop >$tracing/current_tracer
	echo >$tracing/set_ftrace_filter
	opens || return 1
	for ((i = 0; i < 20; i++)); do
		echo -ferro_stub >"$probes" && [ "$(stubs)" = "$before" ] &&
			echo 'p ferro_stub do_sys_openat2' >"$probes" && [ "$(stubs)" = $((before + 1)) ] && opens || return 1
	done
	echo -ferro_stub >"$probes" && [ "$(stubs)" = "$before" ]
}

echo "TAP version 13"
mountpoint -q $tracing || mount -t tracefs tracefs $tracing || bail "no tracefs"
load_ours rust_kprobes rust_ftrace_tramp
read -ra samples <<<"$1"
read -ra patches <<<"$2"
shift 2
for sample in "${samples[@]}"; do check "samples/ftrace/$sample" direct "$sample"; done
for patch in "${patches[@]}"; do check "selftests/livepatch/test-$patch" livepatch "$patch"; done
if [ $# != 0 ]; then check "ftracetest runs" ftracetest "$@"; fi
if [ -e "$work/livepatch" ]; then sort "$work/livepatch" >>"$FERROTRACE_OUT/ftracetest"; fi
if [ -e "$DEBUGFS/ftrace_tramp/pool" ]; then
	load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay ferrotrace_kprobe ferrotrace_kprobe_events
	check "a probe at an entry has a stub" probe_has_stub
fi
if [ -e "$engine" ]; then check "the engine goes" rmmod rust_ftrace_tramp; fi
finish
