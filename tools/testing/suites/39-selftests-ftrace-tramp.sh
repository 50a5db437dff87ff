#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of ftrace's trampolines: mainline's and ours.
# Seconds: 60
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	case $variant in mainline | modular | debug) ;; *) continue ;; esac
	selftests_on "$variant" ftrace_tramp 300 run.sh
done
tap_plan
