#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of functions in Rust that ftrace reaches, on the variants that have them: all on modular, and what may differ
# elsewhere.
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	if grep -qx CONFIG_FUNCTION_TRACER_RUST=y "$("$REPO/integration/kernel.sh" kdir "$variant")/.config"; then
		cases="$*"
		if [ $# = 0 ] && [ "$variant" != modular ] && [ "${FERROTRACE_STORM:-}" != long ]; then cases="sites tracer.function clients"; fi
		# shellcheck disable=SC2086
		suite_on "$variant" $cases
	else
		tap_skip "selftests/ftrace_rust: $variant" "its functions in Rust are not traced"
	fi
done
tap_plan
