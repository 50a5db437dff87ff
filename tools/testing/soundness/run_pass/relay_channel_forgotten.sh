# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
dir=/sys/kernel/debug/relay_channel_forgotten
load
unload
[ "$(cat $dir/format)" = "time, number" ]
cat $dir/cpu0 $dir/dropped $dir/cpu0.padding >/dev/null
refused load
rmmod ferrotrace_relay
says "that a client has leaked"
refused [ -e $dir ]
if [ -e /sys/module/rust_relay ]; then
	rmmod rust_relay
	insmod "$FERROTRACE_KDIR/kernel/ferrotrace/rust_relay.ko"
fi
insmod "$FERROTRACE_KDIR/kernel/ferrotrace/ferrotrace_relay.ko"
load
unload
rmmod ferrotrace_relay
insmod "$FERROTRACE_KDIR/kernel/ferrotrace/ferrotrace_relay.ko"
