#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs, on each variant with the engine.
# Seconds: 60
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	if [ "$variant" = mainline ]; then
		tap_skip "selftests/dprobes: $variant" "probe programs need the Rust kprobes engine's part in the image"
	else
		selftests_on "$variant" dprobes 600 run.sh || :
	fi
done
tap_plan
