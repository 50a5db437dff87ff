# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Several times, so that the module is also unloaded while the work is under way.
for _ in 1 2 3 4; do
	load
	# unless another task has forked already
	echo 1 2>/dev/null >/sys/kernel/debug/dropped_app/create || :
	(true)
	unload
	for dir in relay fast app; do refused [ -e /sys/kernel/debug/dropped_$dir ]; done
done
[ "$(dmesg | grep -c "dropped$")" = 4 ]
