#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The demo: its last line must be "demo: ok".
# Seconds: 16
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

demo() {
	"$REPO/tools/testing/vm/demo.sh" | tee "$LOGS/demo.out" >&2
	[ "$(tr -d '\r' <"$LOGS/demo.out" | tail -n 1)" = "demo: ok" ]
}
tap_run "the demo ends with \"demo: ok\"" demo
tap_plan
