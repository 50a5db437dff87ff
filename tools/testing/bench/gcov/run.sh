#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The exporter of coverage, in a kernel that is compiled for coverage as a whole: mainline's, and then ours, which takes over from
# it. A nanosecond is an instruction. BENCH_RAW=1 shows all that was measured.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../../suites/lib.sh"

here=$REPO/tools/testing/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# In the guest. All but making the files is measured twice, as the first time finds nothing in caches. What ours takes to make
# them is the time of the CPU, as it waits for grace periods, and includes that mainline's are removed.
# shellcheck disable=SC2016
in_guest='
	. tools/testing/selftests/lib/kit.sh
	measure=$FERROTRACE_KDIR/bench-gcov/measure
	gcov=$DEBUGFS/gcov
	memory() { sync; echo 3 >/proc/sys/vm/drop_caches; awk "/^MemFree:/ { print \$2 * 1024 }" /proc/meminfo; }
	usecs() { dmesg | sed -n "s/.*initcall \($1\)+.* returned 0 after \([0-9]*\) usecs.*/\2/p" | awk "{ sum += \$1 } END { print sum * 1000 }"; }
	exporter() {
		local i
		for i in 1 2; do
			set -- "$1" $($measure tree $gcov)
			echo "$1_tree $2" && echo "$1_files $3" && echo "$1_tree_bytes $4"
			set -- "$1" $($measure write $gcov/reset)
			echo "$1_reset $2"
		done
	}
	exporter mainline
	echo "mainline_register $(usecs "gcov_fs_init")"
	free=$(memory)
	set -- $($measure insmod $MODULE_DIR/rust_gcov.ko)
	echo "ours_register $1"
	sleep 5
	echo "ours_more_memory $((free - $(memory)))"
	for i in 1 2; do
		set -- $($measure file $gcov/vmlinux)
		echo "ours_file $1" && echo "ours_file_bytes $3"
	done
	exporter ours
'

kernel=$REPO/integration/kernel.sh
"$kernel" build gcov >/dev/null
kdir=$("$kernel" kdir gcov)
mkdir -p "$kdir/bench-gcov"
gcc -O2 -Wall -Wno-unused-parameter -o "$kdir/bench-gcov/measure" "$here/gcov/measure.c"
APPEND="initcall_debug log_buf_len=4M" ICOUNT=1 CPUS=1 MEM=2G TIMEOUT=${TIMEOUT:-1800} run_vm gcov "$in_guest" | tr -d '\r' >"$work/gcov"
if [ "${BENCH_RAW:-}" ]; then sed "s/^/# /" "$work/gcov"; fi
grep -q "^ours_reset [1-9]" "$work/gcov" || die "not all figures"

awk -f "$here/table.awk" -v dir="$work" "$here/gcov/figures" "$here/gcov/bounds"
