#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# API documentation of the Cargo packages and of the crates in the kernel, with compiled examples,
# and a check that Documentation/ and README are well formed. For the kernel it uses the build of
# the variant modular.
set -uo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

export CARGO_TARGET_DIR=$CACHE/target
status=0
cd "$REPO" || exit 1

for p in $(pure_packages) tools/ferrotrace; do
	[ -f "$p/Cargo.toml" ] || continue
	say "doc: $p"
	RUSTDOCFLAGS="-D warnings" "$(locked_cargo)" doc --locked -q --no-deps --manifest-path "$p/Cargo.toml" || status=1
done

say "doc: the crates in the kernel"
"$REPO/integration/kernel.sh" build modular >/dev/null &&
	"$REPO/integration/rustdoc.py" "$("$REPO/integration/kernel.sh" kdir modular)" "$(rust_tool "$(find_rustc)" rustdoc)" \
		"$CARGO_TARGET_DIR/doc" || status=1

say "doc: Documentation/"
find Documentation -name '*.rst' 2>/dev/null | LC_ALL=C sort | xargs -r python3 "$REPO/integration/check-rst.py" || status=1

[ $status = 0 ] && say "doc: in $CARGO_TARGET_DIR/doc"
exit $status
