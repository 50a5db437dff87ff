#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests that run on the host: of the scripts, of the Cargo packages, and Miri over the pure logic. With an argument, only the tests
# of the packages whose path has it.
# Seconds: 220
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# Cargo packages with tests.
PURE=$(pure_packages)
PACKAGES="$PURE tools/ferrotrace tools/testing/host"
LOOM_PACKAGES="fast_relay/core"

# have_miri: a nightly toolchain with Miri, completed by rustup where that is the installer.
have_miri() {
	have rustup && rustup toolchain list | grep '^nightly' >/dev/null || return 1
	rustup component list --toolchain nightly --installed | grep '^miri' >/dev/null ||
		rustup component add --toolchain nightly miri rust-src >&2
}

# packages_with NAME: the packages that have a test, or a file, of that name, or of the last part of the path a::b.
packages_with() {
	local p last=${1%::}
	last=${last##*::}
	for p in $PACKAGES; do
		if (cd "$REPO" && { git ls-files "$p" && git grep -hE "^ *fn (\w*_)?$last" -- "$p/*.rs"; }) | grep -E "(/|_|fn )$last" >/dev/null; then
			printf '%s\n' "$p"
		fi
	done
}

if [ $# -gt 0 ]; then
	cargo=$(locked_cargo) || die "no cargo; run 'make setup'"
	for p in $(packages_with "$1"); do
		tap_nest "cargo: $p" cargo_tests "$p" "$cargo" test --locked --manifest-path "$REPO/$p/Cargo.toml" "$1"
	done
	tap_plan
	exit
fi

tap_nest "scripts: ktap.py" python3 "$REPO/tools/testing/ktap_test.py"

# Headers for user space must be C90, as CONFIG_UAPI_HEADER_TEST demands.
for h in "$REPO"/include/uapi/linux/*.h; do
	tap_run "uapi: $(basename "$h") is C90" gcc -std=c90 -Wall -Werror -Wno-unused-function -x c -fsyntax-only "$h"
done

# header_constants: fails if a header that bindgen may read defines a constant as a const variable. bindgen 0.71, the
# oldest that the kernel takes, makes an extern static of some of them (rust/sys/code/text.h), later ones of none, so that only
# a build with the oldest would tell. An enumerator is a constant for each.
header_constants() {
	! (cd "$REPO" && grep -rnE --include='*.h' '^[[:space:]]*(static[[:space:]].*)?\<const\>[^(*;]*=' include clients fast_relay gkhi klog kprobes relay rust)
}
tap_run "headers: constants are enumerators" header_constants

# old_rust: the packages have no let chains (if let Some(x) = y && ...), which rustc accepts since
# 1.88; their manifests, and bookworm, need 1.85 only. Let chains are in the edition of 2024: the
# edition of 2021 reports them as errors.
old_rust() {
	local rustfmt
	rustfmt=$(rust_tool "$(find_rustc)" rustfmt) || return 1
	find "$REPO/tools" -name target -prune -o -name '*.rs' -print0 |
		xargs -0 "$rustfmt" --edition 2021 --config style_edition=2024 --quiet --emit stdout >/dev/null
}
tap_run "rust: no let chains" old_rust

# Tools that judge exported traces. Tests that need one are ignored without it, and count as
# skipped.
export FERROTRACE_READERS=$CACHE/tools/readers
READERS=()
if [ -e "$FERROTRACE_READERS/complete" ]; then
	READERS=(-- --include-ignored --skip browser_shows)
	[ -x "$FERROTRACE_READERS/bin/babeltrace2" ] || READERS+=(--skip babeltrace_of_version_2)
fi

# Property tests have the same cases each time, so that a change is judged by its own effects; make
# check-long draws others, and more of them.
if [ "${FERROTRACE_STORM:-}" = long ]; then
	export PROPTEST_CASES=5000 PROPTEST_MAX_GLOBAL_REJECTS=50000
else
	export PROPTEST_RNG_SEED=1
fi

cargo=$(locked_cargo) || die "no cargo; run 'make setup'"
for p in $PACKAGES; do
	[ -f "$REPO/$p/Cargo.toml" ] || continue
	args=()
	[ "$p" != tools/ferrotrace ] || args=("${READERS[@]}")
	tap_nest "cargo: $p" cargo_tests "$p" "$cargo" test --locked --manifest-path "$REPO/$p/Cargo.toml" "${args[@]}"
done

# Memory ordering, by loom, where a package has tests for it. They run for seconds: compiling the
# package takes long.
for p in $LOOM_PACKAGES; do
	CARGO_TARGET_DIR=$CACHE/target-loom CARGO_PROFILE_TEST_OPT_LEVEL=0 RUSTFLAGS="--cfg loom" tap_nest "loom: $p" \
		cargo_tests "loom: $p" "$cargo" test --locked --manifest-path "$REPO/$p/Cargo.toml" --lib ordering
done

# The pure logic forbids unsafe code, so Miri finds little, and takes ten minutes for all. Here it runs only the tests of the
# memory that user space or another CPU shares. MIRI_TESTS= names others; without a name all run (make check-long).
MIRI_PACKAGES=$PURE
if [ -z "${MIRI_TESTS+set}" ]; then MIRI_PACKAGES=fast_relay/core MIRI_TESTS=ring::; fi
for p in $MIRI_PACKAGES; do
	[ -f "$REPO/$p/Cargo.toml" ] || continue
	if have_miri; then
		# Few cases: Miri is slow, and its checks do not depend on the values.
		export PROPTEST_CASES=${MIRI_CASES:-4} MIRIFLAGS=-Zmiri-disable-isolation
		# Not in the cache: Miri's files there name the checkout of the first build for
		# good.
		CARGO_TARGET_DIR=$REPO/build/target-miri tap_nest "miri: $p" \
			cargo_tests "miri: $p" rustup run nightly cargo miri test --locked --manifest-path "$REPO/$p/Cargo.toml" \
			-- ${MIRI_TESTS:+"$MIRI_TESTS"}
	else
		tap_skip "miri: $p" "no nightly toolchain with Miri"
	fi
done
tap_plan
