#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the kernel variants, and asks objtool for what it would say of our assembly under IBT.
# Seconds: 1
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	tap_run "build: kernel $variant" "$REPO/integration/kernel.sh" build "$variant"
	tap_run "build: assembly under IBT: $variant" "$REPO/tools/testing/ibt.sh" "$variant"
done
tap_plan
