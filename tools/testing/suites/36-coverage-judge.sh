#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Live coverage of the functions of files and pipes, compared with QEMU's log of the guest, on two CPUs; where storms are long on
# one as well, and with gcov. "judge.py --all" does that for the whole kernel (Documentation/live-coverage.rst).
# Seconds: 60
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

FERROTRACE=$(tool)
export FERROTRACE
for variant in $(tool_variants) $(tr ' ' '\n' <<<"$VARIANTS" | grep '^stock' || true); do
	if ! under_test "$variant"; then
		tap_skip "live coverage and QEMU on $variant" "$variant is not under test"
		continue
	fi
	for cpus in 2 $([ "${FERROTRACE_STORM:-}" != long ] || echo 1); do
		APPEND="kunit.enable=0 ${APPEND:-}" tap_nest "live coverage and QEMU on $variant, CPUs: $cpus" \
			"$REPO/tools/testing/selftests/coverage/judge.py" --cpus "$cpus" "$variant"
	done
done
if [ "${FERROTRACE_STORM:-}" = long ]; then
	if under_test modular; then
		tap_nest "live coverage and gcov" "$REPO/tools/testing/selftests/coverage/gcov.py"
	else
		tap_skip "live coverage and gcov" "modular is not under test"
	fi
fi
tap_plan
