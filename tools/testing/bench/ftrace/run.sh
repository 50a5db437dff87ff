#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Trampolines of ftrace: mainline's and ours. A nanosecond is an instruction.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-mainline modular}

# In the guest. Calls are measured twice, to show if they repeat. Loading the module fails on
# success.
# shellcheck disable=SC2016
in_guest='
	. tools/testing/selftests/lib/testlib.sh
	load_ours rust_ftrace_tramp
	bench=$FERROTRACE_KDIR/bench-ftrace/ftrace_bench.ko
	insmod "$bench" 2>/dev/null
	insmod "$bench" 2>/dev/null
	insmod "$bench" registering=1 2>/dev/null
	dmesg | sed -n "s/.*ftrace_bench: \([^ ]*\) \([0-9.]*\)$/\1 \2/p"
	insmod "$bench" hold=1
	pages=$(sed -n "s/^\([0-9a-f]*\)[0-9a-f][0-9a-f][0-9a-f] t ftrace_trampoline\t.*/\1/p" /proc/kallsyms | sort -u | wc -l)
	rmmod ftrace_bench
	echo "memory $((pages * 4096))"
	mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
	sed -n "s/^\([0-9a-f]\{16\}\) .*/\1/p" /sys/kernel/tracing/available_filter_functions_addrs >/tmp/functions
	dmesg -C
	insmod "$bench" functions=/tmp/functions 2>/dev/null
	dmesg | sed -n "s/.*ftrace_bench: \([^ ]*\) \([0-9.]*\)$/\1 \2/p"
	# the bytes of code for each: pages of the smallest slots
	pool=$DEBUGFS/ftrace_tramp/pool
	stub_pages() { sed -n "s/^32 bytes: \([0-9]*\) pages.*/\1/p" $pool 2>/dev/null | grep . || echo 0; }
	before=$(stub_pages)
	insmod "$bench" functions=/tmp/functions hold=1
	after=$(stub_pages)
	rmmod ftrace_bench
	echo "data_code $(((after - before) * 4096 / $(wc -l </tmp/functions)))"
'

for variant in $BENCH_VARIANTS; do
	built "$variant"
	ICOUNT=1 CPUS=2 TIMEOUT=${TIMEOUT:-900} run_vm "$variant" "$in_guest" |
		take "$variant" "memory [1-9]"
done

table
