#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The modules of the engines are loaded and unloaded under load: relay's 100 times, kprobes' so where storms are long, and 20 times
# otherwise.
# Seconds: 307
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# reload VARIANT
reload() {
	if selftests_build "$1" relay >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-1800} tap_nest "reload: $1" \
			run_vm "$1" "tools/testing/selftests/relay/run.sh $1 reload"
	else
		tap_not_ok "reload: $1 (does not build)"
	fi
	if selftests_build "$1" kprobes >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-1800} tap_nest "reload kprobes: $1" \
			run_vm "$1" "tools/testing/selftests/kprobes/reload.sh"
	else
		tap_not_ok "reload kprobes: $1 (does not build)"
	fi
}

for variant in $VARIANTS; do
	case $variant in
	modular | debug) reload "$variant" ;;
	*) tap_skip "reload: $variant" "the engines are no modules" ;;
	esac
done
tap_plan
