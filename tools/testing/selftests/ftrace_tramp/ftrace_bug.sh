#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# ftrace gives up while an ops is unregistered, or registered: functions that call its trampoline,
# or one of a set with it, no longer call the ops. On mainline, functions that only this ops traced
# call freed memory: they are left out there. Prints KTAP. Afterwards the guest is of no use.
#
#	ftrace_bug.sh NAME PARAMETERS...	of module/ftrace_bug.c
#
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"

dies() {
	local alone=0 kill
	kill=$(awk '$3 == "ftrace_kill" { print $1 }' /proc/kallsyms)
	if [ -d "$DEBUGFS/ftrace_tramp" ]; then alone=1; fi
	insmod "$FERROTRACE_KDIR/selftests-ftrace_tramp/module/ftrace_bug.ko" kill="0x$kill" alone=$alone "$@" &&
		dmesg | grep 'ftrace_bug: afterwards'
}

echo "TAP version 13"
load_ours rust_kprobes rust_ftrace_tramp
check "ftrace_bug.$1" dies "${@:2}"
finish
