#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of klog, its handler and the relay applications on every variant: they stand on either engine.
# Seconds: 150
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
selftests klog 1200 run.sh
