# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Several times, so that the module is also unloaded while the work is under way.
for _ in 1 2 3 4; do
	load
	(true)
	sleep 0.1
	(true)
	unload
	(true)
done
[ "$(dmesg | grep -c "all have dropped themselves")" = 4 ]
