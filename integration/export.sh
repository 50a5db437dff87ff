#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts Ferrotrace into a kernel tree of the user's own, and takes it out again:
#   export.sh TREE          applies the series and copies our directories to kernel/ferrotrace
#   export.sh --undo TREE   the tree as it was before
# In a git tree each patch becomes a commit, and the copy another. Where a patch does not apply, nothing is changed.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

# The last commit names the one before the first.
TRAILER=Ferrotrace-Base

# in_git: whether the tree is the top of a git work tree.
in_git() { [ "$(git -C "$1" rev-parse --show-toplevel 2>/dev/null)" = "$1" ]; }

# touched DIR: every file that the patches of DIR change or make.
touched() { sed -n -E 's,^(---|\+\+\+) [ab]/([^[:space:]]+).*,\2,p' "$1"/*.patch | LC_ALL=C sort -u; }

# copy_touched FROM TO PATCHES: copies these files, as far as they are there.
copy_touched() {
	touched "$3" | (cd "$1" && while read -r f; do if [ -e "$f" ]; then printf '%s\n' "$f"; fi; done) |
		rsync -lp --files-from=- "$1/" "$2/"
}

clean_git() {
	[ -z "$(git -C "$1" status --porcelain --untracked-files=no)" ] || die "$1 has changes that are not committed"
}

# copy_parts TREE: our part of it, the series for --undo, and what a reader needs.
copy_parts() {
	local dest=$1/kernel/ferrotrace
	mkdir -p "$dest/integration/patches"
	(cd "$REPO" && { part_files; find Documentation -type f; printf '%s\n' README.md COPYING MAINTAINERS; } |
		rsync -lp --files-from=- . "$dest/")
	(cd "$PATCHES" && { patch_list; printf 'series\n'; } | rsync -lp --files-from=- . "$dest/integration/patches/")
}

# commit_patches TREE: a commit for each patch. The series is known to apply.
commit_patches() {
	local p info author email subject
	for p in $(patch_list); do
		info=$(git mailinfo "$scratch/message" /dev/null <"$PATCHES/$p")
		author=$(sed -n 's/^Author: //p' <<<"$info")
		email=$(sed -n 's/^Email: //p' <<<"$info")
		subject=$(sed -n 's/^Subject: //p' <<<"$info")
		patch -p1 -s -f --no-backup-if-mismatch -d "$1" <"$PATCHES/$p" >&2
		sed -n -E 's,^(---|\+\+\+) [ab]/([^[:space:]]+).*,\2,p' "$PATCHES/$p" | sort -u |
			git -C "$1" add -f --pathspec-from-file=-
		{ printf '%s\n\n' "$subject" && cat "$scratch/message"; } |
			git -C "$1" commit -q --no-verify --author="$author <$email>" -F -
	done
}

export_to() {
	local tree=$1 base
	[ ! -e "$tree/kernel/ferrotrace" ] || die "$tree has kernel/ferrotrace already; take it out with UNDO=1"
	if in_git "$tree"; then clean_git "$tree"; fi
	mkdir "$scratch/tree"
	copy_touched "$tree" "$scratch/tree" "$PATCHES"
	apply_series "$scratch/tree" "$(make -s -C "$tree" kernelversion); $tree is as it was"
	if in_git "$tree"; then
		base=$(git -C "$tree" rev-parse HEAD)
		commit_patches "$tree"
		copy_parts "$tree"
		git -C "$tree" add -f kernel/ferrotrace
		git -C "$tree" commit -q --no-verify -m "kernel/ferrotrace: add Ferrotrace" -m "$TRAILER: $base"
		say "$tree: $(git -C "$tree" rev-list --count "$base..HEAD") commits after $(git -C "$tree" rev-parse --short "$base")"
	else
		rsync -rlp "$scratch/tree/" "$tree/"
		copy_parts "$tree"
		say "$tree: $(patch_list | wc -l) patches applied, kernel/ferrotrace is new"
	fi
	say "next: kernel/ferrotrace/Documentation/install.rst; to take it out: make export KTREE=$tree UNDO=1"
}

undo() {
	local tree=$1 patches=$1/kernel/ferrotrace/integration/patches p base
	[ -f "$patches/series" ] || die "$tree has no kernel/ferrotrace of make export"
	if in_git "$tree"; then
		clean_git "$tree"
		base=$(git -C "$tree" log -1 --format="%(trailers:key=$TRAILER,valueonly)")
		[ -n "$base" ] || die "$tree has commits after that of Ferrotrace; rebase them, then try again"
		git -C "$tree" reset -q --hard "$base"
	else
		mkdir "$scratch/tree"
		copy_touched "$tree" "$scratch/tree" "$patches"
		PATCHES=$patches
		for p in $(patch_list | tac); do
			patch -R -p1 -s -f -E --no-backup-if-mismatch -d "$scratch/tree" <"$patches/$p" >&2 ||
				die "integration/patches/$p cannot be taken back; $tree is as it was"
		done
		touched "$patches" | while read -r p; do
			if [ ! -e "$scratch/tree/$p" ]; then rm -f "$tree/$p"; fi
		done
		rsync -rlp "$scratch/tree/" "$tree/"
		rm -rf "$tree/kernel/ferrotrace"
	fi
	say "$tree is without Ferrotrace again"
}

command=export_to
if [ "${1:-}" = --undo ]; then command=undo && shift; fi
[ -n "${1:-}" ] || die "which tree? make export KTREE=DIRECTORY [UNDO=1]"
[ -d "$1" ] || die "$1 is not a directory"
tree=$(cd "$1" && pwd -P)
check_kernel "$tree"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
$command "$tree"
