#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions counted and timed from user space, on every variant: with mainline's trampolines and with ours.
# Seconds: 150
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $VARIANTS; do
	CPUS=2 TIMEOUT=${TIMEOUT:-900} tap_nest "selftests/functions: $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/functions/run.sh"
done
tap_plan
