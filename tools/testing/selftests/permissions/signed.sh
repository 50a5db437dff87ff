#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Our modules where the kernel only accepts those signed with its key. Runs in a guest, as root.
#
#   signed.sh DIRECTORY    the output of "make modules_install"; those of the build directory are
#                          not signed
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
set -u

signed=${1:?usage: signed.sh DIRECTORY}
some=ferrotrace_kprobe
# Lockdown itself refuses unsigned modules, with another error than the loader of modules.
refusal="Key was rejected by service"
if [ "$(cat /sys/module/module/parameters/sig_enforce)" = N ]; then refusal="Operation not permitted"; fi

unsigned() {
	[ -e "$MODULE_DIR/$some.ko" ] && refused "$refusal" insmod "$MODULE_DIR/$some.ko"
}

# A changed byte of signed contents.
altered() {
	cp "$signed/$some.ko" "$work/altered.ko" && printf '\x41' | dd of="$work/altered.ko" bs=1 seek=9 conv=notrunc status=none &&
		! cmp -s "$signed/$some.ko" "$work/altered.ko" && refused "Key was rejected by service" insmod "$work/altered.ko"
}

# All but clients; none of them taints the kernel.
ours() {
	local module name
	for module in rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_kprobe_events \
		rust_ftrace_tramp ferrotrace_ftrace ferrotrace_ftrace_functions rust_gcov rust_dprobes clients/klog_relay; do
		# Or it is built in.
		[ -e "$MODULE_DIR/$module.ko" ] || continue
		insmod "$signed/$module.ko" || return 1
		name=${module##*/}
		echo "$name: $(cat "/sys/module/$name/taint")"
		[ -z "$(cat "/sys/module/$name/taint")" ] || return 1
	done
	[ -e /sys/module/$some ]
}

# A client in Rust has a probe.
client() {
	insmod "$signed/samples/kprobe_fork.ko" && grep 'kernel_clone' "$DEBUGFS/kprobes/list" && rmmod kprobe_fork
}

echo "TAP version 13"
checks "" unsigned altered ours client
finish
