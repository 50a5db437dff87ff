#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make fuzz": cargo-fuzz over the pure logic. Runs each fuzz target of host/fuzz for SECONDS_EACH= (600), or only the one
# that TARGET= names. What a target has found interesting is kept in the cache and used again the next time; an input that
# fails is left in build/fuzz/TARGET, and fails the command.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"

SECONDS_EACH=${SECONDS_EACH:-600}
fuzz=$REPO/tools/testing/host/fuzz

have_cargo_tool fuzz || install_cargo_tool fuzz
# Its instrumentation needs a nightly compiler, and libFuzzer a C++ compiler.
if ! have rustup || ! rustup toolchain list | grep '^nightly' >/dev/null; then
	die "fuzzing needs a nightly toolchain of rustup ('rustup toolchain install nightly')"
fi
have c++ || die "fuzzing needs a C++ compiler"

for target in ${TARGET:-$(cd "$fuzz/fuzz_targets" && printf '%s\n' *.rs | sed 's/\.rs$//')}; do
	[ -f "$fuzz/fuzz_targets/$target.rs" ] || die "no fuzz target '$target'"
	say "fuzzing $target for $SECONDS_EACH s"
	mkdir -p "$CACHE/fuzz/$target" "$REPO/build/fuzz/$target"
	PATH=$CACHE/tools/bin:$PATH rustup run nightly cargo fuzz run --fuzz-dir "$fuzz" \
		--target-dir "$CACHE/target-fuzz" "$target" "$CACHE/fuzz/$target" -- \
		-max_total_time="$SECONDS_EACH" -artifact_prefix="$REPO/build/fuzz/$target/" -print_final_stats=1
done
