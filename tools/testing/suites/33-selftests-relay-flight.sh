#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Fast channels that survive a reboot, in a guest that dies and boots again. The engine is the same on every variant: one of them
# by default, for time; FERROTRACE_TOOL_VARIANTS= names others.
# Seconds: 120
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $(tool_variants); do
	selftests_build "$variant" relay_fast >&2
	REBOOT=1 CPUS=4 APPEND=reserve_mem=8M:4096:flight TIMEOUT=1500 tap_nest "relay_flight on $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/relay_flight/run.sh"
done
tap_plan
