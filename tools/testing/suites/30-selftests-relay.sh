#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of the relay interface on every variant. On mainline they are judged by the list of its defects.
# Seconds: 517
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	name="selftests/relay: $variant"
	if selftests_build "$variant" relay >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-1800} tap_nest "$name" \
			run_vm "$variant" "tools/testing/selftests/relay/run.sh $variant"
	else
		tap_not_ok "$name (does not build)"
	fi
done
tap_plan
