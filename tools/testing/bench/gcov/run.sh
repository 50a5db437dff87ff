#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The exporter of coverage, in a kernel that is compiled for coverage as a whole: mainline's, and then ours, which takes over from
# it. A nanosecond is an instruction.
# shellcheck source=tools/testing/bench/lib.sh
. "$(dirname "$0")/../lib.sh"

# In guests: bytes of objects in the slabs that exporters use, without those that can be dropped.
# shellcheck disable=SC2016
kit='
	. tools/testing/selftests/lib/testlib.sh
	slabs() {
		local i
		for cache in /sys/kernel/slab/*; do [ -L "$cache" ] || echo 1 >"$cache/shrink"; done
		for i in 1 2 3; do
			sync
			echo 3 >/proc/sys/vm/drop_caches
			sleep 1
		done
		awk "/^(kmalloc-|debugfs_inode_cache|dentry)/ { sum += \$2 * \$4 } END { print sum }" /proc/slabinfo
	}
'

# In the guest. All except making the files is measured twice, as the first time finds empty caches.
# The cost of making ours is CPU time, as it waits for grace periods, and includes the removal of
# mainline's.
# shellcheck disable=SC2016
in_guest='
	echo "with_mainline $(slabs)"
	measure=$FERROTRACE_KDIR/bench-gcov/measure
	gcov=$DEBUGFS/gcov
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
	set -- $($measure insmod $MODULE_DIR/rust_gcov.ko)
	echo "ours_register $1"
	sleep 5
	for i in 1 2; do
		set -- $($measure file $gcov/vmlinux)
		echo "ours_file $1" && echo "ours_file_bytes $3"
	done
	exporter ours
'

# In another guest, in which mainline has made no files.
# shellcheck disable=SC2016
without_files='
	without=$(slabs)
	echo "without $without"
	insmod $MODULE_DIR/rust_gcov.ko
	sleep 5
	echo "ours_memory $(($(slabs) - without))"
'

built gcov
gcc -O2 -Wall -Wno-unused-parameter -o "$modules/measure" "$here/measure.c"
# guest APPEND COMMANDS
guest() {
	APPEND="$1 log_buf_len=4M" ICOUNT=1 CPUS=1 MEM=2G TIMEOUT=${TIMEOUT:-1800} run_vm gcov "$kit$2"
}
guest initcall_debug "$in_guest" | take gcov "ours_reset [1-9]"
guest "initcall_debug initcall_blacklist=gcov_fs_init" "$without_files" | take gcov "ours_memory [1-9]"
awk '$1 == "with_mainline" { with = $2 } $1 == "without" { print "mainline_memory", with - $2 }' "$figures/gcov" |
	take gcov "mainline_memory [1-9]"

table
