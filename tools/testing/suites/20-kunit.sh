#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit tests of every variant: loads our modules, whose tests then run, and reads the results of those
# and of the built-in ones from debugfs. An argument is a pattern for suites, or for SUITE.CASE: kunit.filter_glob.
# Seconds: 43
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2016
in_guest='
	. tools/testing/selftests/lib/testlib.sh
	# The suites of the boot leave no ops registered: with one ftrace never checks that it has cleared all flags of functions. The
	# engine of kprobes, if it is built in, unregisters its own after a grace period.
	mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
	idle() { ! grep . /sys/kernel/tracing/enabled_functions; }
	for i in 1 2 3 4 5 6 7 8 9 10; do idle >/dev/null || sleep 1; done
	idle || exit 1
	load_ours rust_relay ferrotrace_relay ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe ferrotrace_ftrace
	cat /sys/kernel/debug/kunit/*/results
'

filter=${1:+kunit.filter_glob=$1}

# guest VARIANT: runs the tests; what they print is also kept.
guest() { KUNIT=$filter run_vm "$1" "$in_guest" | tee "$LOGS/20-kunit-$1.results"; }

# all_ran VARIANT: every suite of the sources has results, except those of the engine and its base,
# which mainline lacks.
all_ran() {
	local name status=0
	for name in $(kunit_suites); do
		case $1:$name in mainline:ferro_sys_* | mainline:ferro_kprobes_*) continue ;; *) ;; esac
		grep -qx " *# Subtest: $name" "$LOGS/20-kunit-$1.results" && continue
		echo "no results of $name"
		status=1
	done
	return $status
}

for variant in $VARIANTS; do
	tap_nest "kunit: $variant" guest "$variant"
	if [ $# = 0 ]; then tap_run "kunit: $variant: every suite ran" all_ran "$variant"; fi
done
tap_plan
