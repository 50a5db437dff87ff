#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Traces a fixed series of direct writes and reads of a loop device with the distribution's blktrace
# and blkparse, relay clients of independent authors. Run in the guest, as root.
#
#	blktrace.sh OUTPUT	the number of events of each action and direction, sorted, in OUTPUT
#
# Fails if an event was dropped. The status is 3 if blktrace itself gave an event the number of
# another CPU, which is possible when the task migrates between reading that number and writing the
# event (__blk_add_trace()); blkparse leaves such an event out.
set -euo pipefail

output=${1:?usage: blktrace.sh OUTPUT}
blocks=64		# of 4096 bytes, written and then read
probe=8192		# the sector that shows when tracing has begun

dir=$(mktemp -d)
mount -t tmpfs tmpfs "$dir"
truncate -s 8M "$dir/disk"
loop=$(losetup --find --show "$dir/disk")
tracer=
cleanup() {
	[ -z "$tracer" ] || kill "$tracer" 2>/dev/null || true
	losetup -d "$loop" || true
	umount "$dir" || true
	rmdir "$dir"
}
trap cleanup EXIT

# Small sub-buffers, which blktrace reads when they are full: once a probe's sub-buffer has been
# read, tracing has begun.
blktrace -d "$loop" -D "$dir" -o trace -b 4 -n 64 >"$dir/blktrace.log" 2>&1 &
tracer=$!
for ((i = 0; ; i++)); do
	kill -0 "$tracer" 2>/dev/null || { cat "$dir/blktrace.log"; exit 1; }
	dd if=/dev/zero of="$loop" oflag=direct bs=512 count=1 seek="$probe" conv=notrunc status=none
	[ -z "$(find "$dir" -name 'trace.blktrace.*' -size +0)" ] || break
	[ "$i" -lt 1000 ] || { echo "no event within 1000 probes"; exit 1; }
done

dd if=/dev/zero of="$loop" oflag=direct bs=4096 count="$blocks" conv=notrunc status=none
dd if="$loop" of=/dev/null iflag=direct bs=4096 count="$blocks" status=none

kill -INT "$tracer"
wait "$tracer" || true
tracer=
cat "$dir/blktrace.log"

# Only events with a place on the disk; neither the probes nor udev's read-ahead after them.
blkparse -q -D "$dir" -i trace -f 'event %a %d %S %n\n' >"$dir/events" 2>"$dir/blkparse.log"
cat "$dir/blkparse.log"
if grep -q 'trace info has error' "$dir/blkparse.log"; then exit 3; fi
awk -v probe="$probe" '$1 == "event" && $5 > 0 && $4 != probe && $3 !~ /A/ { print $2, $3 }' "$dir/events" | sort | uniq -c |
	awk '{ print $2, $3, $1 }' >"$output"
cat "$output"

grep -q 'dropped 0' "$dir/blktrace.log" || { echo "events were dropped"; exit 1; }
for event in "Q W" "C W" "Q R" "C R"; do
	grep -q -x "${event}[A-Z]* $blocks" "$output" || { echo "not $blocks events: $event"; exit 1; }
done
