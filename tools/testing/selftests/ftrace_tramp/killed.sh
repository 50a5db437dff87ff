#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# ftrace gives up, as it does when it finds unknown code: after that nothing changes. Functions
# continue to call their trampolines, safely. Prints KTAP. Afterwards the guest is of no use.
#
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"
self=$DEBUGFS/ftrace_tramp_selftest
ctl=$self/ctl
engine=$MODULE_DIR/rust_ftrace_tramp.ko

after() { ! dmesg | grep -E 'WARNING:|BUG:|Oops'; }

address() { awk -v name="$1" '$3 == name { print $1 }' /proc/kallsyms; }

# refused COMMAND: with -ENODEV
refused() {
	if echo "$1" >$ctl 2>"$work/error"; then return 1; fi
	cat "$work/error"
	grep -q 'No such device' "$work/error"
}

# Several ops on functions, one of which has per-function data and is called through our
# trampolines.
prepared() {
	address fts_a >"$work/functions"
	echo register >$ctl && echo "attach_all file=$work/functions" >$ctl && echo call >$ctl
}

gives_up() {
	echo "kill at=0x$(address ftrace_kill)" >$ctl && echo call >$ctl
}

# Every other request gets an error, and changes nothing.
refuses() {
	refused unregister && refused detach_all && refused attach && echo call >$ctl
}

# The engine's code is freed, the trampolines are not.
engine_goes() {
	local i
	for ((i = 0; i < 3; i++)); do
		rmmod rust_ftrace_tramp && echo call >$ctl && insmod "$engine" && echo call >$ctl || return 1
	done
	rmmod rust_ftrace_tramp && echo call >$ctl || return 1
	dmesg | grep "the engine's trampolines stay"
}

# Trampolines that functions may call are kept, even without users.
probes_stay() {
	local module=$MODULE_DIR/rust_kprobes.ko
	[ -e "$module" ] || { skip="the engine is built in" && return; }
	! rmmod rust_kprobes && [ -e /sys/module/rust_kprobes ]
}

echo "TAP version 13"
load_ours rust_kprobes rust_ftrace_tramp
load_file "$FERROTRACE_KDIR/selftests-ftrace_tramp/module/ftrace_tramp_selftest.ko"
checks killed. prepared gives_up refuses probes_stay
if [ -e "$engine" ]; then checks killed. engine_goes; fi
finish
