#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of ftrace's trampolines: mainline's and ours. And clients of ftrace: samples, and the kernel's own ftrace
# selftests, which must come out with our engine as they do on mainline, or better: all samples of direct calls and all tests
# of function tracers with FERROTRACE_STORM=long, otherwise some. Mainline's guest has once hung in the last of the samples.
# Seconds: 360
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

samples="ftrace-direct ftrace-direct-too"
tests="test.d/ftrace/func-filter-glob.tc test.d/ftrace/func_set_ftrace_file.tc test.d/ftrace/fgraph-filter.tc"
if [ "${FERROTRACE_STORM:-}" = long ]; then
	samples="$samples ftrace-direct-modify ftrace-direct-multi ftrace-direct-multi-modify"
	tests=test.d/ftrace
fi

for variant in $VARIANTS; do
	case $variant in mainline | modular | debug) ;; *) continue ;; esac
	selftests_on "$variant" ftrace_tramp 300 run.sh
	# The debug kernel takes minutes for each.
	some=
	if [ "$variant" != debug ]; then some="$(ftracetest_of "$variant") $tests"; fi
	# A guest that hangs is not to cost the whole check.
	limit=600
	if [ "${FERROTRACE_STORM:-}" = long ]; then limit=3600; fi
	CPUS=2 TIMEOUT=${TIMEOUT:-$limit} OUT=$LOGS/ftrace-clients-$variant tap_nest "clients of ftrace: $variant" \
		run_vm "$variant" "tools/testing/selftests/ftrace_tramp/clients.sh '$samples' $some"
done
if under_test mainline && under_test modular; then
	compare_ftracetest "$LOGS/ftrace-clients-mainline" "$LOGS/ftrace-clients-modular"
else
	tap_skip "ftracetest: modular as mainline" "not under test"
fi
tap_plan
