#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make bench": mainline against ours, a line for each figure. SUITE= names the directories here that are measured,
# all of them by default.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../../integration/lib.sh"

here=$REPO/tools/testing/bench
if [ -z "${SUITE:-}" ]; then SUITE=$(cd "$here" && printf '%s ' */run.sh | sed 's#/run.sh##g'); fi
for suite in $SUITE; do
	[ -x "$here/$suite/run.sh" ] || die "no benchmark '$suite'"
	"$here/$suite/run.sh"
done
