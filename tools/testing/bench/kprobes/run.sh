#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Kprobes: mainline's and ours. A nanosecond is an instruction.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-mainline modular builtin}

# Functions that are seldom called.
seldom='^(ext4|jbd2|acpi|pci|tcp|udp|inet|fib|ovl|loop|tty|uart|serial8250|v9fs|p9|netlink|nl|cgroup|blk|virtio)_'

# In the guest. Hits are measured twice, to show if they repeat; mainline takes long to register.
# The jumps that replace breakpoints are measured by themselves.
# shellcheck disable=SC2016
in_guest='
	. tools/testing/selftests/lib/testlib.sh
	load_ours rust_kprobes rust_ftrace_tramp
	bench=$FERROTRACE_KDIR/bench-kprobes
	jumps=/proc/sys/debug/kprobes-optimization
	echo 0 >$jumps
	# All of it: the log is full of addresses that cannot be probed when this is over.
	dmesg -w >/tmp/kprobes-bench.log &
	names=$(sed "s/.*\t//" /sys/kernel/debug/kprobes/blacklist | sort | comm -13 - <(sort "$bench/functions") |
		head -n 1000 | paste -sd,)
	# Loading it fails when all went well.
	insmod "$bench/kprobes_bench.ko" 2>/dev/null
	insmod "$bench/kprobes_bench.ko" registering=$REGISTERING names=$names 2>/dev/null
	echo 1 >$jumps
	insmod "$bench/kprobes_bench.ko" jumps=1 $(awk "\$3 == \"text_mutex\" { print \$3 \"=0x\" \$1 }" /proc/kallsyms) 2>/dev/null
	tools/testing/bench/kprobes/hot.sh /tmp/kprobes-hot
	insmod "$bench/kprobes_bench.ko" shares=1 hot=$(paste -sd, /tmp/kprobes-hot) \
		$(awk "\$3 ~ /^_[se]text$/ { print \$3 \"=0x\" \$1 }" /proc/kallsyms) 2>/dev/null
	sleep 1
	kill $!
	sed -n "s/.*kprobes_bench: \([^ ]*\) \([0-9.]*\)$/\1 \2/p" /tmp/kprobes-bench.log
'

for variant in $BENCH_VARIANTS; do
	built "$variant"
	objdump -d -j .text --no-show-raw-insn "$kdir/vmlinux" | awk -f "$here/functions.awk" |
		grep -E "$seldom" >"$modules/functions"
	registering=2
	if [ "$variant" = mainline ]; then registering=1; fi
	ICOUNT=1 CPUS=2 TIMEOUT=${TIMEOUT:-600} run_vm "$variant" "REGISTERING=$registering; $in_guest" |
		take "$variant" unregister_kernel
done

table
