#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of fast relay channels, on every variant: the engine is the same, with either relay engine beside it.
# Seconds: 330
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

selftests relay_fast 2400 "run.sh VARIANT"
