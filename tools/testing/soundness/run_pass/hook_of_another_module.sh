# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# samples/outside: an exit in safe Rust on the hook of another module, with that module's crate.
outside=$(dirname "$MODULES")/outside
packets=/sys/kernel/debug/packets
insmod "$outside/packets.ko"
echo 100 >$packets
insmod "$outside/packet_count.ko"
grep 'exit=count .* module=packet_count ' /sys/kernel/debug/gkhi/hooks
echo 1500 >$packets
echo 1501 >$packets
[ "$(cat $packets)" = "2 7" ]
refused rmmod packets
rmmod packet_count
says "packet_count: 2 packets"
echo 1501 >$packets
[ "$(cat $packets)" = "3 7" ]
rmmod packets
