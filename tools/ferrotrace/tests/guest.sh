#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of the command on real channels. Run as root in a guest that has the sample clients as
# modules, with FERROTRACE set to the command, on any variant:
#	make vm VARIANT=modular CMD='FERROTRACE=... tools/ferrotrace/tests/guest.sh'
# Prints KTAP.
set -uo pipefail

FERROTRACE=${FERROTRACE:?the command}
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../../testing/selftests/lib/testlib.sh"
C=$DEBUGFS/relay_c_client
SCHED=$DEBUGFS/relay_sched
CPUS=$(nproc)

# Cleans up after a failed check, so that the next one finds neither client nor recorder.
clean_up() {
	local m
	kill_jobs
	for m in relay_c_client relay_sched; do
		if lsmod | grep -q "^$m "; then rmmod $m; fi
	done
}

# lines FROM TO: writes numbered lines of different lengths to the C client, in turn from each CPU.
lines() {
	local cpu
	for ((cpu = 0; cpu < CPUS; cpu++)); do
		# shellcheck disable=SC2016
		taskset -c $cpu bash -c '
			for ((i = $1 + $3; i <= $2; i += $4)); do
				printf "%08d%.*s\n" $i $((i % 60)) "............................................................" >'"$C"'/log
			done' _ "$1" "$2" $cpu "$CPUS" || return 1
	done
}

# complete TO DIR...: succeeds if the recordings have exactly the lines 1 to TO, once, in order on
# each CPU.
complete() {
	local to=$1 cpu i
	shift
	for ((cpu = 0; cpu < CPUS; cpu++)); do
		cat "${@/%//cpu$cpu}" >"$work/all$cpu" || return 1
		for ((i = 1 + cpu; i <= to; i += CPUS)); do
			printf '%08d%.*s\n' $i $((i % 60)) "............................................................"
		done >"$work/want$cpu"
		cmp "$work/all$cpu" "$work/want$cpu" || return 1
	done
}

# recording PID OUT: waits until the recorder has opened the buffers of all online CPUs; fails if
# the recorder exits first.
recording() {
	local cpu
	for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
		[ "$(cat "$cpu/online" 2>/dev/null || echo 1)" = 1 ] || continue
		until [ -e "$2/${cpu##*/}" ]; do
			kill -0 "$1" || return 1
			sleep 0.05
		done
	done
}

# record OUT FROM TO ARGS...: records the C client's channel while lines FROM to TO are written,
# then interrupts the recorder.
record() {
	local out=$1 from=$2 to=$3 pid status
	shift 3
	"$FERROTRACE" relay record "$C/cpu" -o "$out" --header 4 "$@" >"$out.log" 2>&1 &
	pid=$!
	recording $pid "$out" || return 1
	lines "$from" "$to"
	kill -INT $pid
	wait $pid
	status=$?
	cat "$out.log"
	! grep -q warning "$out.log" && [ $status = 0 ]
}

# with_c_client NAME METHOD...: makes successive recordings, one with each method.
with_c_client() {
	local name=$1 method n=0 dirs=() from=1
	shift
	insmod "$MODULE_DIR/samples/relay_c_client.ko" subbuf_size=4096 n_subbufs=4 || return 1
	for method in "$@"; do
		n=$((n + 1))
		dirs+=("$work/$name$n")
		# shellcheck disable=SC2086
		record "$work/$name$n" $from $((from + 599)) ${method#mmap} || return 1
		from=$((from + 600))
	done
	complete $((from - 1)) "${dirs[@]}" || return 1
	rmmod relay_c_client
}

mainline_refuses_mmap() {
	insmod "$MODULE_DIR/samples/relay_c_client.ko" || return 1
	"$FERROTRACE" relay record "$C/cpu" -o "$work/refused" --header 4 --duration 0.1 2>"$work/refused.err"
	[ $? = 1 ] || return 1
	grep -e 'refuses to map.*--read' "$work/refused.err" || return 1
	[ ! -e "$work/refused" ] || return 1
	rmmod relay_c_client
}

closed_while_recording() {
	insmod "$MODULE_DIR/samples/relay_c_client.ko" subbuf_size=4096 n_subbufs=4 || return 1
	"$FERROTRACE" relay record "$C/cpu" -o "$work/closed" --read --header 4 --json >"$work/closed.json" &
	local pid=$!
	recording $pid "$work/closed" || return 1
	rmmod relay_c_client || return 1
	wait $pid || return 1
	grep '"stop": "closed"' "$work/closed.json"
}

# busy: runs 40 short processes in sequence on each online CPU.
busy() {
	local pids=() cpu
	for ((cpu = 0; cpu < CPUS; cpu++)); do
		taskset -c $cpu bash -c 'for _ in {1..40}; do sleep 0.005; done' &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# sched OUT ARGS...: records scheduler switches under load.
sched() {
	local out=$1 pid status
	shift
	"$FERROTRACE" relay record "$SCHED/cpu" -o "$out" "$@" >"$out.log" 2>&1 &
	pid=$!
	recording $pid "$out" || return 1
	busy
	kill -INT $pid
	wait $pid
	status=$?
	cat "$out.log"
	[ $status = 0 ]
}

# whole OUT: succeeds if the recording decodes to the last byte, in order, with records of every
# CPU.
whole() {
	"$FERROTRACE" relay merge "$1" >"$1.txt" 2>"$1.err" || return 1
	tail -n $((CPUS + 3)) "$1.txt"
	cat "$1.err"
	[ "$(grep -c '^cpu [0-9]*: [1-9]' "$1.txt")" = "$CPUS" ] || return 1
	! grep -q 'truncated\|earlier' "$1.err" || return 1
	# Plausible fields: a torn record would not have them.
	! grep '^\[' "$1.txt" | grep -vEq "^\[[0-9]{3}\] [0-9]+\.[0-9]{9} sched_switch: preempt=[01] prev_pid=[0-9]+ next_pid=[0-9]+ prev_comm=[[:print:]]+ next_comm=[[:print:]]+$"
}

# counted OUT: succeeds if the metadata's record count of a fast channel is right and it has no
# losses.
counted() {
	[ "$KIND" = fast ] || return 0
	local records
	records=$(awk -F'[:,]' '/"records": [0-9]/ { sum += $2 } END { print sum }' "$1/metadata.json")
	grep -c '^\[' "$1.txt"
	[ "$records" = "$(grep -c '^\[' "$1.txt")" ] && grep '"dropped": 0' "$1/metadata.json"
}

# chained OUT...: succeeds if, on each CPU, each record switches from the thread that the previous
# one switched to. Covers all recordings in sequence.
chained() {
	local out cpu
	for ((cpu = 0; cpu < CPUS; cpu++)); do
		for out in "$@"; do
			grep "^\[$(printf %03d $cpu)\]" "$out.txt"
		done | sed -E 's/.*prev_pid=([0-9]+) next_pid=([0-9]+).*/\1 \2/' |
			awk -v cpu=$cpu 'NR > 1 && $1 != last { print "cpu", cpu, "record", NR, "comes from", $1, "not", last; bad = 1 }
				{ last = $2 } END { exit bad || NR < 10 }' || return 1
	done
}

# kind KIND: selects the kind of channels for the Rust client's tests, and their directories' prefix
# $S.
kind() {
	KIND=$1
	S=$work/$1
}

# sched_module ARGS...: loads the client with a channel of the selected kind.
sched_module() {
	local fast=0
	[ "$KIND" = compatible ] || fast=1
	insmod "$MODULE_DIR/samples/relay_sched.ko" fast=$fast subbuf_size=4096 "$@"
}

# lost OUT: prints the non-zero loss counters of a recording; fails if it has none.
lost() {
	grep -Eo '"(lost_subbufs|overwritten_bytes|lost_records|dropped)": [1-9][0-9]*' "$1/metadata.json"
}

# as_babeltrace: converts report lines of scheduler switches to babeltrace2's format.
as_babeltrace() {
	sed -nE 's/^\[0*([0-9]+)\] ([0-9]+)\.([0-9]{9}) sched_switch: preempt=([0-9]+) prev_pid=([0-9]+) next_pid=([0-9]+)'\
' prev_comm=(.*) next_comm=(.*)$/[\2\3] sched_switch: { cpu_id = \1 }, { preempt = \4, prev_pid = \5, next_pid = \6,'\
' prev_comm = "\7", next_comm = "\8" }/p'
}

# trace_of OUT: succeeds if the Common Trace Format trace has the same records, field by field, in
# order of time, with their date.
trace_of() {
	"$FERROTRACE" relay merge "$1" --format ctf -o "$1.ctf" || return 1
	babeltrace2 --clock-cycles --no-delta "$1.ctf" | sed 's/^\[0*/[/' >"$1.read" || return 1
	sort -c -t']' -k1.2,1n "$1.read" || return 1
	as_babeltrace <"$1.txt" | sort >"$1.want"
	wc -l "$1.want" "$1.read"
	[ "$(wc -l <"$1.want")" -ge $((10 * CPUS)) ] && sort "$1.read" | cmp - "$1.want" || return 1
	[ "$(find "$1.ctf" -name 'cpu*' | wc -l)" = "$CPUS" ] || return 1
	# The date of the first record is after boot and before now.
	babeltrace2 --clock-seconds --no-delta "$1.ctf" |
		awk -v now="$(date +%s)" -v up="$(cut -d. -f1 /proc/uptime)" -F'[][.]' '
		NR == 1 { print "first record:", $2, "now:", now; wrong = !($2 >= now - up - 1 && $2 <= now) }
		END { exit wrong || NR == 0 }'
}

# A full disk gives an error and no trace.
trace_on_a_full_disk() {
	local message
	mkdir "$S.small" && mount -t tmpfs -o size=32k tmpfs "$S.small" || return 1
	message=$("$FERROTRACE" relay merge "$S"1 --format ctf -o "$S.small/ctf" 2>&1)
	[ $? = 1 ] || return 1
	echo "$message"
	umount "$S.small"
	[[ $message == *"No space left on device"* ]]
}

# The buffers have room for all records between recordings.
rust_client() {
	sched_module n_subbufs=512 || return 1
	sched "$S"1 && whole "$S"1 && counted "$S"1 && chained "$S"1
}

rust_client_again() {
	# The buffers keep records between recordings.
	sched "$S"2 && whole "$S"2 || return 1
	sched "$S"3 --read && whole "$S"3 && counted "$S"3 || return 1
	sched "$S"4 --no-partial && whole "$S"4 || return 1
	sched "$S"5 && whole "$S"5 || return 1
	! lost "$S"2 && ! lost "$S"3 && ! lost "$S"4 && ! lost "$S"5 || return 1
	chained "$S"[12345]
}

# A recording on a full file system and a second one elsewhere have all records of the buffers.
full_disk() {
	local status
	sched_module n_subbufs=64 || return 1
	for _ in 1 2 3 4; do busy; done
	echo 0 >$SCHED/enabled
	mkdir "$S.full" && mount -t tmpfs -o size=24k tmpfs "$S.full" || return 1
	"$FERROTRACE" relay record "$SCHED/cpu" -o "$S.full/6" --duration 20 2>"$S.err"
	status=$?
	cat "$S.err"
	[ $status = 1 ] && grep 'no space left' "$S.err" || return 1
	cp -r "$S.full/6" "$S"6 && umount "$S.full" || return 1
	"$FERROTRACE" relay record "$SCHED/cpu" -o "$S"7 --duration 0.5 || return 1
	"$FERROTRACE" relay merge "$S"6 >"$S"6.txt && "$FERROTRACE" relay merge "$S"7 >"$S"7.txt || return 1
	chained "$S"6 "$S"7 || return 1
	rmmod relay_sched
}

stat_agrees() {
	"$FERROTRACE" relay stat "$SCHED/cpu" || return 1
	"$FERROTRACE" relay stat "$SCHED/cpu" --json | grep '"subbuf_size":4096' || return 1
	# Two reports, each with all CPUs.
	[ "$("$FERROTRACE" relay stat "$SCHED/cpu" --interval 0.2 --count 2 | grep -c '^ *[0-9]')" = $((2 * CPUS)) ]
}

rust_client_closes() {
	# Records since the last recording may have gaps.
	echo 0 >$SCHED/enabled
	"$FERROTRACE" relay record "$SCHED/cpu" -o "$S.gaps" --duration 0.2 || return 1
	echo 1 >$SCHED/enabled
	"$FERROTRACE" relay record "$SCHED/cpu" -o "$S"8 --json >"$S"8.json &
	local pid=$!
	recording $pid "$S"8 || return 1
	busy
	rmmod relay_sched || return 1
	wait $pid || return 1
	cat "$S"8.json
	grep '"stop": "closed"' "$S"8.json || return 1
	whole "$S"8 && chained "$S"8
}

flight_recorder() {
	sched_module n_subbufs=4 overwrite=1 || return 1
	busy
	busy
	busy
	sched "$S.flight" && whole "$S.flight" && lost "$S.flight" || return 1
	rmmod relay_sched
}

hotplug() {
	[ -e /sys/devices/system/cpu/cpu1/online ] || return 1
	echo 0 >/sys/devices/system/cpu/cpu1/online || return 1
	sched_module n_subbufs=512 || return 1
	"$FERROTRACE" relay record "$SCHED/cpu" -o "$S.hotplug" &
	local pid=$!
	recording $pid "$S.hotplug" || return 1
	[ ! -e "$S.hotplug/cpu1" ] || return 1
	echo 1 >/sys/devices/system/cpu/cpu1/online || return 1
	recording $pid "$S.hotplug" || return 1
	busy
	kill -INT $pid
	wait $pid || return 1
	whole "$S.hotplug" || return 1
	rmmod relay_sched
}

load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay
echo "TAP version 13"
if [ "${FERROTRACE_VARIANT:-}" = mainline ]; then
	check "C client: the refusal of mmap is explained" mainline_refuses_mmap
	check "C client: read, four times" with_c_client read --read --read --read
else
	check "C client: mmap, four times" with_c_client mmap mmap mmap mmap
	check "C client: read, four times" with_c_client read --read --read --read
	check "C client: mmap and read by turns" with_c_client turns mmap --read mmap --read mmap
fi
check "C client: unloaded while it is recorded" closed_while_recording
for kind in compatible fast; do
	kind $kind
	check "Rust client, $kind: recorded" rust_client
	check "Rust client, $kind: stat" stat_agrees
	check "Rust client, $kind: four recordings more, without a gap" rust_client_again
	check "Rust client, $kind: unloaded while it is recorded" rust_client_closes
	# Not earlier: records written during these checks would fill the buffers.
	check "Rust client, $kind: the recording as a trace" trace_of "$S"1
	check "Rust client, $kind: a trace on a full disk" trace_on_a_full_disk
	check "Rust client, $kind: flight recorder" flight_recorder
	check "Rust client, $kind: a CPU comes up" hotplug
done
check "Rust client, fast: a full disk" full_disk
finish
