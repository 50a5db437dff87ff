#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts Ferrotrace into a kernel tree of the user's own, and removes it again:
#
#   export.sh TREE                  applies the series, copies our directories to kernel/ferrotrace,
#                                   and puts our headers for programs where "make headers_install"
#                                   looks
#   export.sh --undo[=force] TREE   restores the tree; "force" also drops changes in
#                                   kernel/ferrotrace
#
# In a git tree each patch becomes a commit, and the copy another. If a patch does not apply, or
# another step fails, nothing is changed. All is prepared outside of the tree, and moved into it at
# the end: in a git tree by one command, in a plain one so that --undo can continue after an
# interruption.
set -euo pipefail
# Commits are made in $(...): a failure there must end the script.
shopt -s inherit_errexit
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

# The last commit has it; it names the one before the first.
TRAILER=Ferrotrace-Base
OURS=kernel/ferrotrace

# in_git TREE: succeeds if it is the top of a git work tree; ends the script for one that git
# refuses.
in_git() {
	[ -e "$1/.git" ] || return 1
	have git || die "$1 is a git tree, and there is no git here"
	git -C "$1" rev-parse --show-toplevel >/dev/null || die "git does not take $1; it is as it was"
}

# touched OURS: every file of the kernel that our part there changes or makes. Its headers for programs have the same path in both.
touched() {
	{
		sed -n -E 's,^(---|\+\+\+) [ab]/([^[:space:]]+).*,\2,p' "$1"/integration/patches/*.patch
		(cd "$1" && find include/uapi -name '*.h')
	} | LC_ALL=C sort -u
}

there() { [ -e "$1" ] || [ -L "$1" ]; }

# copy_touched FROM TO OURS: these files of TO become FROM's, which may lack some.
copy_touched() {
	local f
	touched "$3" >"$scratch/touched"
	while read -r f; do
		if there "$1/$f"; then printf '%s\n' "$f"; else rm -f "$2/$f"; fi
	done <"$scratch/touched" | rsync -lpI --files-from=- "$1/" "$2/"
}

clean_git() {
	local changes
	changes=$(git -C "$1" status --porcelain --untracked-files=no)
	[ -z "$changes" ] || die "$1 has changes that are not committed"
}

# add_parts TREE: adds our part, the series for --undo, and files for readers.
add_parts() {
	local dest=$1/$OURS f
	mkdir -p "$dest/integration/patches" "$1/include/uapi/linux"
	(cd "$REPO" && { part_files; find Documentation -type f; printf '%s\n' README.md COPYING MAINTAINERS; } |
		rsync -lp --files-from=- . "$dest/")
	(cd "$PATCHES" && { patch_list; printf 'series\n'; } | rsync -lp --files-from=- . "$dest/integration/patches/")
	# The only files of kbuild that a kernel's tree does not ignore.
	printf 'exports_generated.h\n' >"$dest/.gitignore"
	for f in "$dest"/include/uapi/linux/*.h; do
		ln -s "../../../$OURS/include/uapi/linux/${f##*/}" "$1/include/uapi/linux/"
	done
}

# staged GIT...: git on the tree's objects, but with the files of the scratch tree, and with an index of its own.
staged() {
	GIT_INDEX_FILE=$scratch/index git --git-dir="$git_dir" --work-tree="$scratch/tree" -c core.fsmonitor=false "$@"
}

# commit PARENT: commits the staged files, with the message of standard input; prints the commit's
# name.
commit() {
	local content
	content=$(staged write-tree)
	staged commit-tree -p "$1" -F - "$content"
}

# commit_patch PARENT PATCH: the same with the patch's author and message. The series is known to apply.
commit_patch() {
	local info name email subject
	info=$(git mailinfo "$scratch/message" /dev/null <"$PATCHES/$2")
	name=$(sed -n 's/^Author: //p' <<<"$info")
	email=$(sed -n 's/^Email: //p' <<<"$info")
	subject=$(subject "$PATCHES/$2")
	patch -p1 -s -f --no-backup-if-mismatch -d "$scratch/tree" <"$PATCHES/$2" >&2
	sed -n -E 's,^(---|\+\+\+) [ab]/([^[:space:]]+).*,\2,p' "$PATCHES/$2" | sort -u | staged add -f --pathspec-from-file=-
	{ printf '%s\n\n' "$subject" && cat "$scratch/message"; } |
		GIT_AUTHOR_NAME=$name GIT_AUTHOR_EMAIL=$email commit "$1"
}

# subject PATCH
subject() { git mailinfo /dev/null /dev/null <"$1" | sed -n 's/^Subject: //p'; }

# move_to TREE COMMIT: the branch and the files, which have no changes.
move_to() {
	trap '' INT TERM HUP
	git -C "$1" reset -q --keep "$2"
}

export_git() {
	local tree=$1 base head p
	clean_git "$tree"
	base=$(git -C "$tree" rev-parse -q --verify HEAD) || die "$tree has no commit yet"
	if ! git -C "$tree" var GIT_COMMITTER_IDENT >/dev/null 2>&1 || ! git -C "$tree" var GIT_AUTHOR_IDENT >/dev/null 2>&1; then
		die "git does not know who commits: set user.name and user.email; $tree is as it was"
	fi
	git_dir=$(git -C "$tree" rev-parse --absolute-git-dir)
	staged read-tree "$base"
	head=$base
	for p in $(patch_list); do head=$(commit_patch "$head" "$p"); done
	add_parts "$scratch/tree"
	(cd "$scratch/tree" && printf '%s\n' "$OURS" include/uapi/linux/*) | staged add -f --pathspec-from-file=-
	head=$(printf '%s\n\n%s\n' "${OURS}: add Ferrotrace" "$TRAILER: $base" | commit "$head")
	move_to "$tree" "$head"
	say "$tree: $(git -C "$tree" rev-list --count "$base..HEAD") commits after $(git -C "$tree" rev-parse --short "$base")"
}

# A plain tree, while it is being changed, has in kernel/ferrotrace either "unused", with nothing else of it changed yet, or "before"
# with the files as they were.
export_plain() {
	local tree=$1 dest=$1/$OURS
	apply_series "$scratch/tree" "$(kernel_version "$tree")"
	add_parts "$scratch/tree"
	(cd "$scratch/tree/$OURS" && find . -type f ! -path ./integration/exported -print0 | xargs -0 sha256sum >integration/exported)
	mkdir "$scratch/before"
	copy_touched "$tree" "$scratch/before" "$REPO"
	trap '' INT TERM HUP
	mkdir "$dest"
	unfinished=$tree
	mkdir "$dest/unused"
	rsync -rlp --exclude=/unused "$scratch/tree/$OURS/" "$dest/"
	rsync -rlp "$scratch/before/" "$dest/unused/"
	mv "$dest/unused" "$dest/before"
	copy_touched "$scratch/tree" "$tree" "$dest"
	gone "$dest/before" "$tree"
	unfinished=
	say "$tree: $(patch_list | wc -l) patches applied, $OURS is new"
}

# gone DIRECTORY TREE: removes it by one rename, so that a part of it is never mistaken for all of
# it.
gone() {
	local to=$2/kernel/.ferrotrace.gone
	rm -rf "$to"
	mv "$1" "$to"
	rm -rf "$to" || say "warning: cannot remove $to, which is not needed"
}

# take_back TREE: restores the files in "before", if the tree was changed.
take_back() {
	local dest=$1/$OURS
	if [ -d "$dest/before" ]; then copy_touched "$dest/before" "$1" "$dest"; fi
	gone "$dest" "$1"
}

export_to() {
	local tree=$1 f
	! there "$tree/$OURS" || die "$tree has $OURS already; take it out with UNDO=1"
	(cd "$REPO" && find include/uapi -name '*.h') | while read -r f; do
		! there "$tree/$f" || die "$tree has another $f; it is as it was"
	done
	mkdir "$scratch/tree" "$scratch/trial"
	copy_touched "$tree" "$scratch/trial" "$REPO"
	apply_series "$scratch/trial" "$(kernel_version "$tree"); $tree is as it was"
	copy_touched "$tree" "$scratch/tree" "$REPO"
	if in_git "$tree"; then export_git "$tree"; else export_plain "$tree"; fi
	if ! kbuild_takes "$tree"; then say "warning: kbuild takes no path with spaces or colons: no kernel can be built there"; fi
	say "next: $OURS/Documentation/install.rst; to take it out: make export KTREE=$(printf %q "$tree") UNDO=1"
}

# git_base TREE: the commit before our first. A rebase may have given ours another parent since; no
# other commit may be after or between them.
git_base() {
	local at=HEAD p
	[ -n "$(git -C "$1" log -1 --format="%(trailers:key=$TRAILER,valueonly)")" ] ||
		die "the last commit of $1 is not that of make export: rebase what came after it, then try again"
	for p in $(patch_list | tac); do
		at+='~'
		[ "$(git -C "$1" log -1 --format=%s "$at" --)" = "$(subject "$PATCHES/$p")" ] ||
			die "the commits of $1 are not as make export has made them: $p is not where it was"
	done
	git -C "$1" rev-parse "$at~"
}

undo_git() {
	local tree=$1 base
	clean_git "$tree"
	base=$(git_base "$tree")
	# Built files.
	git -C "$tree" clean -f -d -q -X -- "$OURS"
	move_to "$tree" "$base"
	if there "$tree/$OURS"; then say "warning: $OURS has files that git does not know; they are still there"; fi
}

# changed_since OURS: its files that differ from the exported ones, and new ones that kbuild did not
# make.
changed_since() {
	if ! [ -f "$1/integration/exported" ]; then return; fi
	(
		cd "$1"
		LC_ALL=C sha256sum -c --quiet integration/exported 2>/dev/null | sed -n 's/: FAILED.*//p' || true
		find . -type f \( -name '*.rs' -o -name '*.[chS]' -o -name 'Kconfig*' -o -name Kbuild -o -name Makefile \) \
			! -name '*.mod.c' ! -name exports_generated.h | grep -vxFf <(cut -c 67- integration/exported) || true
	) | cut -c 3-
}

undo_plain() {
	local tree=$1 dest=$1/$OURS p changed
	mkdir "$scratch/tree"
	copy_touched "$tree" "$scratch/tree" "$dest"
	for p in $(patch_list | tac); do
		patch -R -p1 -s -f -E --no-backup-if-mismatch -d "$scratch/tree" <"$PATCHES/$p" >&2 ||
			die "integration/patches/$p cannot be taken back; $tree is as it was"
	done
	(cd "$dest" && find include/uapi -name '*.h') | (cd "$scratch/tree" && xargs rm -f)
	rm -rf "$dest/undoing"
	changed=$(changed_since "$dest")
	if [ "$changed" ] && ! [ "$force" ]; then
		printf '%s\n' "$changed" >&2
		die "these files of $OURS were changed since; UNDO=force drops that"
	fi
	trap '' INT TERM HUP
	rsync -rlp "$scratch/tree/" "$dest/undoing/"
	mv "$dest/undoing" "$dest/before"
	take_back "$tree"
}

undo() {
	local tree=$1 dest=$1/$OURS
	there "$dest" || die "$tree has no $OURS"
	if [ -d "$dest/before" ] || [ -d "$dest/unused" ]; then
		say "make export was interrupted in $tree"
		trap '' INT TERM HUP
		take_back "$tree"
	else
		[ -f "$dest/integration/patches/series" ] || die "$tree has no $OURS of make export"
		PATCHES=$dest/integration/patches
		if in_git "$tree"; then undo_git "$tree"; else undo_plain "$tree"; fi
	fi
	say "$tree is without Ferrotrace again"
}

finish() {
	trap '' INT TERM HUP
	if [ "$unfinished" ]; then
		take_back "$unfinished"
		say "error: failed; $unfinished is as it was"
	fi
	rm -rf "$scratch"
}

command=export_to force='' unfinished=''
case ${1:-} in
--undo) command=undo && shift ;;
--undo=force) command=undo force=1 && shift ;;
esac
[ -n "${1:-}" ] || die "which tree? make export KTREE=DIRECTORY [UNDO=1]"
[ -d "$1" ] || die "$1 is not a directory"
for tool in patch rsync; do have $tool || die "no $tool here: run 'make setup'"; done
# Where a hook or a rebase runs this, they speak of another tree.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX GIT_COMMON_DIR GIT_OBJECT_DIRECTORY
tree=$(cd -- "$1" && pwd -P)
check_kernel "$tree"
scratch=$(mktemp -d)
trap finish EXIT
$command "$tree"
