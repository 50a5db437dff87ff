# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
dir=/sys/kernel/debug/relay_app_listener
load relay_app_listener
echo 1 >$dir/create
echo 1 >$dir/enabled
echo 0 >$dir/enabled
[ "$(dmesg | grep -c 'relay_app_listener: enabled: ')" = 2 ]
unload relay_app_listener
echo 1 >$dir/enabled
echo 0 >$dir/create
[ "$(dmesg | grep -c 'relay_app_listener: enabled: ')" = 2 ]
# The application is unloaded with the API.
rmmod ferrotrace_relay
insmod "$FERROTRACE_KDIR/kernel/ferrotrace/ferrotrace_relay.ko"
