#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make mutants": cargo-mutants over the pure logic. It changes one thing of the code at a time and runs
# the tests: a change without a failing test shows untested code. FILES= takes a pattern of paths
# such as 'rust/core/relay/*.rs'; without it all are changed, which takes hours. The results
# are in build/mutants/mutants.out, and a run leaves out mutants that earlier ones have caught
# there.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"

have_cargo_tool mutants || install_cargo_tool mutants
mkdir -p "$REPO/build/mutants"
packages=() files=()
for p in $(pure_packages); do packages+=(--package "$(package_name "$p")"); done
if [ -n "${FILES:-}" ]; then files=(--file "$FILES"); fi
# The copies that are changed have build directories of their own, and no Cargo.lock, which git ignores.
unset CARGO_TARGET_DIR
PATH=$CACHE/tools/bin:$PATH exec "$(find_cargo)" mutants --dir "$REPO" "${packages[@]}" --output "$REPO/build/mutants" \
	--iterate --jobs "$JOBS" "${files[@]}"
