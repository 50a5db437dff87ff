#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The jobs of Documentation/cookbook.rst, in a guest with reserve_mem=4M:4096:relay_sched that keeps its memory: the first boot
# crashes, and the second one finds its records. Arguments are those of cookbook.py. $FERROTRACE is the command.
set -euo pipefail

mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
if ! [ -e "$FERROTRACE_OUT/crashed" ]; then
	modprobe relay_sched reserved=1 overwrite=1
	sleep 0.3
	touch "$FERROTRACE_OUT/crashed"
	sync
	echo c >/proc/sysrq-trigger
fi
modprobe ferrotrace_fast_relay
echo find relay_sched >/sys/kernel/debug/ferrotrace_flight/control
exec tools/testing/cookbook.py "$@"
