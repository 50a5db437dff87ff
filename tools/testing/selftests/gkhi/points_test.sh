#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kernel's hook points that user space can make fire; the traps are among the cases in the module.
# shellcheck source=tools/testing/selftests/gkhi/common.sh
. "$(dirname "$0")/common.sh"

MODULE=$GKHI_SELFTESTS/gkhi_selftest_gcov.ko

# seen KEY: of the counters.
seen() { sed -n "s/^points .*\b$1=\([^ ]*\).*/\1/p" $SELF/ctl; }

# comes_to KEY WANT: waits a while for it.
comes_to() {
	local i
	for ((i = 0; i < 1200; i++)); do
		[ "$(seen "$1")" = "$2" ] && return
		sleep 0.05
	done
	echo "$1: $(seen "$1"), not $2"
	return 1
}

tasks() {
	ctl points on || return 1
	(
		printf gst_parent >/proc/self/comm
		for ((i = 0; i < 100; i++)); do (:); done
	)
	# the parent took its name when it was a task already
	comes_to forks 100 && comes_to exits 101 && ctl points off || return 1
	(printf gst_parent >/proc/self/comm; (:))
	comes_to forks 100
}

modules() {
	ctl points on && insmod "$MODULE" && comes_to states ,coming,live || return 1
	rmmod gkhi_selftest_gcov && comes_to states ,coming,live,going && ctl points off
}

gcov() {
	ctl points on && [ "$(seen objects)" = 0 ] && insmod "$MODULE" && rmmod gkhi_selftest_gcov || return 1
	seen objects
	[ "$(seen objects)" = 1 ] && ctl points off
}

online() { echo 1 >"$1"; }

cpus() {
	local cpu=/sys/devices/system/cpu/cpu1/online
	ctl points on && echo 0 >$cpu && [ "$(seen preparations)" = 0 ] || return 1
	echo 1 >$cpu && [ "$(seen preparations)" = 1 ] && [ "$(cat $cpu)" = 1 ] || return 1
	echo 0 >$cpu && ctl points keep_cpus_down || return 1
	refused "Operation not permitted" online $cpu || return 1
	[ "$(cat $cpu)" = 0 ] && [ "$(seen preparations)" = 2 ] && ctl points off || return 1
	echo 1 >$cpu && [ "$(cat $cpu)" = 1 ] && [ "$(seen preparations)" = 2 ]
}

# without POINT NAME TEST: skips it where the kernel does not have the hook point.
without() {
	if [ -n "$(field "$1" sites)" ]; then
		check "points.$2" "$2"
	else
		skipped "points.$2" "no $1"
	fi
}

echo "TAP version 13"
checks points. tasks modules
without gcov_object gcov
check points.cpus cpus
finish
