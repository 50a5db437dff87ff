#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of the exporter of coverage: mainline's and ours. One object is compiled by clang, for every kernel.
# Seconds: 90
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

GCOV_CLANG=$(find_clang) || GCOV_CLANG=
export GCOV_CLANG
FERROTRACE=$(tool) || FERROTRACE=
export FERROTRACE

for variant in $VARIANTS; do
	case $variant in mainline | modular | builtin | debug | gcov) ;; *) continue ;; esac
	selftests_on "$variant" gcov 600 run.sh
	if [ "${FERROTRACE_STORM:-}" = long ]; then selftests_on "$variant" gcov 1200 "run.sh load.hundred_rounds"; fi
	APPEND=gcov_persist=0 tap_nest "gcov_persist=0: $variant" run_vm "$variant" tools/testing/selftests/gcov/run.sh
done
tap_plan
