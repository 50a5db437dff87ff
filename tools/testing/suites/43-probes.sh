#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probes from user space, on every variant: on mainline's engines and on ours, in part on some (in_part).
# Seconds: 250
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $VARIANTS; do
	some=
	if in_part "$variant"; then some="lines commands counts batches thousand storm unload gone stock"; fi
	# Two of its CPUs never come up, as on machines without second threads.
	CPUS=6 APPEND="${APPEND:-} maxcpus=4" TIMEOUT=${TIMEOUT:-900} tap_nest "selftests/probes: $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/probes/run.sh $some"
done
tap_plan
