#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions counted and timed from user space, on every variant: with mainline's trampolines and with ours, in part on some (in_part).
# Seconds: 250
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $VARIANTS; do
	some=
	if in_part "$variant"; then some="exact_counts unload module together storm"; fi
	CPUS=2 TIMEOUT=${TIMEOUT:-900} tap_nest "selftests/functions: $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/functions/run.sh $some"
done
tap_plan
