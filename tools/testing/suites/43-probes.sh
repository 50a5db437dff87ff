#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probes from user space, on every variant: on mainline's engines and on ours.
# Seconds: 130
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $VARIANTS; do
	CPUS=4 TIMEOUT=${TIMEOUT:-900} tap_nest "selftests/probes: $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/probes/run.sh"
done
tap_plan
