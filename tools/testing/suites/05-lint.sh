#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The fast part of lint: how the sources are formatted and written.
# Seconds: 60
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

tap_run "lint" "$REPO/integration/lint.sh" fast
tap_plan
