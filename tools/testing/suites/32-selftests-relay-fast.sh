#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of fast relay channels, on every variant: the engine is the same, with either relay engine beside it. So where all of
# them run on modular, mainline and builtin have only those of what the kernel has besides: files, waiters, CPUs that come and go.
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

for variant in $VARIANTS; do
	tests="$*"
	case $variant in
	mainline | builtin)
		if [ $# = 0 ] && under_test modular && [ "${FERROTRACE_STORM:-}" != long ]; then tests="open poll hotplug"; fi
		;;
	*) ;;
	esac
	# shellcheck disable=SC2086
	suite_on "$variant" $tests
done
tap_plan
