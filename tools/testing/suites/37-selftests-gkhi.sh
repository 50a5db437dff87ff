#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of the hook registry and the kernel's hook points, on every variant.
# Seconds: 230
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
selftests gkhi 2400 run.sh
