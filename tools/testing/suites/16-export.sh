#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make export" puts Ferrotrace into a kernel tree and takes it out again: a plain one and one in git, and one that the
# series does not fit; also when it is interrupted. The trees have only the files that it looks at. And configurations of other people
# take our options, and versions of symbols where storms are long (make check-long).
# Seconds: 90
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
orig=$(dirname "$("$REPO/integration/source.sh")")
orig=$(find "$orig" -maxdepth 1 -name '*.orig' | head -n 1)
# A commit needs an author.
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@test GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@test

# new_tree NAME [FILE...]: the files of the kernel's tree that the patches touch and that have its
# version, and these.
new_tree() {
	mkdir -p "$scratch/$1/rust/kernel"
	{
		printf '%s\n' Makefile rust/Makefile include/uapi/linux/types.h "${@:2}"
		(cd "$PATCHES" && patch_list | xargs sed -n -E 's,^--- a/([^[:space:]]+).*,\1,p' | sort -u)
	} | rsync -rlp --files-from=- "$orig/" "$scratch/$1/"
	# Access of other users does not matter.
	chmod 750 "$scratch/$1" "$scratch/$1/kernel"
	cp -rp "$scratch/$1" "$scratch/$1.before"
}

# new_git NAME: the same in git, with one commit.
new_git() {
	new_tree "$1"
	git -C "$scratch/$1" init -q && git -C "$scratch/$1" add -A -f && git -C "$scratch/$1" commit -q -m before
}

export_tree() { "$REPO/integration/export.sh" "$@" >"$scratch/output" 2>&1; }
said() { grep -F -- "$1" "$scratch/output" >/dev/null || { cat "$scratch/output" && return 1; }; }
modes() { (cd "$1" && find . -name .git -prune -o -type l -o -printf '%m %p\n' | sort -k 2); }
untouched() {
	diff -r --no-dereference --exclude=.git "$scratch/$1.before" "$scratch/$1" && diff <(modes "$scratch/$1.before") <(modes "$scratch/$1")
}
commits() { git -C "$scratch/$1" rev-list --count HEAD; }
number=$(patch_list | wc -l)

plain() {
	new_tree plain
	export_tree "$scratch/plain" && said "$number patches applied" &&
		grep ferrotrace "$scratch/plain/kernel/Makefile" &&
		cmp "$REPO/kprobes/hit.rs" "$scratch/plain/kernel/ferrotrace/kprobes/hit.rs" &&
		! export_tree "$scratch/plain" && said "has kernel/ferrotrace already" &&
		export_tree --undo "$scratch/plain" && untouched plain &&
		! export_tree --undo "$scratch/plain" && said "has no kernel/ferrotrace"
}

in_git() {
	new_git git || return 1
	echo >>"$scratch/git/Makefile"
	! export_tree "$scratch/git" && said "not committed" && git -C "$scratch/git" checkout -q Makefile &&
		export_tree "$scratch/git" && said "$((number + 1)) commits after" &&
		[ "$(commits git)" = $((number + 2)) ] &&
		git -C "$scratch/git" log --format=%s | grep -x 'uprobes: add a hook point after the instruction' &&
		[ -z "$(git -C "$scratch/git" log --diff-filter=D --format= --name-only)" ] &&
		[ -z "$(git -C "$scratch/git" status --porcelain)" ] &&
		git -C "$scratch/git" commit -q --allow-empty -m later &&
		! export_tree --undo "$scratch/git" && said "rebase what came after it" &&
		git -C "$scratch/git" reset -q --hard HEAD~1 &&
		export_tree --undo "$scratch/git" && untouched git && [ "$(commits git)" = 1 ]
}

# A user of git has hooks, signs, or has not set a name: the tree is as before, or has all of it.
git_users() {
	local tree=$scratch/users
	new_git users || return 1
	git -C "$tree" config user.useConfigOnly true
	! env -u GIT_AUTHOR_NAME -u GIT_AUTHOR_EMAIL -u GIT_COMMITTER_NAME -u GIT_COMMITTER_EMAIL HOME="$scratch" \
		"$REPO/integration/export.sh" "$tree" >"$scratch/output" 2>&1 && said "set user.name" && untouched users || return 1
	printf '#!/bin/sh\nexit 1\n' >"$tree/.git/hooks/prepare-commit-msg"
	chmod +x "$tree/.git/hooks/prepare-commit-msg"
	git -C "$tree" config commit.gpgsign true
	git -C "$tree" config gpg.program false
	export_tree "$tree" && [ "$(commits users)" = $((number + 2)) ] && export_tree --undo "$tree" && untouched users || return 1
	new_tree unborn
	git -C "$scratch/unborn" init -q
	! export_tree "$scratch/unborn" && said "has no commit yet" && untouched unborn
}

# A git tree of another user, which git refuses, is not a plain one.
git_foreign() {
	new_tree foreign
	git -C "$scratch/foreign" init -q
	# git's message for "dubious ownership".
	GIT_TEST_ASSUME_DIFFERENT_OWNER=1 HOME=$scratch export_tree "$scratch/foreign"
	said "git does not take" && untouched foreign
}

# Upstream has moved: only our commits are removed.
git_rebased() {
	local tree=$scratch/rebased
	new_git rebased && export_tree "$tree" || return 1
	git -C "$tree" checkout -q -b upstream "HEAD~$((number + 1))"
	echo "# upstream" | tee -a "$tree/Makefile" >>"$tree.before/Makefile"
	git -C "$tree" commit -q -a -m upstream
	git -C "$tree" checkout -q - && git -C "$tree" rebase -q upstream || return 1
	export_tree --undo "$tree" && [ "$(commits rebased)" = 2 ] && untouched rebased || return 1
	# Another commit among them is not lost.
	export_tree "$tree" && git -C "$tree" reset -q --hard HEAD~1 && git -C "$tree" commit -q --allow-empty -m "among them" &&
		git -C "$tree" cherry-pick "HEAD@{2}" >/dev/null && ! export_tree --undo "$tree" && said "is not where it was" &&
		git -C "$tree" log --format=%s | grep -x "among them"
}

# Files of kbuild there are removed with it, and git reports none.
git_built() {
	local tree=$scratch/built
	new_tree built .gitignore
	git -C "$tree" init -q && git -C "$tree" add -A -f && git -C "$tree" commit -q -m before && export_tree "$tree" || return 1
	touch "$tree/kernel/ferrotrace/rust/"{exports.o,.exports.o.cmd,exports_generated.h,libferro_core.rmeta}
	[ -z "$(git -C "$tree" status --porcelain)" ] && export_tree --undo "$tree" && ! [ -e "$tree/kernel/ferrotrace" ] && untouched built
}

# Changes in kernel/ferrotrace of a plain tree are only dropped if asked for; files of kbuild are.
changed() {
	local ours=$scratch/changed/kernel/ferrotrace
	new_tree changed
	export_tree "$scratch/changed" || return 1
	touch "$ours/rust/"{exports.o,.exports.o.cmd,exports_generated.h,some.mod.c}
	echo "// mine" >>"$ours/kprobes/hit.rs"
	echo "// mine" >"$ours/klog/mine.rs"
	! export_tree --undo "$scratch/changed" && said "UNDO=force" && said kprobes/hit.rs && said klog/mine.rs &&
		! said rust/ >/dev/null && grep mine "$ours/kprobes/hit.rs" && make -C "$REPO" export KTREE="$scratch/changed" UNDO=force &&
		untouched changed
}

# Any characters in the name; kbuild refuses some, with a message.
names() {
	local name="it's a \"tree\" of \$HOME"
	new_tree "$name"
	make -C "$REPO" export KTREE="$scratch/${name/\$/\$\$}" >"$scratch/output" 2>&1
	said "is not a directory" || return 1
	make -C "$REPO" export KTREE="$scratch/$name" >"$scratch/output" 2>&1
	said "no path with spaces" && [ -d "$scratch/$name/kernel/ferrotrace" ] || return 1
	# As said.
	(cd "$REPO" && eval "$(sed -n 's/.*to take it out: //p' "$scratch/output")") && untouched "$name" || return 1
	! make -C "$REPO" export KTREE="$scratch/$name" UNDO=no && untouched "$name" || return 1
	# A shell's search path for "cd" is not for us.
	(cd "$REPO" && CDPATH=.:$REPO:/ KTREE="$scratch/$name" make export) && [ -d "$scratch/$name/kernel/ferrotrace" ]
}

# No kernel's tree, or another kernel's.
no_tree() {
	local name
	mkdir -p "$scratch/none/rust/kernel"
	for name in none no-such-directory; do ! export_tree "$scratch/$name" || return 1; done
	said "is not a directory" || return 1
	printf 'all:\n\ttouch %s/ran\nkernelversion: all\n\t@echo 7.3.0\n' "$scratch" >"$scratch/none/Makefile"
	! export_tree "$scratch/none" && said "is not a kernel source tree" && ! [ -e "$scratch/ran" ] || return 1
	new_tree taken
	touch "$scratch/taken"{,.before}/include/uapi/linux/ferrotrace_relay.h
	! export_tree "$scratch/taken" && said "has another include/uapi/linux/ferrotrace_relay.h" && untouched taken
}

# with_bad TOOL SIGNAL N ARGS...: runs the script; instead of its Nth call of the tool, all of it
# gets the signal, or the call fails ("no").
with_bad() {
	local tool=$1
	mkdir -p "$scratch"/{bin,tmp}
	cat >"$scratch/bin/$tool" <<-END
		#!/bin/sh
		echo >>"$scratch/calls"
		if [ "\$(wc -l <"$scratch/calls")" = $3 ]; then
			if [ $2 = no ]; then exit 1; fi
			kill -$2 0
		fi
		exec $(command -v "$tool") "\$@"
	END
	chmod +x "$scratch/bin/$tool"
	shift 3
	rm -f "$scratch/calls"
	TMPDIR=$scratch/tmp PATH=$scratch/bin:$PATH setsid -w "$REPO/integration/export.sh" "$@" >"$scratch/output" 2>&1
	# A killed run leaves these.
	rm -rf "${scratch:?}"/{bin,tmp}
}

# calls TOOL ARGS...: how often the script calls it when all is well.
calls() {
	with_bad "$1" no 0 "${@:2}"
	wc -l <"$scratch/calls"
}

# whole NAME: all of it is there, or nothing.
whole() {
	# A directory that is of no further use.
	rm -rf "$scratch/$1/kernel/.ferrotrace.gone"
	if [ -e "$scratch/$1/kernel/ferrotrace" ]; then
		diff -r --no-dereference --exclude=.git "$scratch/$1.after" "$scratch/$1" && export_tree --undo "$scratch/$1"
	fi
	untouched "$1"
}

# Which calls fail: of all tools where storms are long.
long() { [ "${FERROTRACE_STORM:-}" = long ]; }

# Each call of a tool fails, or all is ended there: by the terminal, or at once, after which UNDO=1 puts things right.
interrupted() {
	local kind=int-$1 tool signal n all tools=rsync signals="no KILL"
	if long; then tools="rsync mv rm" signals="no TERM KILL"; fi
	if [ "$1" = git ]; then new_git "$kind" && tools=git; else new_tree "$kind"; fi
	export_tree "$scratch/$kind" && cp -rp "$scratch/$kind" "$scratch/$kind.after" && whole "$kind" || return 1
	for tool in $tools; do
		all=$(calls "$tool" "$scratch/$kind")
		echo "$tool: $all calls"
		whole "$kind" || return 1
		for signal in $signals; do
			for ((n = 1; n <= all; n++)); do
				with_bad "$tool" "$signal" $n "$scratch/$kind"
				if [ "$signal" = KILL ] && [ -e "$scratch/$kind/kernel/ferrotrace" ]; then
					export_tree --undo "$scratch/$kind" && untouched "$kind"
				else
					whole "$kind"
				fi || { echo "call $n of $tool: $signal" && return 1; }
				# One call for each patch: tried once.
				case $tool.$signal.$n in git.no.12 | git.KILL.4 | git.TERM.4) n=$((all - 4)) ;; esac
				# All the same before the tree is changed.
				if ! long && [ "$tool" = rsync ] && [ $n = 1 ]; then n=4; fi
			done
		done
	done
}

# The same for removing it from a plain tree.
undo_interrupted() {
	local tool signal n all tools=rsync
	if long; then tools="rsync mv rm"; fi
	new_tree undo
	for tool in $tools; do
		export_tree "$scratch/undo" || return 1
		all=$(calls "$tool" --undo "$scratch/undo")
		echo "$tool: $all calls"
		for signal in no KILL; do
			for ((n = 1; n <= all; n++)); do
				export_tree "$scratch/undo" || return 1
				with_bad "$tool" $signal $n --undo "$scratch/undo"
				if [ -e "$scratch/undo/kernel/ferrotrace" ]; then export_tree --undo "$scratch/undo"; fi
				rm -rf "$scratch/undo/kernel/.ferrotrace.gone"
				untouched undo || { echo "call $n of $tool: $signal" && return 1; }
			done
		done
	done
}

# "make headers_install" gives programs our headers.
headers() {
	local header
	# A part of the installed headers: all of them take a minute.
	new_tree headers scripts tools/build tools/scripts arch/x86/{Makefile,entry/syscalls,include/uapi,include/asm/Kbuild} \
		include/asm-generic/Kbuild include/uapi/asm-generic
	export_tree "$scratch/headers" &&
		make -s -C "$scratch/headers" O="$scratch/headers.out" ARCH=x86_64 INSTALL_HDR_PATH="$scratch/installed" headers_install || return 1
	for header in "$REPO"/include/uapi/linux/*.h; do
		[ -f "$scratch/installed/include/linux/${header##*/}" ] && ! [ -L "$scratch/installed/include/linux/${header##*/}" ] || return 1
	done
	grep __KERNEL__ "$scratch/installed/include/linux/"ferrotrace_*.h
	[ $? = 1 ]
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
	! export_tree "$scratch/old" && said "not $SERIES" && ! [ -e "$scratch/old/kernel/ferrotrace" ] || return 1
	# Of the time before Rust.
	rmdir "$scratch/old/rust/kernel" || rm -r "$scratch/old/rust"
	! export_tree "$scratch/old" && said "is kernel 6.3"
}

# source_of SOURCE: the tree that "make kernel KSRC=" would build, in a cache of its own; prints the
# patched tree.
source_of() { FERROTRACE_CACHE=$scratch/cache KSRC=$1 "$REPO/integration/source.sh" 2>"$scratch/output"; }
sources() { (cd "$scratch/cache/src" && echo *); }

# as_nobody CMD...: as a user without privileges.
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"; }
source_of_nobody() { FERROTRACE_CACHE=$scratch/nobody/cache KSRC=$1 as_nobody "$REPO/integration/source.sh" 2>"$scratch/output"; }

# A source that cannot be read as a whole is refused; a read-only one is accepted, and its copy can
# be removed.
sources_of_others() {
	local name
	mkdir -p "$scratch/nobody"
	chown 65534:65534 "$scratch/nobody" && chmod 755 "$scratch" || return 1
	for name in partly readable; do
		new_tree $name
		chmod -R a+rX,a-w "$scratch/$name"
	done
	chmod 0 "$scratch/partly/arch/Kconfig"
	! source_of_nobody "$scratch/partly" && said "cannot unpack" && [ -z "$(ls "$scratch/nobody/cache/src")" ] || return 1
	source_of_nobody "$scratch/readable" && as_nobody rm -r "$scratch/nobody/cache"
}

# Sources that cannot be built are refused before they are copied, or leave nothing behind.
sources_refused() {
	local name
	mkdir -p "$scratch/cache/src" "$scratch/no-kernel"
	echo none >"$scratch/text"
	for name in no-such no-kernel text; do ! source_of "$scratch/$name" || return 1; done
	new_tree has-it && export_tree "$scratch/has-it" || return 1
	! source_of "$scratch/has-it" && said "has kernel/ferrotrace already" && ! said unpacking >/dev/null || return 1
	tar -C "$scratch" -cf "$scratch/has-it.tar" has-it
	! source_of "$scratch/has-it.tar" && said "$scratch/has-it.tar has kernel/ferrotrace already" || return 1
	[ "$(sources)" = "*" ] || { sources && return 1; }
	new_tree misfit
	truncate -s 0 "$scratch/misfit/arch/Kconfig"
	! source_of "$scratch/misfit" && said "patches/0010" && ! [[ $(sources) = *.new* ]] || return 1
	! FERROTRACE_CACHE="$scratch/a cache" KSRC=$scratch/misfit "$REPO/integration/source.sh" 2>"$scratch/output" && said "no path with spaces"
}

# Each change of a tree makes a copy; those that are unused for a day are removed, except three.
sources_pruned() {
	local n tree
	new_tree mine
	rm -rf "$scratch/cache/src"
	for n in 1 2 3 4 5; do
		echo "# $n" >>"$scratch/mine/Makefile"
		tree=$(source_of "$scratch/mine") || return 1
		if [ $n -lt 5 ]; then touch -d "$((9 - n)) days ago" "$tree" "${tree%-*}.orig"; fi
	done
	sources
	grep -F "# 5" "$tree/Makefile" || return 1
	[ "$(sources | wc -w)" = 6 ]
}

# From a file that is no configuration for it, Kconfig would make a kernel with defaults.
configurations_refused() {
	local name
	echo "CONFIG_EXPERT=y" | gzip >"$scratch/config.gz"
	: >"$scratch/empty"
	printf '%s\n' "# Linux/arm64 7.3.4 Kernel Configuration" CONFIG_ARM64=y CONFIG_64BIT=y >"$scratch/arm64"
	for name in config.gz empty; do
		! KCONFIG=$scratch/$name "$REPO/integration/kernel.sh" kdir own 2>"$scratch/output" && said "no line CONFIG_" || return 1
	done
	printf '%s\n' CONFIG_SPARC=y CONFIG_64BIT=y >"$scratch/sparc"
	for name in arm64 sparc; do
		! KCONFIG=$scratch/$name "$REPO/integration/kernel.sh" kdir own 2>"$scratch/output" && said "is not for x86_64" || return 1
	done
}

# The compiler is the one that the configuration is for.
compilers_of() {
	printf '%s\n' CONFIG_CC_IS_CLANG=y CONFIG_64BIT=y >"$scratch/clang"
	printf '%s\n' CONFIG_CC_IS_GCC=y CONFIG_64BIT=y >"$scratch/gcc"
	if find_clang >/dev/null; then
		KCONFIG=$scratch/clang "$REPO/integration/kernel.sh" tools own | grep -E '^CC=ccache .*clang' || return 1
	else
		! KCONFIG=$scratch/clang "$REPO/integration/kernel.sh" tools own 2>"$scratch/output" && said "needs clang" || return 1
	fi
	KCONFIG=$scratch/gcc "$REPO/integration/kernel.sh" tools own | grep -x 'CC=ccache gcc'
}

# Where configured() has the repository: in a directory with a space.
spaced="$scratch/a repository"
copy_repository() { mkdir -p "$spaced" && (cd "$REPO" && { part_files; find integration -type f; } | rsync -lp --files-from=- . "$spaced/"); }

# configured LINE...: the variant own on top of the kernel's default configuration and these lines;
# $config is the result.
configured() {
	cp "$orig/arch/x86/configs/x86_64_defconfig" "$scratch/kconfig"
	printf '%s\n' "$@" >>"$scratch/kconfig"
	[ -d "$spaced" ] || copy_repository
	config=$(KCONFIG=$scratch/kconfig FERROTRACE_TOOLS=test "$spaced/integration/kernel.sh" config own 2>"$scratch/output") ||
		{ cat "$scratch/output" && return 1; }
}

own() {
	configured && ! grep "asked for" "$scratch/output" && grep -qx CONFIG_KPROBES_RUST=y "$config" && grep -qx CONFIG_DPROBES_RUST=m "$config"
}

# by_hand: the document's own line has the same effect on its options, if none of them was asked for
# before. After own().
by_hand() {
	local dir=${config%/*} words i wanted
	read -r -a words < <(sed -n '/^    scripts\/config /,/[^\\]$/p' "$REPO/Documentation/install.rst" | sed 's/\\$//' | tr '\n' ' ')
	echo "${words[*]}"
	KCONFIG=$scratch/kconfig FERROTRACE_TOOLS=test "$REPO/integration/kernel.sh" make own -s x86_64_defconfig &&
		(cd "$dir" && "$orig/${words[0]}" "${words[@]:1}") &&
		KCONFIG=$scratch/kconfig FERROTRACE_TOOLS=test "$REPO/integration/kernel.sh" make own -s olddefconfig || return 1
	for ((i = 1; i < ${#words[@]}; i += 2)); do
		case ${words[i]} in
		-e) wanted=y ;;
		-m) wanted=m ;;
		*) return 1 ;;
		esac
		grep -x "CONFIG_${words[i + 1]}=$wanted" "$config" || { echo "not as asked for: ${words[i + 1]}" && return 1; }
	done
	[ ${#words[@]} -ge 11 ]
}

# Excluded options are named, and left out.
own_without() {
	configured CONFIG_EXPERT=y CONFIG_PREEMPT_RT=y && said "asked for CONFIG_DPROBES_RUST=m, got CONFIG_DPROBES_RUST=n" &&
		said "the kernel is without them" && grep -qx CONFIG_PREEMPT_RT=y "$config" && grep -qx CONFIG_KPROBES_RUST=y "$config" || return 1
	[ "$(grep -c "asked for" "$scratch/output")" = 1 ]
}

# Without Rust, which module versions by the old tool exclude, none of our options remains.
own_not() {
	! configured CONFIG_MODVERSIONS=y >"$scratch/said" && grep -F "the configuration did not take every option of own" "$scratch/said"
}

# With versions of symbols, those of functions in Rust depend on their types. A part of the kernel
# is built for this.
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
tap_run "export: a tree in git: hooks, signatures, nobody's" git_users
tap_run "export: a tree in git that git refuses" git_foreign
tap_run "export: a tree in git that was rebased" git_rebased
tap_run "export: a tree in git that was built" git_built
tap_run "export: what was changed in a plain tree" changed
tap_run "export: names of trees" names
tap_run "export: no kernel's tree" no_tree
tap_run "export: a plain tree, interrupted" interrupted plain
tap_run "export: a tree in git, interrupted" interrupted git
tap_run "export: taking out of a plain tree, interrupted" undo_interrupted
tap_run "export: headers for programs" headers
tap_run "export: a tree that the series does not fit is left alone" unfit
tap_run "export: another version of the kernel" other_version
tap_run "export: sources that are refused" sources_refused
if [ "$(id -u)" = 0 ] && as_nobody test -r "$REPO/integration/lib.sh"; then
	tap_run "export: sources that belong to others" sources_of_others
else
	tap_skip "export: sources that belong to others" "not root, or only root may read the repository"
fi
tap_run "export: sources that nobody uses" sources_pruned
tap_run "export: configurations that are refused" configurations_refused
tap_run "export: the compiler of a configuration" compilers_of
tap_run "export: our options on top of the kernel's default configuration" own
tap_run "export: our options by hand, as the document says" by_hand
tap_run "export: our options on top of one that rules some out" own_without
tap_run "export: our options on top of one that rules all of them out" own_not
if long; then
	tap_run "export: versions of symbols tell their types" versions
else
	tap_skip "export: versions of symbols tell their types" "a long test"
fi
rm -rf "$(KCONFIG=$scratch/kconfig FERROTRACE_TOOLS=test "$REPO/integration/kernel.sh" kdir own)"
tap_plan
