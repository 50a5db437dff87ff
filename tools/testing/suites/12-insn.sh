#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The instruction decoder, where that needs a kernel: its own decoder, and the text of what was built; where jumps
# can be put in that; and the long run of random bytes.
# Seconds: 230
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

# jumps_as_mainline: random places, of which the C engine says in a guest whether it optimises a probe there. Where it does and
# ours does not, something enters the jump; where only ours does, one of the C engine's rules is known that refuses.
jumps_as_mainline() {
	local kdir places=$LOGS/jump-places
	kdir=$("$REPO/integration/kernel.sh" kdir mainline) || return 1
	"$cargo" run -q --release --manifest-path "$REPO/tools/testing/host/Cargo.toml" --bin jump-places -- \
		600 "$kdir/vmlinux" >"$places" || return 1
	run_vm mainline "tools/testing/host/jump-places.sh $places" >"$places.answers" || return 1
	awk '$1 == "PLACE" { count++; why = $6 }
		$1 == "PLACE" && ($2 == "yes" && $3 == "no" && (why == "" || why == "Same") ||
			$2 == "no" && $3 == "yes" && why !~ /^Entered/) { print; wrong++ }
		END { print count + 0 " places, " wrong + 0 " not explained"; exit wrong || count < 300 }' "$places.answers"
}

if under_test mainline; then
	tap_run "insn: where mainline optimises" jumps_as_mainline
fi
tap_plan
