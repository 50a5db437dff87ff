#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions that are traced since before there are initcalls, as the command line asks ("ftrace=function
# ftrace_filter=do_one_initcall initcall_debug"): every call is there. Prints KTAP.
#
#	boot.sh VARIANT
#
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
tracing=/sys/kernel/tracing
list=$DEBUGFS/ftrace_tramp/list

# Each initcall is traced once, from before other CPUs were started, when there was no engine, to
# the last. Quirks of PCI devices, and, by the task 0, those of consoles are called in another way,
# and print the same line.
every_call() {
	local said traced early
	said=$(dmesg | grep -c '\] calling  .* @ [1-9]')
	traced=$(grep -c 'do_one_initcall <-' $tracing/trace)
	early=$(dmesg | sed '/smp: Brought up/q' | grep -c '\] calling  .* @ [1-9]')
	echo "$said initcalls, $early of them before other CPUs, $traced traced"
	[ "$said" = "$traced" ] && [ "$said" -gt 50 ] && [ "$early" -gt 0 ]
}

# Our engine has made the trampoline that they call.
its_trampoline() {
	if [ "$variant" = mainline ]; then
		skip="mainline's engine"
		return
	fi
	cat $list
	[ "$(grep -c ' plain ' $list)" = 1 ] && [ "$(grep -c $'t ftrace_trampoline\t' /proc/kallsyms)" = 1 ]
}

it_ends() {
	echo nop >$tracing/current_tracer && echo >$tracing/set_ftrace_filter
}

variant=$1
echo "TAP version 13"
mountpoint -q $tracing || mount -t tracefs tracefs $tracing || bail "no tracefs"
[ "$(cat $tracing/current_tracer)" = function ] || bail "nothing is traced"
checks boot. every_call its_trampoline it_ends
finish
