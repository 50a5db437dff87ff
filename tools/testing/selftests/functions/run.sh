#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions counted and timed from user space on the running kernel: the module
# ferrotrace_ftrace_functions and "ferrotrace trace functions". Run as root in a guest of two CPUs
# or more, with FERROTRACE set to the command; arguments choose cases by the start of their names.
# Prints KTAP.
# Functions are called by check().
#
# shellcheck disable=SC2317,SC2329
# Not pipefail: a failing command's output is searched for the refusal.
set -u

: "${FERROTRACE:?}"
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"
DIR=$DEBUGFS/ferrotrace_ftrace_functions
CONTROL=$DIR/control
TRACING=/sys/kernel/tracing
cases=("$@")

wanted() {
	local prefix
	[ ${#cases[@]} = 0 ] && return
	for prefix in "${cases[@]}"; do [[ $1 == "$prefix"* ]] && return; done
	return 1
}

# one NAME CMD...: a check, if it was asked for.
one() {
	wanted "$1" || return
	check "$@"
	kill_jobs
	[ -e $DIR ] || load
}

# Each check leaves no traced function, and no complaint of the kernel.
after() {
	if grep -v ferro_ftrace_anchor $TRACING/enabled_functions; then
		echo "still traced"
		return 1
	fi
}

load() { insmod "$MODULE_DIR/ferrotrace_ftrace_functions.ko" "$@"; }
trace() { "$FERROTRACE" trace functions "$@"; }

# is NAME WANT GOT
is() {
	[ "$2" = "$3" ] || { echo "$1: $3, not $2"; return 1; }
}

# address NAME: where ftrace traces a function.
address() { awk -v name="$1" '$2 == name { print "0x" $1; exit }' $TRACING/available_filter_functions_addrs; }

# tracing ARGS...: the command traces in the background, $tracer, with its output in $work/out.
tracing() {
	begin_tool tracing trace functions "$@" || return 1
	tracer=$tool_pid
}

# traced: ends it.
traced() {
	if ! kill -INT "$tracer" || ! wait "$tracer"; then
		cat "$work/err"
		return 1
	fi
	tail -n 1 "$work/out"
}

# number KEY [FUNCTION]: of the summary in JSON, or of a function there.
number() {
	python3 - "$work/out" "$@" <<-'END'
		import json, sys
		lines = [json.loads(line) for line in open(sys.argv[1])]
		summary = lines[-1]["summary"]
		if len(sys.argv) > 3:
		    summary = {k: sum(f[k] for f in summary["functions"] if f["function"] == sys.argv[3]) for k in (sys.argv[2],)}
		print(summary[sys.argv[2]])
	END
}

# calls CPU N: N calls of getppid() and of sched_yield() by a process of that CPU.
calls() {
	taskset -c "$1" python3 -c '
import os, sys
for _ in range(int(sys.argv[1])):
    os.getppid()
    os.sched_yield()' "$2"
}

# Only the test calls __x64_sys_getppid() here; each call is counted once, on both CPUs.
exact() {
	local mode=$1 n=3000 m=2000 name=__x64_sys_getppid first second
	shift
	tracing --json "$@" $name __x64_sys_sched_yield '__x64_sys_gettid*' || return 1
	calls 0 $n &
	first=$!
	calls 1 $m &
	second=$!
	wait $first && wait $second || return 1
	traced || return 1
	is lost 0 "$(number lost)" && is missed 0 "$(number missed)" || return 1
	is "calls of $name" $((n + m)) "$(number calls $name)" || return 1
	[ "$(number calls __x64_sys_sched_yield)" -ge $((n + m)) ] || { echo "too few yields"; return 1; }
	echo "# $mode: $(number calls) calls in $(number at) s" >&3
	# The periodic reports add up to the same.
	python3 - "$work/out" <<-'END'
		import json, sys
		*reports, last = [json.loads(line) for line in open(sys.argv[1])]
		summary = last["summary"]
		sums = {}
		for report in reports:
		    assert report["span"] <= report["at"]
		    for row in report["functions"]:
		        sums[row["ip"]] = sums.get(row["ip"], 0) + row["calls"]
		for row in summary["functions"]:
		    assert sums.get(row["ip"], 0) <= row["calls"], row
		    assert row["module"] is None and row["function"].startswith("__x64_sys_"), row
		assert sum(row["calls"] for row in summary["functions"]) == summary["calls"]
	END
}

# A function that sleeps a known time takes that time, and no call is longer than the whole.
durations() {
	local n=20
	tracing --json -i 0.2 __x64_sys_clock_nanosleep __x64_sys_getppid || return 1
	taskset -c 1 python3 -c '
import os, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.02)
    os.getppid()' $n || return 1
	traced || return 1
	python3 - "$work/out" $n <<-'END'
		import json, sys
		*reports, last = [json.loads(line) for line in open(sys.argv[1])]
		n = int(sys.argv[2])
		rows = {row["function"]: row for row in last["summary"]["functions"]}
		elapsed = last["summary"]["at"] * 1e9
		sleep, short = rows["__x64_sys_clock_nanosleep"], rows["__x64_sys_getppid"]
		assert sleep["calls"] >= n and short["calls"] == n, rows
		assert sleep["mean_ns"] >= 20_000_000 or sleep["calls"] > n, sleep
		assert sleep["max_ns"] >= 20_000_000, sleep
		assert n * 20_000_000 <= sleep["total_ns"], sleep
		assert sleep["calls"] > n or sleep["total_ns"] <= elapsed, (sleep, elapsed)
		for row in rows.values():
		    assert row["max_ns"] <= elapsed and row["mean_ns"] <= row["max_ns"] and row["p99_ns"] <= row["max_ns"], row
		    assert row["mean_ns"] * row["calls"] <= row["total_ns"], row
		# The functions that took the longest are first.
		assert [row["function"] for row in last["summary"]["functions"]][0] == "__x64_sys_clock_nanosleep"
		# There are reports while it runs.
		assert len(reports) >= 1, len(reports)
	END
}

# Functions of a pattern, by one ops: each is called as often as the kernel's own counters say.
pattern() {
	local opens=200 file=$work/file
	tracing --json --no-time 'vfs_*' || return 1
	[ "$(grep -cv ferro_ftrace_anchor $TRACING/enabled_functions)" -gt 50 ] || { cat $TRACING/enabled_functions; return 1; }
	python3 -c '
import os, sys
for n in range(int(sys.argv[2])):
    fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    os.fsync(fd)
    os.close(fd)' "$file" $opens || return 1
	traced || return 1
	is lost 0 "$(number lost)" || return 1
	is fsyncs $opens "$(number calls vfs_fsync_range)" || return 1
	[ "$(number calls vfs_open)" -ge $opens ] && [ "$(number traced)" -gt 50 ]
}

# For people: a table, and less of it.
tables() {
	tracing 'vfs_*' -d 1.5 -i 0.5 -t 2 || return 1
	for ((i = 0; i < 20; i++)); do cat /proc/version && sleep 0.02; done >/dev/null
	wait "$tracer" || return 1
	cat "$work/out"
	grep -q '^ *calls  *total  *mean  *max  *p99  function$' "$work/out" || return 1
	grep -qE '^ *[1-9][0-9]*( +[0-9.]+ (ns|us|ms|s)){4}  vfs_[a-z_]+$' "$work/out" || return 1
	grep -qE '^and [1-9][0-9]* more functions$' "$work/out" || return 1
	tail -n 1 "$work/out" | grep -qE '^in all, [0-9]+\.[0-9] s: [1-9][0-9]* calls of [1-9][0-9]* functions, 0 lost, 0 missed$'
}

# Errors name the reason, and leave no trace.
refusals() {
	refused "no function is called vfs_raed; did you mean vfs_read" trace vfs_raed || return 1
	refused "no function is called nobody_calls_it_so*" trace vfs_read 'nobody_calls_it_so*' || return 1
	refused "cannot trace exc_int3 (notrace" trace exc_int3 || return 1
	refused "no module nothing is loaded" trace 'vfs_*' --module nothing || return 1
	refused "has no function vfs_read that ftrace can trace" trace vfs_read -m ferrotrace_ftrace || return 1
	refused "[ without ]" trace 'vfs_[' || return 1
	refused "no function's name has white space" trace 'vfs read' || return 1
	refused "PATTERN" trace || return 1
	refused "0.01 seconds" trace vfs_read -i 0 || return 1
	refused "No such file or directory" trace vfs_read --dir /nonexistent/x && return 1
	trace vfs_raed 2>/dev/null
	is status 1 $? || return 1
	trace 2>/dev/null
	is status 2 $? || return 1
	is mode 600 "$(stat -c %a $CONTROL)" && is mode 600 "$(stat -c %a $DIR/cpu0)" || return 1
	refused "only root may trace" setpriv --reuid 65534 --clear-groups "$FERROTRACE" trace functions vfs_read
}

put() { printf '%s\n' "$1" >&5; }
# Without moving the file's position.
state() { python3 -c 'import os; print(os.pread(5, 256, 0).decode(), end="")'; }

# After a check that failed.
clean_up() { exec 5>&- 6>&-; }

# Lines that the file accepts, and lines that it refuses.
commands() {
	local read write line errno
	read=$(address vfs_read) write=$(address vfs_write)
	exec 5<>$CONTROL || return 1
	while IFS=: read -r errno line; do
		refused "$errno" put "$line" || { echo "'$line'"; return 1; }
	done <<-END
		Invalid argument:
		Invalid argument:vfs_read
		Invalid argument:+
		Invalid argument:+ vfs_read
		Invalid argument:+ 10
		Invalid argument:+ 0x0
		Invalid argument:stop
		Invalid argument:count
		Invalid argument:time
		Invalid argument:time $read
		Invalid argument:+ $(printf '0xfffffffffffffffff %.0s' {1..10})
	END
	# A shell would write it in parts.
	refused "Argument list too long" python3 -c 'import os; os.write(5, b"+" + b" 0x1" * 20000)' || return 1
	is state "state=stopped functions=0 lost=0 missed=0" "$(state)" || return 1
	# Addresses are taken all or not at all, for any error in one.
	for mode in count time; do
		exec 5>&- && exec 5<>$CONTROL && put "+ $read 0x1000" || return 1
		refused "No such file" put $mode || return 1
		is state "state=stopped functions=2 lost=0 missed=0" "$(state)" || return 1
		exec 5>&- && exec 5<>$CONTROL && put "+ $read" && put "+ $write $read" && put $mode || return 1
		# Each once.
		is state "state=$mode functions=2" "$(state | cut -d ' ' -f 1,2)" || return 1
		refused "Invalid argument" put $mode || return 1
		refused "Invalid argument" put "+ $write" || return 1
		exec 6<>$CONTROL && echo "+ $read" >&6 || return 1
		refused "Device or resource busy" eval "echo count >&6" || return 1
		exec 6>&- && put stop || return 1
		refused "Invalid argument" put stop || return 1
		put $mode && put stop || return 1
	done
	exec 5>&-
}

# One at a time; tracing stops when its process is killed.
killed() {
	tracing --json '__x64_sys_*' || return 1
	refused "is running" trace vfs_read -d 1 || return 1
	calls 0 2000 || return 1
	kill -KILL "$tracer" && ! wait "$tracer" || return 1
	after || return 1
	# Calls that it has not read do not appear in the next one's numbers.
	tracing --json __x64_sys_getppid || return 1
	calls 1 500 || return 1
	traced && is calls 500 "$(number calls)"
}

# A reader that is stopped loses calls, which are counted.
lost() {
	rmmod ferrotrace_ftrace_functions && load subbuf_size=4096 n_subbufs=2 || return 1
	tracing --json --no-time __x64_sys_getppid || return 1
	kill -STOP "$tracer"
	calls 0 20000
	kill -CONT "$tracer"
	traced || return 1
	is "read and lost" 20000 $(($(number calls) + $(number lost))) || return 1
	[ "$(number lost)" -gt 0 ] || return 1
	echo "# $(number lost) lost" >&3
	rmmod ferrotrace_ftrace_functions && load
}

# The module stays while it traces, and can go afterwards, with calls that have not returned.
unload() {
	local sleeper
	tracing --json __x64_sys_clock_nanosleep || return 1
	python3 -c 'import time; time.sleep(8)' &
	sleeper=$!
	sleep 1
	refused "in use" rmmod ferrotrace_ftrace_functions || return 1
	traced || return 1
	rmmod ferrotrace_ftrace_functions || return 1
	[ ! -e $DIR ] || return 1
	refused "modprobe ferrotrace_ftrace_functions" trace vfs_read || return 1
	kill -0 $sleeper || { echo "it has returned already"; return 1; }
	# The call returns after the module was unloaded, and to another trace of the same function.
	load && tracing --json __x64_sys_clock_nanosleep && wait $sleeper && traced
}

# Functions of a module, which is unloaded while they are traced.
of_a_module() {
	local name
	insmod "$MODULE_DIR/samples/trace_fork_c.ko" pattern=do_exit || return 1
	name=$(awk '$3 == "[trace_fork_c]" { print $2; exit }' $TRACING/available_filter_functions_addrs)
	echo "a function of the module: $name"
	for mode in "" --no-time; do
		# shellcheck disable=SC2086
		tracing --json $mode '*' -m trace_fork_c || return 1
		# Lines of other functions name the module, too, which traces them.
		grep -q "^$name \[trace_fork_c\]" $TRACING/enabled_functions || { cat $TRACING/enabled_functions; return 1; }
		rmmod trace_fork_c && traced || return 1
		insmod "$MODULE_DIR/samples/trace_fork_c.ko" pattern=do_exit || return 1
	done
	(:)
	rmmod trace_fork_c
}

# Others trace the same functions at the same time, and the engine of the trampolines is loaded and
# unloaded.
together() {
	local n=1500 engine=$MODULE_DIR/rust_ftrace_tramp.ko worker
	insmod "$MODULE_DIR/samples/trace_fork.ko" && insmod "$MODULE_DIR/samples/trace_fork_c.ko" || return 1
	for mode in "" --no-time; do
		# shellcheck disable=SC2086
		tracing --json $mode 'vfs_*' __x64_sys_getppid kernel_clone || return 1
		calls 1 $n &
		worker=$!
		if [ -e "$engine" ]; then rmmod rust_ftrace_tramp && insmod "$engine" || return 1; fi
		wait $worker && traced || return 1
		is lost 0 "$(number lost)" && is calls $n "$(number calls __x64_sys_getppid)" || return 1
	done
	rmmod trace_fork trace_fork_c
}

# Tracing begins and ends under load, on all CPUs.
storm() {
	local end rounds=0
	load_up
	end=$((SECONDS + $(storm_rounds 20)))
	while [ $SECONDS -lt $end ] || [ $rounds -lt 3 ]; do
		trace 'vfs_*' 'do_*open*' --json -d 0.2 >"$work/out" && trace 'vfs_*' --no-time -d 0.1 >"$work/text" || return 1
		[ "$(number calls)" -gt 0 ] || return 1
		rounds=$((rounds + 1))
	done
	load_down
	echo "# $rounds rounds" >&3
}

# By "ferrotrace relay record" and "merge", too.
by_relay() {
	exec 5<>$CONTROL && put "+ $(address __do_sys_getppid)" && put time || return 1
	calls 0 300 && put stop || return 1
	"$FERROTRACE" relay record "$DIR/cpu" -o "$work/recording" -d 1 || return 1
	exec 5>&-
	"$FERROTRACE" relay merge "$work/recording" >"$work/merged" || return 1
	head -n 3 "$work/merged"
	is records 300 "$(grep -c 'duration' "$work/merged")" && rm -r "$work/recording"
}

# A reader that closes the pipe ends it, and not only at the next table.
unread() {
	timeout 60 "$FERROTRACE" trace functions do_sys_openat2 -i 1h | head -c 0
	is status 0 "${PIPESTATUS[0]}"
}

mountpoint -q $TRACING || mount -t tracefs tracefs $TRACING || bail "no tracefs"
load_ours rust_ftrace_tramp ferrotrace_fast_relay ferrotrace_ftrace
load || bail "cannot load ferrotrace_ftrace_functions.ko"
echo "TAP version 13"
# For output of a case that passes.
exec 3>&1
one exact_times exact timed
one exact_counts exact counted --no-time
one durations durations
one pattern pattern
one tables tables
one refusals refusals
one commands commands
one killed killed
one lost lost
one unload unload
one module of_a_module
one together together
one relay by_relay
one unread unread
one storm storm
finish
