#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The exporter of coverage, of kernels that are compiled for coverage as a whole: mainline's and ours. A nanosecond is an
# instruction. BENCH_VARIANTS= measures only some of the kernel variants, which leaves figures out; BENCH_RAW=1 shows all that was
# measured.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../../suites/lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-gcov-mainline gcov}
here=$REPO/tools/testing/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# In the guest. All but booting is measured twice, as the first time finds nothing in caches.
# shellcheck disable=SC2016
in_guest='
	. tools/testing/selftests/lib/kit.sh
	measure=$FERROTRACE_KDIR/bench-gcov/measure
	gcov=$DEBUGFS/gcov
	for i in 1 2; do
		set -- $($measure tree $gcov)
		echo "tree $1" && echo "files $2" && echo "tree_bytes $3"
		if [ -e $gcov/vmlinux ]; then
			set -- $($measure file $gcov/vmlinux)
			echo "file $1" && echo "file_bytes $3"
		fi
		set -- $($measure write $gcov/reset)
		echo "reset $1"
	done
	dmesg | sed -n "s/.*initcall \(gcov_fs_init\|gcov_init\|__rust_gcov[^ +]*\)[+ ].* returned 0 after \([0-9]*\) usecs.*/register \2/p" |
		awk "{ sum += \$2 } END { print \"register\", sum * 1000 }"
	awk "/^(dentry|debugfs_inode_cache|kmalloc-[0-9a-z]*) /" /proc/slabinfo | sed "s/^/slab /"
	awk "/^(Slab|VmallocUsed|MemFree):/ { print \"mem_\" \$1, \$2 * 1024 }" /proc/meminfo | tr -d :
'

for variant in $BENCH_VARIANTS; do
	kernel=$REPO/integration/kernel.sh
	"$kernel" build "$variant" >/dev/null
	kdir=$("$kernel" kdir "$variant")
	mkdir -p "$kdir/bench-gcov"
	gcc -O2 -Wall -Wno-unused-parameter -o "$kdir/bench-gcov/measure" "$here/gcov/measure.c"
	APPEND="initcall_debug log_buf_len=4M" ICOUNT=1 CPUS=1 MEM=2G TIMEOUT=${TIMEOUT:-1800} run_vm "$variant" "$in_guest" |
		tr -d '\r' >"$work/$variant"
	if [ "${BENCH_RAW:-}" ]; then sed "s/^/# $variant: /" "$work/$variant"; fi
	grep -q "^reset [1-9]" "$work/$variant" || die "not all figures from $variant"
done

awk -f "$here/table.awk" -v dir="$work" "$here/gcov/figures" "$here/gcov/bounds"
