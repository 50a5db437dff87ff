#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make fuzz": libFuzzer over the pure logic. Runs each fuzz target of host/fuzz for SECONDS_EACH=
# (600), or only the one that TARGET= names. Interesting inputs of a target are kept in the cache
# and used again the next time; a failing input is written to build/fuzz/TARGET, and fails the
# command.
#
# rustc's own flags make LLVM add the counters of libFuzzer: no nightly compiler, and no cargo-fuzz,
# which also adds sanitizers. The logic has no unsafe code that they would check.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"

SECONDS_EACH=${SECONDS_EACH:-600}
fuzz=$REPO/tools/testing/host/fuzz
# With a target, programs that run while others are built are not instrumented.
host=x86_64-unknown-linux-gnu
export CARGO_TARGET_DIR=$CACHE/target-fuzz
export RUSTFLAGS="--cfg fuzzing -Cdebug-assertions=on -Ccodegen-units=1 -Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
	RUSTFLAGS+=" -Cllvm-args=-sanitizer-coverage-$option"
done

have c++ || die "fuzzing needs a C++ compiler"

for target in ${TARGET:-$(cd "$fuzz/fuzz_targets" && printf '%s\n' *.rs | sed 's/\.rs$//')}; do
	[ -f "$fuzz/fuzz_targets/$target.rs" ] || die "no fuzz target '$target'"
	say "fuzzing $target for $SECONDS_EACH s"
	mkdir -p "$CACHE/fuzz/$target" "$REPO/build/fuzz/$target"
	"$(locked_cargo)" build --locked -q --release --manifest-path "$fuzz/Cargo.toml" --target "$host" --bin "$target"
	"$CARGO_TARGET_DIR/$host/release/$target" "$CACHE/fuzz/$target" \
		-max_total_time="$SECONDS_EACH" -artifact_prefix="$REPO/build/fuzz/$target/" -print_final_stats=1
done
