#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make export" puts Ferrotrace into a kernel tree and takes it out again: a plain one and one in git, and one that the
# series does not fit. The trees have only the files that it looks at. And configurations of other people take our options, and
# versions of symbols where storms are long (make check-long).
# Seconds: 40
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
orig=$(dirname "$("$REPO/integration/source.sh")")
orig=$(find "$orig" -maxdepth 1 -name '*.orig' | head -n 1)
# A commit needs somebody.
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@test GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@test

# new_tree NAME: what of the kernel's tree the patches touch, and what tells its version.
new_tree() {
	mkdir -p "$scratch/$1/rust/kernel"
	{
		printf '%s\n' Makefile scripts rust/Makefile
		(cd "$PATCHES" && patch_list | xargs sed -n -E 's,^--- a/([^[:space:]]+).*,\1,p' | sort -u)
	} | rsync -rlp --files-from=- "$orig/" "$scratch/$1/"
	cp -r "$scratch/$1" "$scratch/$1.before"
}

export_tree() { "$REPO/integration/export.sh" "$@" >"$scratch/output" 2>&1; }
said() { grep -F -- "$1" "$scratch/output" >/dev/null || { cat "$scratch/output" && return 1; }; }
untouched() { diff -r --no-dereference --exclude=.git "$scratch/$1.before" "$scratch/$1"; }

plain() {
	new_tree plain
	export_tree "$scratch/plain" && said "$(patch_list | wc -l) patches applied" &&
		grep ferrotrace "$scratch/plain/kernel/Makefile" &&
		cmp "$REPO/kprobes/hit.rs" "$scratch/plain/kernel/ferrotrace/kprobes/hit.rs" &&
		! export_tree "$scratch/plain" && said "has kernel/ferrotrace already" &&
		export_tree --undo "$scratch/plain" && untouched plain &&
		! export_tree --undo "$scratch/plain" && said "has no kernel/ferrotrace"
}

in_git() {
	new_tree git
	git -C "$scratch/git" init -q && git -C "$scratch/git" add -A -f && git -C "$scratch/git" commit -q -m before || return 1
	echo >>"$scratch/git/Makefile"
	! export_tree "$scratch/git" && said "not committed" && git -C "$scratch/git" checkout -q Makefile &&
		export_tree "$scratch/git" && said "$(($(patch_list | wc -l) + 1)) commits after" &&
		[ "$(git -C "$scratch/git" rev-list --count HEAD)" = $(($(patch_list | wc -l) + 2)) ] &&
		git -C "$scratch/git" log --format=%s | grep -x 'uprobes: add a hook point after the instruction' &&
		[ -z "$(git -C "$scratch/git" status --porcelain)" ] &&
		git -C "$scratch/git" commit -q --allow-empty -m later &&
		! export_tree --undo "$scratch/git" && said "commits after that of Ferrotrace" &&
		git -C "$scratch/git" reset -q --hard HEAD~1 &&
		export_tree --undo "$scratch/git" && untouched git && [ "$(git -C "$scratch/git" rev-list --count HEAD)" = 1 ]
}

unfit() {
	new_tree unfit
	truncate -s 0 "$scratch/unfit/arch/Kconfig" "$scratch/unfit.before/arch/Kconfig"
	! export_tree "$scratch/unfit" && said "error: integration/patches/0010" && said "as it was" && untouched unfit
}

other_version() {
	new_tree other
	sed -i 's/^PATCHLEVEL = .*/PATCHLEVEL = 4/' "$scratch/other/Makefile"
	export_tree "$scratch/other" && said "warning: $scratch/other is kernel 7.4" || return 1
	new_tree old
	sed -i 's/^VERSION = .*/VERSION = 6/' "$scratch/old/Makefile"
	! export_tree "$scratch/old" && said "not $SERIES" && ! [ -e "$scratch/old/kernel/ferrotrace" ]
}

# configured LINE...: the variant own on top of the kernel's default configuration and these lines; $config is what came out.
configured() {
	cp "$orig/arch/x86/configs/x86_64_defconfig" "$scratch/kconfig"
	printf '%s\n' "$@" >>"$scratch/kconfig"
	config=$(KCONFIG=$scratch/kconfig FERROTRACE_TOOLS=test "$REPO/integration/kernel.sh" config own 2>"$scratch/output") ||
		{ cat "$scratch/output" && return 1; }
}

own() {
	configured && ! grep "asked for" "$scratch/output" && grep -qx CONFIG_KPROBES_RUST=y "$config" && grep -qx CONFIG_DPROBES_RUST=m "$config"
}

# What it rules out is named, and left out.
own_without() {
	configured CONFIG_EXPERT=y CONFIG_PREEMPT_RT=y && said "asked for CONFIG_DPROBES_RUST=m, got CONFIG_DPROBES_RUST=n" &&
		said "the kernel is without them" && grep -qx CONFIG_PREEMPT_RT=y "$config" && grep -qx CONFIG_KPROBES_RUST=y "$config" || return 1
	[ "$(grep -c "asked for" "$scratch/output")" = 1 ]
}

# Without Rust, which versions of modules by the old tool rule out, there is nothing of ours.
own_not() {
	! configured CONFIG_MODVERSIONS=y >"$scratch/said" && grep -F "the configuration did not take every option of own" "$scratch/said"
}

# With versions of symbols, those of functions in Rust tell their types. A part of the kernel is built for this.
versions() {
	local dir=kernel/ferrotrace/rust
	echo '#include <elfutils/libdw.h>' | gcc -E - >/dev/null 2>&1 || apt-get -q -y --no-install-recommends install libdw-dev || return 1
	configured CONFIG_MODVERSIONS=y CONFIG_GENDWARFKSYMS=y CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y &&
		! grep "asked for" "$scratch/output" &&
		KCONFIG=$scratch/kconfig FERROTRACE_TOOLS=test "$REPO/integration/kernel.sh" make own "$dir/exports.o" || return 1
	awk '$1 == "#SYMVER" { if ($2 ~ /^_R/) { rust++; if (!seen[$3]++) versions++ } else { c++ } }
		/^#SYMVER .* 0x00000000$/ { print "no version: " $2; bad++ }
		END { print rust " symbols of Rust, " versions " versions, " c " of C"; exit bad || !c || rust < 100 || versions * 10 < rust }' \
		"${config%/*}/$dir/.exports.o.cmd"
}

tap_run "export: a plain tree, and back" plain
tap_run "export: a tree in git, and back" in_git
tap_run "export: a tree that the series does not fit is left alone" unfit
tap_run "export: another version of the kernel" other_version
tap_run "export: our options on top of the kernel's default configuration" own
tap_run "export: our options on top of one that rules some out" own_without
tap_run "export: our options on top of one that rules all of them out" own_not
if [ "${FERROTRACE_STORM:-}" = long ]; then
	tap_run "export: versions of symbols tell their types" versions
else
	tap_skip "export: versions of symbols tell their types" "a long test"
fi
rm -rf "$(KCONFIG=$scratch/kconfig FERROTRACE_TOOLS=test "$REPO/integration/kernel.sh" kdir own)"
tap_plan
