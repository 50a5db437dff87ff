#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The part of the demo that runs in the guest. FERROTRACE is the user-space command, DEMO_OUT the
# host's directory that receives the page.
set -euo pipefail

MODULES=$FERROTRACE_KDIR/kernel/ferrotrace
RELAY=/sys/kernel/debug/relay_sched
PROBES=/sys/kernel/debug/ferrotrace_kprobe_events
TRACING=/sys/kernel/tracing
FORKS=25 FAILURES=15
OUT=$(mktemp -d)

step() { printf '\n== %s\n' "$*"; }
fail() {
	printf 'demo: FAILED: %s\n' "$*"
	exit 1
}

# Processes that block, wake each other up and compute, on every CPU.
workload() {
	for _ in 1 2 3 4; do
		seq 1 3000 | sort -n | tail -n 1 >/dev/null &
		(seq 20 | while read -r _; do sleep 0.01; done) &
	done
	wait
}

# A process, $worker, that waits for a line, and then forks and fails to open a file.
worker() {
	mkfifo "$OUT/go"
	# shellcheck disable=SC2016
	bash -c 'exec 2>/dev/null
		: >"$2"
		read -r _ <"$1"
		for ((i = 0; i < $3; i++)); do (:); done
		for ((i = 0; i < $4; i++)); do : </nonexistent; done
		true' worker "$OUT/go" "$OUT/ready" $FORKS $FAILURES &
	worker=$!
	until [ -e "$OUT/ready" ]; do sleep 0.1; done
}

step "Linux $(uname -r), $(nproc) CPUs: loading the engine, the safe API and the client, all in Rust"
insmod "$MODULES/rust_relay.ko"
insmod "$MODULES/ferrotrace_relay.ko"
insmod "$MODULES/ferrotrace_fast_relay.ko"
insmod "$MODULES/samples/relay_sched.ko" subbuf_size=16384 n_subbufs=64
"$FERROTRACE" relay stat "$RELAY/cpu"

step "recording scheduler switches of a workload, by mmap"
"$FERROTRACE" relay record "$RELAY/cpu" -o "$OUT/rec" &
recorder=$!
for ((cpu = 0; cpu < $(nproc); cpu++)); do
	until [ -e "$OUT/rec/cpu$cpu" ]; do
		kill -0 $recorder || fail "the recorder has ended"
		sleep 0.1
	done
done
workload &
wait $!
echo 0 >"$RELAY/enabled"
kill -INT $recorder
wait $recorder || fail "the recorder exited with $?"

step "the first records, in the order of time"
"$FERROTRACE" relay merge "$OUT/rec" --limit 25
lost=$(cat "$RELAY/dropped")
[ "$lost" = 0 ] || fail "$lost records lost"

step "the page of the recording, for a browser: $DEMO_OUT/report.html"
"$FERROTRACE" report "$OUT/rec" --html -o "$FERROTRACE_OUT/report.html"
"$FERROTRACE" report "$OUT/rec" --top 5

step "probing the running kernel: a kprobe on kernel_clone(), a kretprobe on do_sys_openat2()"
for module in rust_kprobes ferrotrace_kprobe ferrotrace_kprobe_events; do insmod "$MODULES/$module.ko"; done
worker
"$FERROTRACE" probe add --name forks kernel_clone
"$FERROTRACE" probe add --return --name opens do_sys_openat2
"$FERROTRACE" probe watch >"$OUT/hits" 2>"$OUT/watching" &
watch=$!
until grep -q watching "$OUT/watching"; do
	kill -0 $watch || fail "$(cat "$OUT/watching")"
	sleep 0.1
done
echo go >"$OUT/go"
wait "$worker"
"$FERROTRACE" probe list
"$FERROTRACE" probe remove --all
kill -INT $watch
wait $watch || fail "the watch exited with $?"

step "what a process did that forked $FORKS times and failed to open a file $FAILURES times"
grep "bash-$worker " "$OUT/hits" >"$OUT/worker"
grep -m 3 ' kernel_clone$' "$OUT/worker"
grep -m 3 ' = -2 (ENOENT)' "$OUT/worker"
forks=$(grep -c ' kernel_clone$' "$OUT/worker")
failures=$(grep -c ' do_sys_openat2 = -2 (ENOENT)' "$OUT/worker")
echo "seen by the probes: $forks forks, $failures failures"
[ "$forks" = $FORKS ] || fail "$forks forks, not $FORKS"
[ "$failures" = $FAILURES ] || fail "$failures failing opens, not $FAILURES"
tail -n 1 "$OUT/hits" | grep -q ' 0 dropped$' || fail "hits were lost"

step "ftrace on a driver in Rust: the calls for three words and one line, and what formats the answer"
insmod "$MODULES/samples/rust_traced.ko"
mountpoint -q $TRACING || mount -t tracefs tracefs $TRACING
printf '%s\n' '*11rust_traced*6Totals*' '*6kernel3str*try_from_fmt' >$TRACING/set_ftrace_filter
echo function >$TRACING/current_tracer
exec 3<>/dev/rust_traced
echo 'three words here' >&3
totals=$(dd bs=64 count=1 status=none <&3)
exec 3>&-
cat $TRACING/trace
grep -v '^#' $TRACING/trace >"$OUT/calls" || fail "no call in the trace"
echo nop >$TRACING/current_tracer
echo >$TRACING/set_ftrace_filter
echo "the driver has counted $totals (lines, words, bytes)"
[ "$totals" = "1 3 17" ] || fail "the driver counted $totals, not 1 3 17"
words=$(grep -c 'Totals4word <-' "$OUT/calls") || fail "no words were traced"
lines=$(grep -c 'Totals4line <-' "$OUT/calls") || fail "no lines were traced"
grep -q 'try_from_fmt <-' "$OUT/calls" || fail "nothing of the kernel crate was traced"
[ "$words $lines" = "3 1" ] || fail "traced: $words words and $lines lines, not 3 and 1"

step "live coverage: which blocks of the running kernel, and of the driver, cat and a line for the driver execute"
insmod "$MODULES/ferrotrace_coverage.ko"
"$FERROTRACE" cov live 'vfs_*' '*rust_traced::*' -- bash -c 'echo one line >/dev/rust_traced; cat /proc/version' | tee "$OUT/live"
grep -q '  vfs_read$' "$OUT/live" || fail "vfs_read was not executed"
grep -q 'Totals.*word' "$OUT/live" || fail "the driver was not executed"
if grep -q '  vfs_rename$' "$OUT/live"; then fail "vfs_rename was executed"; fi

step "unloading"
rmmod rust_traced
rmmod ferrotrace_coverage
rmmod ferrotrace_kprobe_events ferrotrace_kprobe rust_kprobes relay_sched ferrotrace_fast_relay ferrotrace_relay rust_relay
[ ! -e "$RELAY" ] || fail "$RELAY is still there"
[ ! -e "$PROBES" ] || fail "$PROBES is still there"

printf '\ndemo: ok\n'
