#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# In a guest, as root: prints "NAME INSTRUCTIONS" for each kind of probe of our module.
#
#   guest.sh events [PREFIX]    for those of kprobe_events, with PREFIX before NAME
# shellcheck disable=SC2016
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../../selftests/lib/testlib.sh"
gcc -O2 -o "$work/calls" "$here/calls.c"

tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs tracefs $tracing
events=${1:-} prefix=${2:-}
if [ -z "$events" ]; then
	load_ours rust_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_kprobe_events
fi

# calls KIND: nanoseconds of a system call of this kind.
calls() { "$work/calls" "$1"; }

# measure NAME CALL KIND PLACE ARGS: cost that a hit of this probe adds to a system call with one
# hit.
measure() {
	local name=$1 what=$2 kind=$3 place=$4 args=$5 with without
	without=$(calls "$what")
	if [ "$events" ]; then
		echo "$kind:bench/x $place $args" >$tracing/kprobe_events
		echo 1 >$tracing/events/bench/x/enable
	else
		echo "$kind x $place $args" >$DEBUGFS/ferrotrace_kprobe_events/probes
	fi
	with=$(calls "$what")
	if [ "$events" ]; then
		echo 0 >$tracing/events/bench/x/enable
		echo >$tracing/kprobe_events
	else
		echo -x >$DEBUGFS/ferrotrace_kprobe_events/probes
	fi
	echo "$prefix$name $((with - without))"
}

# count NAME CALL KIND PLACE ARGS KEYS: the same for adding up hits by keys in the kernel.
count() {
	local name=$1 what=$2 kind=$3 place=$4 args=$5 keys=$6 with without file
	without=$(calls "$what")
	if [ "$events" ]; then
		echo "$kind:bench/x $place $args" >$tracing/kprobe_events
		echo "hist:keys=$keys" >$tracing/events/bench/x/trigger
	else
		exec {file}<>"$DEBUGFS/ferrotrace_kprobe_events/totals"
		echo "by $keys rows=2048 words=16" >&"$file"
		echo "$kind x $place $args" >&"$file"
	fi
	with=$(calls "$what")
	if [ "$events" ]; then
		echo "!hist:keys=$keys" >$tracing/events/bench/x/trigger
		echo >$tracing/kprobe_events
	else
		exec {file}>&-
	fi
	echo "$prefix$name $((with - without))"
}

measure number lseek p vfs_llseek 'offset=%si:s64'
measure numbers lseek p vfs_llseek 'offset=%si:s64 whence=%dx:s32 file=%di:x64 ip=%ip:x64'
measure memory lseek p vfs_llseek 'a=+0(%di):x64 b=+8(%di):x64'
measure string access p do_faccessat 'dfd=%di:s32 file=+0(%si):string'
measure return lseek r vfs_llseek 'ret=$retval:s64'
count count_by_number lseek p vfs_llseek 'offset=%si:s64' offset
count count_by_numbers lseek p vfs_llseek 'offset=%si:s64 whence=%dx:s32' offset,whence
