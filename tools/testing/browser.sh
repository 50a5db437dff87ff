#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests pages of "ferrotrace report --html" in a browser without a screen, which it installs if
# there is none (as root or with sudo; chromium-headless-shell: 64 MB to download, 230 MB on the
# disk). It is not part of "make check", because of that size.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"

find_browser() {
	local name
	for name in chromium-headless-shell chromium google-chrome; do
		command -v "$name" && return
	done
	return 1
}

if ! find_browser >/dev/null; then
	if [ "$(id -u)" = 0 ]; then as_root=(); else as_root=(sudo); fi
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install chromium-headless-shell >&2
fi
FERROTRACE_BROWSER=$(find_browser) || die "no browser"
export FERROTRACE_BROWSER CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
"$(locked_cargo)" test --locked --manifest-path "$REPO/tools/ferrotrace/Cargo.toml" --test command -- --include-ignored --nocapture report::
