#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions counted and timed from user space, on every variant: with mainline's trampolines and with ours; on builtin, whose engine is
# modular's, what depends on that only, unless FERROTRACE_STORM=long.
# Seconds: 250
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $VARIANTS; do
	some=
	if [ "$variant" = builtin ] && [ "${FERROTRACE_STORM:-}" != long ]; then some="exact_counts unload module together storm"; fi
	CPUS=2 TIMEOUT=${TIMEOUT:-900} tap_nest "selftests/functions: $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/functions/run.sh $some"
done
tap_plan
