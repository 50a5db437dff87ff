#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the user-space command and installs it with its man pages and completions: below $DESTDIR$PREFIX, /usr/local by default.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

to=${DESTDIR:-}${PREFIX:-/usr/local}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}

cargo=$(locked_cargo) || die "no cargo; run 'make setup'"
"$cargo" build --locked -q --release --manifest-path "$REPO/tools/ferrotrace/Cargo.toml"
install -D -m 755 "$CARGO_TARGET_DIR/release/ferrotrace" "$to/bin/ferrotrace"
# The command of version 5 of DProbes.
ln -sfn ferrotrace "$to/bin/dprobes"
"$to/bin/ferrotrace" manual "$to/share"
say "installed ferrotrace in $to/bin, man pages and completions in $to/share"
