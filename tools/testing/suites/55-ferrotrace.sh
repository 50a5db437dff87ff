#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The user-space command on real channels. One variant by default, for time: FERROTRACE_TOOL_VARIANTS= names others.
# Seconds: 214
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $(tool_variants); do
	CPUS=4 TIMEOUT=2400 tap_nest "ferrotrace on $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/ferrotrace/tests/guest.sh"
done
tap_plan
