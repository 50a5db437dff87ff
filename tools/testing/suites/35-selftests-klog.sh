#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of klog, its handler and the relay applications on every variant: they stand on either engine.
# Seconds: 218
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $VARIANTS; do
	name="selftests/klog: $variant"
	if selftests_build "$variant" klog >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-1200} tap_nest "$name" \
			run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/klog/run.sh"
	else
		tap_not_ok "$name (does not build)"
	fi
done
tap_plan
