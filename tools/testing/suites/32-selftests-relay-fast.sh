#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of fast relay channels, on every variant: the engine is the same, with either relay engine beside it.
# Seconds: 550
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	name="selftests/relay_fast: $variant"
	if selftests_build "$variant" relay_fast >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-2400} tap_nest "$name" \
			run_vm "$variant" "tools/testing/selftests/relay_fast/run.sh $variant"
	else
		tap_not_ok "$name (does not build)"
	fi
done
tap_plan
