#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tries a probe on each of many places of the running kernel, under load, and writes the results to
# $FERROTRACE_OUT/all_functions: symbol+offset, instruction and error, a line each. Runs in a guest, as
# root.
#
#   run.sh PLACES COLUMN [disabled=1]    the output of probe-places, the number of this kernel in it
#                                        (1 or 2); with disabled=1, probes are registered, not armed
#   TRACER=function_graph run.sh ...     the same while that tracer traces all functions: the code
#                                        that it executes is hit for each of them
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
set -u

places=${1:?usage: run.sh PLACES COLUMN [disabled=1]}
column=${2:?usage: run.sh PLACES COLUMN [disabled=1]}
file=$DEBUGFS/kprobes_all_functions
load_ours rust_kprobes
load_file "$FERROTRACE_KDIR/selftests-all_functions/module/kprobes_all_functions.ko" \
	"text=0x$(awk '$3 == "_text" { print $1; exit }' /proc/kallsyms)" ${3:+"$3"}
echo 1 >/sys/kernel/rcu_expedited

# Processes, files, pipes, memory.
load() {
	while :; do
		find /proc/self /sys/kernel/mm -type f 2>/dev/null | head -n 100 | xargs cat >/dev/null 2>&1
		dd if=/dev/zero of="$work/file.$BASHPID" bs=64k count=8 status=none && sync "$work/file.$BASHPID"
	done
}
# Disabled probes are never hit.
if [ -z "${3:-}" ]; then
	load &
	load &
fi
if [ "${TRACER:-}" ]; then
	tracing=/sys/kernel/tracing
	mountpoint -q $tracing || mount -t tracefs tracefs $tracing || bail "no tracefs"
	echo "$TRACER" >$tracing/current_tracer || bail "no tracer $TRACER"
fi

answers=$FERROTRACE_OUT/answers
cut -d ' ' -f "$column" "$places" | split -l 512 - "$work/batch."
for batch in "$work"/batch.*; do
	if ! { cat "$batch" >$file && cat $file; }; then bail "no answer"; fi
done >"$answers"
kill_jobs
if [ "${TRACER:-}" ]; then
	if [ "$(<"$tracing/current_tracer")" != "$TRACER" ] || ! grep -qm 1 "^[^#]" "$tracing/trace"; then bail "the tracer stopped"; fi
	echo nop >"$tracing/current_tracer"
fi
rmmod kprobes_all_functions || bail "it cannot be removed"
# Some probes are hit.
[ "${3:-}" ] || dmesg | grep -E 'kprobes_all_functions: [1-9][0-9]* hits' || bail "no hits"
paste -d ' ' <(cut -d ' ' -f 3,4 "$places") <(cut -d ' ' -f 2 "$answers") >"$FERROTRACE_OUT/all_functions"
[ "$(wc -l <"$FERROTRACE_OUT/all_functions")" = "$(wc -l <"$places")" ]
