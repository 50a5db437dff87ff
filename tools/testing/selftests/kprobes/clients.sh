#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Clients of kprobes on the running kernel, as root: the kernel's samples, its KUnit suite, an event
# of its command line if it has one (p:at_boot,vfs_read), and our samples. Prints KTAP.
#
#	clients.sh [FTRACETEST]
#
# With the directory of the kernel's ftrace selftests, runs their cases of kprobes as well, and
# writes their results, NAME|RESULT a line, for the host: $FERROTRACE_OUT/ftracetest.
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
tracing=/sys/kernel/tracing

# The kernel registers it before it has any modules. It may have no directory, with either engine:
# the kernel makes the directories of existing events in a work item, then sets a flag, and misses
# an event that is added in between.
event_of_the_command_line() {
	cat $tracing/kprobe_profile
	awk '$1 == "at_boot" && $2 > 0 { n++ } END { exit n != 1 }' $tracing/kprobe_profile || return 1
	echo '!kprobes:at_boot' >$tracing/set_event && echo >$tracing/kprobe_events
}

# sample NAME WORD: the sample prints WORD when a process is forked.
sample() {
	dmesg -C
	insmod "$FERROTRACE_KDIR/samples/kprobes/$1.ko" && /bin/true && rmmod "$1" || return 1
	dmesg >"$work/said"
	cat "$work/said"
	grep -q "$2" "$work/said"
}

kunit() {
	insmod "$FERROTRACE_KDIR/lib/tests/test_kprobes.ko" || return 1
	cat $DEBUGFS/kunit/kprobes_test/results
	grep -q "pass:7 fail:0" $DEBUGFS/kunit/kprobes_test/results
}

echo "TAP version 13"
mountpoint -q $tracing || mount -t tracefs tracefs $tracing || bail "no tracefs"
if grep -q at_boot /proc/cmdline; then check "kprobe_event= on the command line" event_of_the_command_line; fi
load_ours rust_kprobes
check "samples/kprobes/kprobe_example" sample kprobe_example "handler_pre: <kernel_clone>"
check "samples/kprobes/kretprobe_example" sample kretprobe_example "kernel_clone returned"
check "KUnit kprobes 7 of 7" kunit
nested "our samples" "$here/../kprobes_samples/run.sh"
if [ $# != 0 ]; then check "ftracetest runs" ftracetest "$1" test.d/kprobe; fi
finish
