#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Asks the C engine of each of many places of the running kernel if it would place a jump there, and
# writes its answers to $FERROTRACE_OUT/jumps: offset, error of a probe there, and 1 for a jump, a
# line each. Runs in a guest, as root.
#
#   jumps.sh PLACES    the output of jump-places for this kernel
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"
set -u

places=${1:?usage: jumps.sh PLACES}
file=$DEBUGFS/kprobes_all_functions
# at NAME
at() { awk -v name="$1" '$3 == name { print "0x" $1; exit }' /proc/kallsyms; }
load_file "$FERROTRACE_KDIR/selftests-all_functions/module/kprobes_all_functions.ko" "text=$(at _text)" disabled=1 "get_kprobe=$(at get_kprobe)"
echo 1 >/sys/kernel/rcu_expedited
cut -d ' ' -f 1 "$places" | split -l 512 -a 4 - "$work/batch."
for batch in "$work"/batch.*; do
	if ! { cat "$batch" >$file && cat $file; }; then bail "no answer"; fi
done >"$FERROTRACE_OUT/jumps"
rmmod kprobes_all_functions
[ "$(wc -l <"$FERROTRACE_OUT/jumps")" = "$(wc -l <"$places")" ]
