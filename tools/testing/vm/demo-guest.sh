#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The part of the demo that runs in the guest. FERROTRACE is the user-space command.
set -euo pipefail

MODULES=$FERROTRACE_KDIR/kernel/ferrotrace
RELAY=/sys/kernel/debug/relay_sched
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

step "Linux $(uname -r), $(nproc) CPUs: loading the engine, the safe API and the client, all in Rust"
insmod "$MODULES/rust_relay.ko"
insmod "$MODULES/ferrotrace_relay.ko"
insmod "$MODULES/ferrotrace_fast_relay.ko"
insmod "$MODULES/samples/relay_sched.ko" subbuf_size=16384 n_subbufs=16
"$FERROTRACE" relay stat "$RELAY/cpu"

step "recording scheduler switches of a workload, by mmap"
"$FERROTRACE" relay record "$RELAY/cpu" -o "$OUT/rec" &
recorder=$!
workload &
wait $!
echo 0 >"$RELAY/enabled"
kill -INT $recorder
wait $recorder || fail "the recorder exited with $?"

step "the first records, in the order of time"
"$FERROTRACE" relay merge "$OUT/rec" --limit 25
lost=$(cat "$RELAY/dropped")
[ "$lost" = 0 ] || fail "$lost records lost"

step "unloading"
rmmod relay_sched ferrotrace_fast_relay ferrotrace_relay rust_relay
[ ! -e "$RELAY" ] || fail "$RELAY is still there"

printf '\ndemo: ok\n'
