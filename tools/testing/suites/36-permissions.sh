#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Who may use our files, in each kernel.
# Seconds: 30
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	engines=ours
	case $variant in *mainline) engines=mainline ;; esac
	tap_nest "permissions: $variant" run_vm "$variant" "tools/testing/selftests/permissions/run.sh $engines"
done
tap_plan
