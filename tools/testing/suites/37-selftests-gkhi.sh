#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of the hook registry and the kernel's hook points, on every variant.
# Seconds: 393
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $VARIANTS; do
	name="selftests/gkhi: $variant"
	if selftests_build "$variant" gkhi >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-2400} tap_nest "$name" \
			run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/gkhi/run.sh"
	else
		tap_not_ok "$name (does not build)"
	fi
done
tap_plan
