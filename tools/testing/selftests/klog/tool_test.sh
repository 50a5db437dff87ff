#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "ferrotrace klog" on the running kernel, with klog_selftest.ko and klog_relay.ko loaded; prints
# TAP. FERROTRACE is the command.
# Not pipefail: a refusal is searched in the command's output before it fails.
set -u

: "${FERROTRACE:?}"
K=/sys/kernel/debug/klog
CTL=/sys/kernel/debug/klog_selftest/ctl
cpus=$(nproc)
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"

ctl() { printf '%s\n' "$*" >$CTL; }

# begin OPTIONS...: starts it; its output is in $work/out and $work/err.
begin() {
	"$FERROTRACE" klog "$@" >"$work/out" 2>"$work/err" &
	pid=$!
	for _ in $(seq 1200); do
		[ "$(cat $K/enabled)" = 1 ] && return
		sleep 0.05
	done
	cat "$work/err"
	return 1
}

end() {
	kill "-${1:-INT}" "$pid"
	wait "$pid" || return 1
	cat "$work/err"
	[ "$(cat $K/create)" = 0 ] && [ ! -e $K/cpu0 ]
}

text='text--5-7-0xff--1099511627776-c-%'

texts_to_stdout() {
	begin -b 4096 -n 8 || return 1
	for _ in $(seq 300); do ctl print text=1; done
	end || return 1
	for _ in $(seq 300); do printf %s "$text"; done | cmp - "$work/out"
}

all_cpus_to_one_file() {
	local cpu
	begin -b 16384 -n 16 -o "$work/file" || return 1
	ctl reset
	for ((cpu = 0; cpu < cpus; cpu++)); do ctl log cpu=$cpu len=100 count=500; done
	end TERM || return 1
	[ ! -s "$work/out" ] || return 1
	grep "total: $((cpus * 50000)) bytes in .*; 0 messages dropped" "$work/err" || return 1
	[ "$(stat -c %s "$work/file")" = $((cpus * 50000)) ] || return 1
	# every message, whole, in the order of its CPU: its length, sequence number and CPU
	od -A n -v -t u4 -w100 "$work/file" | awk -v cpus="$cpus" '
		$2 != 100 || $3 != next_seq[$4 % 65536]++ { print "message", NR, $0; bad = 1 }
		END { exit bad || NR != cpus * 500 }'
}

a_file_for_each_cpu() {
	local cpu
	begin -b 16384 -n 16 -o "$work/each" --per-cpu || return 1
	for ((cpu = 0; cpu < cpus; cpu++)); do ctl log cpu=$cpu len=64 count=$((cpu + 1)); done
	end || return 1
	for ((cpu = 0; cpu < cpus; cpu++)); do
		[ "$(stat -c %s "$work/each$cpu")" = $(((cpu + 1) * 64)) ] || return 1
	done
}

drops_are_reported() {
	begin -b 4096 -n 2 -o "$work/drops" || return 1
	kill -STOP "$pid"
	until ! grep -h '^State:' "/proc/$pid/task/"*/status | grep -qv 'T (stopped)'; do sleep 0.01; done
	ctl log len=1000 count=100
	kill -CONT "$pid"
	end || return 1
	local bytes dropped
	bytes=$(stat -c %s "$work/drops")
	dropped=$(sed -n 's/.*; \([0-9]*\) messages dropped.*/\1/p' "$work/err")
	[ "$dropped" -gt 0 ] && [ $((bytes / 1000 + dropped)) = 100 ]
}

a_second_is_refused() {
	begin || return 1
	"$FERROTRACE" klog -d 1 && return 1
	"$FERROTRACE" klog -d 1 2>&1 | grep "there is a channel already" || return 1
	[ "$(cat $K/enabled)" = 1 ] || return 1
	end
}

bad_sizes_are_refused() {
	"$FERROTRACE" klog -b 7 -d 1 2>&1 | grep "out of range" || return 1
	"$FERROTRACE" klog -b 0 -d 1 2>&1 | grep "subbuf_size" || return 1
	[ "$(cat $K/create)" = 0 ]
}

# Nothing is recorded in silence where another handler is registered.
another_handler_is_told() {
	local status=0
	ctl register which=a
	"$FERROTRACE" klog -d 1 >/dev/null 2>"$work/err" || status=$?
	ctl unregister
	cat "$work/err"
	[ $status != 0 ] && grep -i "enabled.*busy" "$work/err" && [ "$(cat $K/create)" = 0 ]
}

the_time_ends_it() {
	timeout 300 "$FERROTRACE" klog -b 4096 -n 4 -d 0.3 -o "$work/time" || return 1
	[ "$(cat $K/create)" = 0 ]
}

no_application() {
	"$FERROTRACE" klog --dir /sys/kernel/debug/nothing 2>&1 | grep "no such directory"
}

echo "TAP version 13"
checks tool. texts_to_stdout all_cpus_to_one_file a_file_for_each_cpu drops_are_reported a_second_is_refused \
	another_handler_is_told bad_sizes_are_refused the_time_ends_it no_application
finish
