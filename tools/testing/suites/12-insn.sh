#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The instruction decoder, where that needs a kernel: its own decoder, and the text of what was built; and the
# long run of random bytes.
# Seconds: 20
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

cargo=$(find_cargo) || die "no cargo; run 'make setup'"
INSN_KSRC=$("$REPO/integration/source.sh") || die "no kernel source"
export INSN_KSRC INSN_IMAGES=

for variant in $VARIANTS; do
	kdir=$("$REPO/integration/kernel.sh" kdir "$variant") || die "no build directory"
	if [ -f "$kdir/vmlinux" ]; then INSN_IMAGES=$INSN_IMAGES${INSN_IMAGES:+:}$kdir; fi
done

if [ -n "$INSN_IMAGES" ]; then
	tap_nest "insn: kernels" cargo_tests "insn" \
		"$cargo" test --manifest-path "$REPO/tools/testing/host/Cargo.toml" -- --ignored
else
	tap_skip "insn: kernels" "none of $VARIANTS was built"
fi
tap_plan
