#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Steps of each boot of the guest, as root; the last one prints KTAP for all. FERROTRACE is the
# user-space command, and $FERROTRACE_OUT a directory of the host, where a boot leaves files for the
# next one.
#
#     run.sh cpus [BEFORE] die    one boot of several, of machines with the same memory and other
#     run.sh cpus [BEFORE] end    numbers of processors: checks the records of the boot with
#                                 $FERROTRACE_OUT BEFORE, and dies, or prints KTAP for both
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
: "${FERROTRACE:?the user-space command}"

out=$FERROTRACE_OUT
mapfile -t cpus < <(seq 0 $(($(nproc) - 1)))
boot=$(cat "$out/boot" 2>/dev/null || echo 1)
echo $((boot + 1)) >"$out/boot"
[ "$boot" -le 7 ] || exit 1
# Where the kernel is in this boot.
sed -n 's/^ *\([0-9a-f]*\)-.* : Kernel code$/\1/p' /proc/iomem >>"$out/places"
exec 3>&1 >>"$out/tap"
count=$(grep -c '^\(not \)\?ok ' "$out/tap")
if grep -q '^not ok ' "$out/tap"; then failed=1; fi

client=relay_fast_selftest
flight=$DEBUGFS/ferrotrace_flight
load_ours ferrotrace_fast_relay rust_kprobes
load_file "$FERROTRACE_KDIR/selftests-relay_fast/module/$client.ko"

records() { python3 "$here/records.py" "$@"; }
# ctl COMMAND...: a command for the client.
ctl() { echo "$*" >"$DEBUGFS/$client/ctl"; }
open_channel() { ctl open reserved=flight subbuf=4096 n=0 flags=1 format=words; }
recover() { "$FERROTRACE" recover "$@"; }

# live: a reader's view of the records now, as $out/live.
live() {
	local cpu
	rm -rf "$out/live"
	mkdir "$out/live"
	for cpu in "${cpus[@]}"; do cat "$DEBUGFS/$client/cpu$cpu" >"$out/live/cpu$cpu" || return 1; done
	sync
}

# write_some N: records of tasks and of interrupts on all CPUs; if N is large, some are overwritten.
write_some() {
	local cpu
	for cpu in "${cpus[@]}"; do
		ctl write "cpu=$cpu" len=24 count="$1" timed=1 || return 1
		ctl write "cpu=$cpu" len=$((100 + cpu)) count=$((20 + cpu)) ctx=irq || return 1
		ctl write "cpu=$cpu" len=3 count=50 || return 1
	done
}

# recovered END [ARGS...]: recovers to $work/rec; the kernel ended by END.
recovered() {
	local end=$1
	shift
	rm -rf "$work/rec"
	recover flight -o "$work/rec" "$@" >"$work/said" 2>"$work/warned" || return 1
	cat "$work/said" "$work/warned"
	grep -q "ended by: $end\$" "$work/said"
}

not_warned() { ! grep . "$work/warned"; }
# warned TEXT [TIMES]
warned() { [ "$(grep -c "$1" "$work/warned")" = "${2:-1}" ]; }

after_panic() { recovered panic && not_warned && records same "$out/live" "$work/rec" 0 1 2 3; }

formats() {
	local format n
	for format in text json chrome perfetto firefox parquet ctf ctf2; do
		"$FERROTRACE" export "$work/rec" --format $format -o "$work/as.$format" && [ -s "$work/as.$format" ] || return 1
	done
	n=$(sed -n 's/^total  : \([0-9]*\) records.*/\1/p' "$work/said")
	[ "$(grep -c '"time"' "$work/as.json")" = "$n" ] || return 1
	if type babeltrace2 >/dev/null 2>&1; then
		[ "$(babeltrace2 "$work/as.ctf" | wc -l)" = "$n" ] || return 1
	fi
	# The channel's format is "words", without a line that describes them.
	"$FERROTRACE" relay merge "$work/rec" --json | grep -c '"time"'
	cmp "$work/rec/format" <(printf words)
}

refusals() {
	refused "No such device" ctl open reserved=other flags=1 &&
		refused "No space left" ctl open reserved=flight subbuf=1048576 n=64 flags=1 &&
		refused "Invalid" ctl open reserved=flight subbuf=4095 n=0 &&
		refused "Invalid" ctl open reserved=a/b n=0 &&
		refused "Invalid" ctl open reserved=control n=0 &&
		refused "Invalid" ctl open reserved= n=4
}

# One channel at a time.
taken() { open_channel && refused "temporarily unavailable" ctl open other=1 name=more reserved=flight; }

# Readers map reserved memory as any other.
mapped() {
	write_some 100 && "$FERROTRACE" relay record "$DEBUGFS/$client/cpu" -o "$work/mapped" --duration 0.5 --json >"$work/json" &&
		grep -q '"method": "control-page"' "$work/json" && records same "$work/mapped" "$work/mapped" 0 1 2 3
}

nothing() { refused "no channel of an earlier boot" recover flight -o "$work/none" && ! [ -e "$work/none" ]; }
unknown() { refused "no such memory" recover other -o "$work/none" && refused "not the name" recover a/b -o "$work/none"; }
commands() {
	refused "Invalid" bash -c "echo find >$flight/control" &&
		refused "Invalid" bash -c "echo 'look flight' >$flight/control" &&
		refused "Invalid" bash -c "echo 'find a-name-that-no-command-line-can-have' >$flight/control"
}

# The half that the last boot left does not change while a channel is opened, written and closed.
kept() {
	cp "$flight/flight" "$work/before" && open_channel && write_some 3000 && ctl close && open_channel && write_some 10 &&
		cmp "$work/before" "$flight/flight" && grep -q '^flight bytes=8388608 channel=1 left=1$' "$flight/control"
}

# A reader of a closed channel holds its memory: another channel is not placed there, and the old
# records are not dropped.
readers() {
	exec 4<"$DEBUGFS/$client/cpu0"
	ctl close && refused "temporarily unavailable" open_channel &&
		refused "temporarily unavailable" bash -c "echo drop flight >$flight/control" && cmp "$work/before" "$flight/flight"
	local status=$?
	exec 4<&-
	[ $status = 0 ] && open_channel && ctl close
}

# A page of it in a pipe stays there without a file or a mapping: the records of another channel
# must not show in it.
in_a_pipe() {
	local bytes held status fd
	open_channel || return 1
	coproc held { python3 "$here/in_a_pipe.py" "$DEBUGFS/$client/cpu0"; }
	fd=${held[1]}
	read -r bytes <&"${held[0]}"
	[ "$bytes" = 4096 ] && ctl close && refused "temporarily unavailable" open_channel
	status=$?
	exec {fd}>&-
	# shellcheck disable=SC2154 # of coproc
	wait "$held_PID"
	[ $status = 0 ] && open_channel && ctl close
}

torn() {
	recovered panic && warned "cpu 1: 1 records were being written" && warned . && records same "$out/live" "$work/rec" 0 1 2 3
}

# A record that one call copies is reported as well, and nothing else is left out.
cut() {
	recovered panic && warned "cpu 1: 1 records were being written" && warned . && records same "$out/live" "$work/rec" 0 1 2 3
}

storm() {
	recovered panic && ! grep -v -e 'were being written' -e 'nothing says which' "$work/warned" && records sound "$work/rec"
}

flipped() {
	cp -r "$work/rec" "$work/whole"
	cp "$flight/flight" "$work/image" && records flip "$work/image" "$work/flipped" &&
		recover --image "$work/flipped" -o "$work/hit" >"$work/said" 2>"$work/warned" || return 1
	cat "$work/warned"
	warned "copies of the channel's description are damaged" && warned "cpu 0: .* are not what they were" &&
		warned "cpu 0: the control page contradicts" && records within "$work/hit" "$work/whole"
}

dropped() {
	recovered panic --drop && nothing && ! [ -e "$flight/flight" ] && refused "No data" bash -c "echo drop flight >$flight/control"
}

# The module is unloaded and loaded again: the next channel is in the memory as before.
reloaded() {
	if ! [ -e "$MODULE_DIR/ferrotrace_fast_relay.ko" ]; then
		skip="built in"
		return 0
	fi
	rmmod $client && rmmod ferrotrace_fast_relay && ! [ -e "$flight" ] && load_ours ferrotrace_fast_relay &&
		load_file "$FERROTRACE_KDIR/selftests-relay_fast/module/$client.ko" && nothing
}

restarted() { recovered restart && not_warned && records same "$out/live" "$work/rec" 0 1 2 3; }

# They have no checksum, but they can be recovered.
reset() {
	recovered unknown && warned "records have no checksum: they look right" 4 && warned . 4 &&
		records same "$out/live" "$work/rec" 0 1 2 3 || return 1
	recovered unknown --sealed && warned "were left out" 4 && grep -q "^total  : 0 records" "$work/said"
}

# A kernel with KASLR was elsewhere in most boots, and all of this was found nevertheless.
moved() {
	cat "$out/places"
	grep -q '^CONFIG_RANDOMIZE_BASE=y' "$FERROTRACE_KDIR/include/config/auto.conf" || skip="no KASLR"
	[ "$skip" ] || [ "$(sort -u "$out/places" | wc -l)" -ge 3 ]
}

start() { open_channel && write_some "$1" && live; }

# die CMD: the last command of this boot.
die() {
	sync
	eval "$1"
	sleep 60
	echo "not ok $((count + 1)) boot $boot did not end"
}

# Recovers the records of a machine with another number of processors.
elsewhere() {
	local there
	mapfile -t there < <(find "$before/live" -name 'cpu*' | sed 's/.*cpu//')
	recovered panic && not_warned && records same "$before/live" "$work/rec" "${there[@]}"
}

panic='echo c >/proc/sysrq-trigger'
if [ "${1:-}" = cpus ]; then
	before=${2:-}
	last=${!#}
	if [ -n "$before" ] && [ "$before" != "$last" ]; then
		cat "$before/tap" >>"$out/tap"
		count=$(grep -c '^\(not \)\?ok ' "$out/tap")
		check "cpus.on_${#cpus[@]}" elsewhere
	fi
	[ "$last" = end ] || {
		start 3000
		die "$panic"
	}
	{
		echo "TAP version 13"
		cat "$out/tap"
		finish
	} >&3
	exit
fi
case $boot in
1)
	check nothing.first nothing
	check nothing.unknown unknown
	check open.refusals refusals
	check open.one_at_a_time taken
	check open.mapped mapped
	check control.commands commands
	ctl close
	check write.some start 400
	die "$panic"
	;;
2)
	check panic.all_records after_panic
	check panic.formats formats
	check left.kept kept
	check left.readers readers
	check left.in_a_pipe in_a_pipe
	check write.again start 20000
	taskset -c 0 bash -c "echo 'hold cpu=1 len=40' >$DEBUGFS/$client/ctl" || result "not ok" hold
	die "$panic"
	;;
3)
	check panic.within_a_record torn
	open_channel
	ctl storm ms=20000 || result "not ok" storm
	sleep 2
	die "$panic"
	;;
4)
	check panic.in_a_storm storm
	check hit.told flipped
	check left.dropped dropped
	check module.reloaded reloaded
	check write.cut start 300
	die "ctl cut cpu=1"
	;;
5)
	check panic.within_one_call cut
	check write.restart start 500
	die 'echo b >/proc/sysrq-trigger'
	;;
6)
	check restart.all_records restarted
	check write.reset start 600
	# The reset of the chipset, behind the kernel's back.
	die "ctl reset"
	;;
7)
	check reset.all_records reset
	check kaslr.moved moved
	{
		echo "TAP version 13"
		cat "$out/tap"
		finish
	} >&3
	;;
esac
