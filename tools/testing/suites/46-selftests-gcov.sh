#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of the exporter of coverage: mainline's and ours. One object is compiled by clang, for every kernel.
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

GCOV_CLANG=$(find_clang) || GCOV_CLANG=
export GCOV_CLANG
# Tools that read the counters of Rust code, of rustc's own version.
GCOV_LLVM=$("$(find_rustc)" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
"$REPO/tools/testing/host/gcov/compilers.sh" "llvm-$GCOV_LLVM" >&2 || GCOV_LLVM=
export GCOV_LLVM GCOV_BIN=$CACHE/gcov/bin
FERROTRACE=$(tool) || FERROTRACE=
export FERROTRACE

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for variant in $VARIANTS; do
	case $variant in mainline | modular | builtin | debug | gcov | coverage) ;; *) continue ;; esac
	mkdir "$work/$variant"
	OUT=$work/$variant suite_on "$variant" "$@"
	[ $# = 0 ] || continue
	if [ "${FERROTRACE_STORM:-}" = long ]; then TIMEOUT=${TIMEOUT:-1200} suite_on "$variant" load.hundred_rounds; fi
	APPEND=gcov_persist=0 tap_nest "gcov_persist=0: $variant" run_vm "$variant" tools/testing/selftests/gcov/run.sh
done

# Reports of gcov, lcov, genhtml and gcovr for the same calls on another kernel.
for variant in modular builtin; do
	if [ -d "$work/mainline/reports" ] && [ -d "$work/$variant/reports" ]; then
		tap_run "the reports on $variant are those on mainline" diff -r "$work/mainline/reports" "$work/$variant/reports"
	fi
done
tap_plan
