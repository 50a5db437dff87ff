#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs as files: the command, and samples/dprobes, on a real kernel. One variant by default, for time: FERROTRACE_TOOL_VARIANTS=
# names others.
# Seconds: 220
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
for variant in $(tool_variants); do
	CPUS=4 TIMEOUT=1200 tap_nest "ferrotrace dprobes on $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/dprobes/tool.sh"
done
tap_plan
