# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
dir=/sys/kernel/debug/relay_app_forgotten
load
unload
echo 1 >$dir/create
[ -e $dir/cpu0 ]
echo 0 >$dir/create
refused [ -e $dir/cpu0 ]
echo 1 >$dir/create
exec 5<$dir/cpu0
rmmod ferrotrace_relay
refused [ -e $dir ]
cat <&5 >/dev/null
exec 5<&-
insmod "$FERROTRACE_KDIR/kernel/ferrotrace/ferrotrace_relay.ko"
