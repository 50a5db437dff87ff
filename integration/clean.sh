#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
#   clean.sh          removes this repository's build output and its tree's build directories
#   clean.sh --all    removes the cache: sources, kernels, compiler cache, tools
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

rm -rf "$REPO/build"
if [ "${1:-}" = --all ]; then
	say "removing $CACHE"
	rm -rf "$CACHE"
elif [ -d "$CACHE/src" ]; then
	tree=$("$REPO/integration/source.sh")
	say "removing $tree, which every checkout with the same patches shares"
	with_lock "$(basename "$tree")" rm -rf "$tree"
	rm -rf "$CACHE/target" "$CACHE/target-loom" "$CACHE/target-miri"
fi
