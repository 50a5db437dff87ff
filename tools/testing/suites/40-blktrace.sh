#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# blktrace and blkparse on the built-in engine: none of its events is dropped, and it sees the same as on mainline.
# Seconds: 29
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

trace() {
	local out=$LOGS/blktrace-$1
	rm -rf "$out"
	mkdir -p "$out"
	# shellcheck disable=SC2016
	OUT=$out CPUS=2 run_vm "$1" 'tools/testing/selftests/relay/blktrace.sh "$FERROTRACE_OUT/events"'
}

for variant in mainline builtin; do
	case " $VARIANTS " in
	*" $variant "*) tap_run "blktrace: $variant" trace "$variant" ;;
	*) tap_skip "blktrace: $variant" "not under test" ;;
	esac
done
case " $VARIANTS " in
*" mainline "*" builtin "* | *" builtin "*" mainline "*)
	tap_run "blktrace: the same events on mainline and builtin" \
		diff -u "$LOGS/blktrace-mainline/events" "$LOGS/blktrace-builtin/events" ;;
*) tap_skip "blktrace: the same events on mainline and builtin" "not under test" ;;
esac
tap_plan
