#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probes from user space on the running kernel: the module ferrotrace_kprobe_events and "ferrotrace
# probe". Run as root in a guest, with FERROTRACE set to the command; arguments choose cases by the
# start of their names. Prints KTAP. The other files here have the cases.
#
# Not pipefail: a failing command's output is searched for the refusal.
set -u

: "${FERROTRACE:?}"
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
KO=$MODULE_DIR
DIR=/sys/kernel/debug/ferrotrace_kprobe_events
PROBES=$DIR/probes
cases=("$@")

wanted() {
	local prefix
	[ ${#cases[@]} = 0 ] && return
	for prefix in "${cases[@]}"; do [[ $1 == "$prefix"* ]] && return; done
	return 1
}

# Each check begins without probes, and leaves none.
after() { none_left; }

# one NAME CMD...: a check, if it was asked for.
one() {
	wanted "$1" || return
	check "$@"
	kill_jobs
	[ -e $DIR ] || load
	put '-*'
}

# once NAME CMD...: a check with the same result on each kernel: on one of them, and where storms
# are long.
once() {
	if [ "${FERROTRACE_VARIANT:-modular}" = modular ] || [ "${FERROTRACE_STORM:-long}" = long ]; then one "$@"; fi
}

load() { insmod "$KO/ferrotrace_kprobe_events.ko" "$@"; }
probe() { "$FERROTRACE" probe "$@"; }

# on_mainline: succeeds if the engine takes probes one by one, each some tenths of a second.
on_mainline() { [[ ${FERROTRACE_VARIANT:-} == *mainline || ${FERROTRACE_VARIANT:-} == stock* ]]; }

# put LINE: a command to the kernel, in one write.
put() { printf '%s\n' "$1" >"$PROBES"; }

none_left() {
	[ -e $DIR ] || return 0
	[ -z "$(cat "$PROBES")" ] || {
		echo "left:"
		cat "$PROBES"
		return 1
	}
}

# field NAME KEY: of a probe, as the kernel lists it.
field() { sed -n "s/^.* name=$1 .*\b$2=\([^ ]*\).*/\1/p" "$PROBES"; }

# is NAME WANT GOT
is() {
	[ "$2" = "$3" ] || { echo "$1: $3, not $2"; return 1; }
}

# watching ARGS...: a watch in the background, $watch, with its output in $work/out.
watching() {
	begin_tool watching probe watch "$@" || return 1
	watch=$tool_pid
}

# watched: ends it.
watched() {
	if ! kill -INT "$watch" || ! wait "$watch"; then
		cat "$work/err"
		return 1
	fi
	tail -n 1 "$work/out"
}

# worker FORKS OPENS: a process in the background, $worker, that will fork and fail to open so often.
worker() {
	rm -f "$work/go" "$work/ready"
	mkfifo "$work/go"
	# shellcheck disable=SC2016
	bash -c 'exec 2>/dev/null
		: >"$2"
		read -r _ <"$1"
		for ((i = 0; i < $3; i++)); do (:); done
		for ((i = 0; i < $4; i++)); do : </nonexistent; done
		true' worker "$work/go" "$work/ready" "$1" "$2" &
	worker=$!
	until [ -e "$work/ready" ]; do sleep 0.1; done
}

# work: has the worker work.
work() {
	echo >"$work/go"
	wait "$worker"
}

# mine PATTERN: lines of the watch about the worker.
mine() { grep -c "\"pid\":$worker,.*$1\|$1.*\"pid\":$worker,"  "$work/out"; }

# shellcheck source=tools/testing/selftests/probes/args.sh
. "$here/args.sh"
# shellcheck source=tools/testing/selftests/probes/control.sh
. "$here/control.sh"
# shellcheck source=tools/testing/selftests/probes/many.sh
. "$here/many.sh"
# shellcheck source=tools/testing/selftests/probes/program.sh
. "$here/program.sh"
# shellcheck source=tools/testing/selftests/probes/totals.sh
. "$here/totals.sh"
# shellcheck source=tools/testing/selftests/probes/tracefs.sh
. "$here/tracefs.sh"
# shellcheck source=tools/testing/selftests/probes/watch.sh
. "$here/watch.sh"

load_ours rust_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe
load || bail "cannot load ferrotrace_kprobe_events.ko"
echo "TAP version 13"
# For output of a case that passes.
exec 3>&1
one lines lines
one root for_root_only
one commands commands
one counts counts_are_exact
one args.named named_args
one args.raw raw_args
one filter filtered
one pattern pattern
one summary summaries
one totals.exact totals_exact
one totals.keys totals_keys
one totals.values totals_values
one totals.signed totals_signed
one totals.returned totals_returned
once totals.no_values totals_no_values
one totals.full totals_full
one totals.closed totals_closed
one totals.refused totals_refused
one totals.together totals_together
one totals.storm totals_storm
one temporary temporary
one own own_reads
one container container
one readers two_readers
one removed removed
one dropped dropped
one relay by_relay
one many many
one batches batches
one thousand thousand
one abandoned abandoned
one stack.kernel stacks
one stack.recorded stacks_recorded
once file.all in_files
once file.faults faults
once file.losses losses
once within within
once convention by_convention
once elsewhere elsewhere
once events events
once screen screen
one storm storm
one unload unload
one gone gone
one hotplug hotplug
one stock stock
finish
