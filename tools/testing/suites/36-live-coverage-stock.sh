#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Live coverage of Debian's own kernels while the machine suspends, and when another kernel takes over by kexec. Of stock variants
# only, in "make check-long".
# Seconds: 150
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# suspended: prints the results of coverage/suspend.sh. The guest runs it before it has the host's files, and ends without an
# answer: the results are in its log, in which the kernel must not complain.
suspended() {
	local early console=$LOGS/$SUITE-$variant.console
	early=$(mktemp -d)
	cp "$REPO/tools/testing/selftests/coverage/suspend.sh" "$early/run"
	cp "$kdir/kernel/ferrotrace"/ferrotrace_{fs,core,coverage}.ko "$early/"
	gcc -O2 -static -I "$REPO/include/uapi" -o "$early/coverage" "$REPO/tools/testing/selftests/coverage/coverage.c" || return 1
	rm -f "$console"
	EARLY=$early APPEND="no_console_suspend ${APPEND:-}" run_vm "$variant" false >&2 || true
	rm -rf "$early"
	tr -d '\r' <"$console" | sed -n 's/.*coverage_suspend: //p' |
		awk '{ print } /^not ok/ { bad = 1 } /^1\.\./ { end = 1 } END { exit bad || !end }' || return 1
	! grep -E 'WARNING: |BUG: |INFO: (task|rcu)|Oops: ' "$console" >&2
}

for variant in $VARIANTS; do
	if [ "${variant%%-*}" != stock ]; then
		tap_skip "live coverage and the power of $variant" "a long test of stock"
		continue
	fi
	FERROTRACE=$(tool)
	if ! { "$REPO/integration/kernel.sh" build "$variant" && selftests_build "$variant" coverage; } >&2; then
		tap_skip "live coverage and the power of $variant" "its modules cannot be built here"
		continue
	fi
	kdir=$("$REPO/integration/kernel.sh" kdir "$variant")
	tap_nest "live coverage while $variant suspends" suspended
	CPUS=4 tap_run "kexec of $variant" run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/stock/kexec.sh"
done
tap_plan
