# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
dir=/sys/kernel/debug/fast_channel_forgotten
load
[ "$(cat $dir/format)" = text ]
cat $dir/cpu* | grep left >/dev/null
exec 3<$dir/cpu0
unload
says "has left a channel"
refused [ -e $dir ]
cat <&3 >/dev/null
exec 3<&-
load
[ -e $dir/cpu0 ]
unload
rmmod ferrotrace_fast_relay
insmod "$FERROTRACE_KDIR/kernel/ferrotrace/ferrotrace_fast_relay.ko"
