#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Compares a kernel's choice of places for optprobes with ours: run it in a guest of mainline's
# engine.
#
#	jump-places.sh PLACES	the output of jump-places for the running kernel
#
# Prints for each place that could be probed: our answer, the kernel's answer ("yes": [OPTIMIZED]),
# offset, symbol, reason; and the number of places that kprobe_events refused.
set -uo pipefail

places=${1:?usage: jump-places.sh PLACES}
tracing=/sys/kernel/tracing
list=/sys/kernel/debug/kprobes/list
mountpoint -q $tracing || mount -t tracefs tracefs $tracing || exit 1
mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug || exit 1
echo 1 >/sys/kernel/rcu_expedited
text=0x$(awk '$3 == "_text" { print $1; exit }' /proc/kallsyms)
refused=0
while read -r offset _; do
	printf 'p:jp/at_%s _text+%s\n' "$offset" "$offset" >>$tracing/kprobe_events 2>/dev/null || refused=$((refused + 1))
done <"$places"
echo 0 >$tracing/tracing_on
echo 1 >$tracing/events/jp/enable
# The optimiser works through them a tick at a time, and waits for tasks.
before=-1
for _ in $(seq 60); do
	sleep 1
	now=$(grep -c OPTIMIZED $list)
	if [ "$now" = "$before" ] && [ "$now" -gt 0 ]; then same=$((same + 1)); else same=0; fi
	before=$now
	if [ "$same" = 8 ]; then break; fi
done
cat $list >/tmp/jump-list
while read -r offset ours symbol reason; do
	address=$(printf '%x' $((text + offset)))
	line=$(grep -m 1 "^$address " /tmp/jump-list) || continue
	case $line in
	*OPTIMIZED*) kernel=yes ;;
	*) kernel=no ;;
	esac
	echo "PLACE $ours $kernel $offset $symbol $reason"
done <"$places"
echo "REFUSED $refused"
echo 0 >$tracing/events/jp/enable
