#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# blktrace and blkparse on the built-in engine: none of its events is dropped, and it sees the same as on mainline.
# Seconds: 29
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# trace VARIANT STATUS: again, at most twice, after a status that matches the pattern.
trace() {
	local out=$LOGS/blktrace-$1
	rm -rf "$out"
	mkdir -p "$out"
	# shellcheck disable=SC2016
	OUT=$out CPUS=2 run_vm "$1" 'for i in 1 2 3; do
			tools/testing/selftests/relay/blktrace.sh "$FERROTRACE_OUT/events" && exit
			case $? in '"$2"') ;; *) exit 1 ;; esac
		done
		exit 1'
}

# Mainline's read() now and then returns stale bytes or leaves a sub-buffer out (defects 4 and E of
# expected-failures), here in one run of some hundred: it must show all events in one of three
# tries. Ours must show them in the first, unless blktrace itself gave one the wrong CPU (status 3),
# as it may with any engine.
again() { if [ "$1" = mainline ]; then echo '*'; else echo 3; fi; }

for variant in mainline builtin; do
	if under_test "$variant"; then
		tap_run "blktrace: $variant" trace "$variant" "$(again "$variant")"
	else
		tap_skip "blktrace: $variant" "not under test"
	fi
done
if under_test mainline && under_test builtin; then
	tap_run "blktrace: the same events on mainline and builtin" \
		diff -u "$LOGS/blktrace-mainline/events" "$LOGS/blktrace-builtin/events"
else
	tap_skip "blktrace: the same events on mainline and builtin" "not under test"
fi
tap_plan
