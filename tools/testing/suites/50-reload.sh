#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The modules of the engines are loaded and unloaded 100 times under load.
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

name="reload: modular"
case " $VARIANTS " in
*" modular "*)
	if selftests_build modular relay >&2; then
		CPUS=4 TIMEOUT=${TIMEOUT:-500} tap_nest "$name" \
			run_vm modular "tools/testing/selftests/relay/run.sh modular reload"
	else
		tap_not_ok "$name (does not build)"
	fi
	CPUS=4 TIMEOUT=${TIMEOUT:-500} tap_nest "reload kprobes: modular" \
		run_vm modular "tools/testing/selftests/kprobes/reload.sh"
	;;
*) tap_skip "$name" "not under test" ;;
esac
tap_plan
