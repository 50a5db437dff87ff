#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The sample clients of kprobes, in C and in Rust, on every variant.
# Seconds: 59
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	tap_nest "samples/kprobes: $variant" run_vm "$variant" tools/testing/selftests/kprobes_samples/run.sh
done
tap_plan
