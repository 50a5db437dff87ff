#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Results of CONFIG_FTRACE_STARTUP_TEST and CONFIG_FTRACE_SORT_STARTUP_TEST at boot. Prints KTAP.
#
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$0")/../lib/testlib.sh"

# tested TRACER: its tests were run, and passed.
tested() {
	dmesg | grep -A8 "Testing tracer $1: "
	dmesg | grep -q "Testing tracer $1: PASSED"
}

# Ops with and without registers, and several ops at once, are tests of the function tracer.
none_failed() {
	dmesg | grep -E 'Testing (tracer|dynamic ftrace|ftrace)' | tee "$work/tests"
	[ "$(grep -c PASSED "$work/tests")" -gt 4 ] && ! dmesg | grep -E 'FAILED!|WARNING: '
}

sorted() { dmesg | grep 'ftrace section at .* sorted properly'; }

echo "TAP version 13"
for tracer in function function_graph; do check "startup.$tracer" tested "$tracer"; done
checks startup. none_failed sorted
finish
