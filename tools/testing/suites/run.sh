#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a suite of the table that has no script:
#   run.sh SUITE [CASE...]    CASE: the beginning of a case's name; all without one
set -uo pipefail
SUITE=${1:?usage: run.sh SUITE [CASE...]}
shift
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

row "$SUITE" || die "no suite $SUITE in the table"
chosen=$VARIANTS
if [ "$variants" = one ]; then chosen=$(tool_variants); fi
for variant in $chosen; do
	case ,$variants, in
	,all, | ,one, | *,"$variant",*) suite_on "$variant" "$@" || : ;;
	*) tap_skip "$(result_of "$variant")" "only on $variants" ;;
	esac
done
tap_plan
