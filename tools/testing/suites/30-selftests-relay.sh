#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of the relay interface on every variant. On mainline they are judged by the list of its defects.
# Seconds: 300
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

selftests relay 1800 "run.sh VARIANT"
