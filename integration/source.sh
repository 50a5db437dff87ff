#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Prints the directory of a patched kernel tree, making it first when it is not in the cache:
#
#   source.sh            the tree for this repository's patches
#   source.sh --update   the same, but first looks whether a newer 7.3.x is available
#   source.sh --config   prints instead the distribution's own configuration, of the version of its
#                        source package
#
# KSRC= takes a tree or a tarball of the user's own in place of the distribution's package.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=integration/apt.sh
. "$(dirname "$0")/apt.sh"

PKG=linux-source-$SERIES
CONFIG_PKG=linux-config-$SERIES
# Of its configurations, the one with the fewest drivers.
CONFIG_NAME=config.amd64_none_cloud-amd64
# Suites that may carry the package, besides those the machine is configured for.
MORE_SUITES="trixie-backports forky-backports testing unstable"

# offered PACKAGE: prints a line "VERSION SUITE" for each version on offer; SUITE is "-" for the machine's own.
offered() {
	local suite
	{
		apt-cache madison "$1" 2>/dev/null | awk -F'|' '{gsub(/ /, "", $2); print $2, "-"}'
		for suite in $MORE_SUITES; do
			private_sources "$suite" || continue
			private_apt "$suite" apt-get update >"$CACHE/apt/$suite/log" 2>&1 || continue
			private_apt "$suite" apt-cache madison "$1" 2>/dev/null |
				awk -F'|' -v s="$suite" '{gsub(/ /, "", $2); print $2, s}'
		done
	} | grep "^$SERIES\." | sort -s -V -k1,1
}

# fetch PACKAGE VERSION SUITE: puts it into dl/.
fetch() {
	rm -rf "$CACHE/dl/new"
	mkdir -p "$CACHE/dl/new"
	(
		cd "$CACHE/dl/new"
		if [ "$3" = - ]; then
			apt-get -q -o APT::Sandbox::User=root download "$1=$2"
		else
			private_apt "$3" apt-get download "$1=$2"
		fi
	) >&2 || die "cannot download $1 $2"
	mv "$CACHE"/dl/new/*.deb "$CACHE/dl/"
}

# download: puts the newest package into dl/ unless it is there.
download() {
	local version suite
	have apt-get || die "no apt-get here: give a kernel $SERIES tree or tarball with KSRC="
	say "looking for the newest $PKG on offer"
	read -r version suite < <(offered "$PKG" | tail -n 1) ||
		die "no $PKG on offer in this machine's suites or in: $MORE_SUITES (see $CACHE/apt/*/log); give a tree or tarball with KSRC="
	if compgen -G "$CACHE/dl/${PKG}_${version//:/%3a}_*.deb" >/dev/null; then return 0; fi
	say "downloading $PKG $version (about 170 MB)"
	fetch "$PKG" "$version" "$suite"
}

newest_downloaded() {
	find "$CACHE/dl/" -maxdepth 1 -name "${PKG}_*.deb" 2>/dev/null | sort -V | tail -n 1
}

# unpack_to DIR CMD...: runs CMD in a new directory and moves the tree it makes to DIR. A result
# that is no kernel's tree is removed.
unpack_to() {
	local dir=$1 tmp=$1.new
	shift
	rm -rf "$tmp"
	unfinished=$tmp
	trap 'rm -rf "$unfinished" "$unfinished.tree"' EXIT
	mkdir -p "$tmp"
	# As a condition: "set -e" does not hold in CMD.
	(cd "$tmp" && "$@" && chmod -R u+rwX .) || die "cannot unpack the kernel source"
	# A tarball has one top directory.
	if [ ! -f "$tmp/Makefile" ]; then
		set -- "$tmp"/*/Makefile
		[ -f "$1" ] || die "no kernel tree in the source given"
		mv "$(dirname "$1")" "$tmp.tree"
		rm -rf "$tmp"
		mv "$tmp.tree" "$tmp"
	fi
	check_source "$tmp" "${KSRC:-$PKG}"
	mv "$tmp" "$dir"
	trap - EXIT
}

# check_source TREE NAME: fails unless the series can be put upon it.
check_source() {
	check_kernel "$1" "$2"
	! [ -e "$1/kernel/ferrotrace" ] ||
		die "$2 has kernel/ferrotrace already: build it there, or take it out (make export KTREE=... UNDO=1)"
}

unpack_deb() {
	dpkg-deb --fsys-tarfile "$1" | tar xO --wildcards '*/linux-source-*.tar.xz' | xz -dc -T0 | tar x
}

# copy_tree SOURCE: a reader of the source may write to the copy. The copy has none of the files
# that were built in it, which kbuild refuses.
copy_tree() {
	rsync -a --chmod=u+rwX --exclude=/.git "$1/" . || return 1
	if [ -f .config ] || [ -d include/config ] || [ -d arch/x86/include/generated ]; then make -s mrproper; fi
}

# pristine: prints the directory of the unpacked, unpatched tree.
pristine() {
	local key src deb
	src=${KSRC:-}
	if [ -z "$src" ]; then
		deb=$(newest_downloaded)
		if [ -z "$deb" ] || [ "${1:-}" = --update ]; then
			download
			deb=$(newest_downloaded)
		fi
		key=$(basename "$deb" | cut -d_ -f2 | tr -c 'A-Za-z0-9.\n-' _)
		set -- unpack_deb "$deb"
	elif [ -d "$src" ]; then
		src=$(cd -- "$src" && pwd)
		# Before large directories are copied.
		check_source "$src" "$src"
		key=tree-$(cd "$src" && find . -name .git -prune -o -type f -printf '%P %s %T@\n' | sort | sha256sum | cut -c1-12)
		set -- copy_tree "$src"
	elif [ -f "$src" ]; then
		src=$(readlink -f "$src")
		key=tar-$(sha256sum <"$src" | cut -c1-12)
		set -- tar xf "$src"
	else
		die "KSRC=$src is neither a directory nor a file"
	fi
	# A cache that another one had a link to may have been patched by it.
	if grep -qs kernel/ferrotrace "$CACHE/src/$key.orig/Kconfig"; then
		say "the unpacked kernel source $key has patches: removing it"
		rm -rf "$CACHE/src/$key.orig"
	fi
	if [ ! -d "$CACHE/src/$key.orig" ]; then
		say "unpacking kernel source $key"
		mkdir -p "$CACHE/src"
		unpack_to "$CACHE/src/$key.orig" "$@"
	fi
	# For prune: when it was used.
	if [ "$src" ]; then touch "$CACHE/src/$key.orig"; fi
	printf '%s\n' "$CACHE/src/$key.orig"
}

# prune BASE: removes BASE's patched trees that were unused for a day, but keeps the three used
# last; each holds builds of up to a gigabyte a variant. A tree that is being built has its lock
# held. Trees of the user's own (KSRC=) have a BASE for each of their states: these count as one,
# and are removed with their sources.
prune() {
	local dir t name
	dir=$(dirname "$1")
	name="$(basename "$1")-*"
	case $name in tree-* | tar-*) name='t[ar]*-????????????-????????' ;; esac
	find "$dir" -maxdepth 1 -name "$name" -printf '%T@ %p\n' | sort -rn | tail -n +4 |
		while read -r _ t; do
			[ -n "$(find "$t" -maxdepth 0 -mmin +1440)" ] || continue
			say "removing $t, which nobody used for a day"
			flock -n "$CACHE/locks/$(basename "$t")" rm -rf "$t" || true
		done
	find "$dir" -maxdepth 1 -name 't[ar]*-????????????.orig' -mmin +1440 | while read -r t; do
		if ! compgen -G "${t%.orig}-*" >/dev/null; then rm -rf "$t"; fi
	done
}

# patched: prints the directory of the tree with the series applied.
patched() {
	local orig hash tree p
	kbuild_takes "$CACHE" || die "kbuild takes no path with spaces or colons: FERROTRACE_CACHE=$CACHE"
	orig=$(pristine "$@")
	for p in $(patch_list); do
		[ -f "$PATCHES/$p" ] || die "integration/patches/series names $p, which does not exist"
	done
	hash=$(cd "$PATCHES" 2>/dev/null && for p in $(patch_list); do cat "$p"; done | sha256sum | cut -c1-8)
	tree=${orig%.orig}-$hash
	if [ ! -d "$tree" ]; then
		rm -rf "$tree.new"
		# Hard links: patch and rsync replace a file, they do not write into it.
		# The tree itself, also where the cache has a link to it.
		cp -al "$orig/." "$tree.new"
		unfinished=$tree.new
		trap 'rm -rf "$unfinished"' EXIT
		apply_series "$tree.new" "$(kernel_version "$tree.new")"
		mv "$tree.new" "$tree"
		trap - EXIT
		touch "$tree"
		prune "${orig%.orig}"
	fi
	touch "$tree"
	printf '%s\n' "$tree"
}

# distro_config: prints the path of the configuration that belongs to the source package.
distro_config() {
	local version deb suite
	deb=$(newest_downloaded)
	[ -n "$deb" ] || { download && deb=$(newest_downloaded); }
	version=$(basename "$deb" | cut -d_ -f2)
	deb=$(find "$CACHE/dl/" -maxdepth 1 -name "${CONFIG_PKG}_${version}_*.deb")
	if [ -z "$deb" ]; then
		say "looking for $CONFIG_PKG $version"
		suite=$(offered "$CONFIG_PKG" | awk -v v="${version//%3a/:}" '$1 == v { print $2; exit }')
		[ -n "$suite" ] || die "no $CONFIG_PKG $version on offer; give a configuration with KCONFIG="
		fetch "$CONFIG_PKG" "${version//%3a/:}" "$suite"
		deb=$(find "$CACHE/dl/" -maxdepth 1 -name "${CONFIG_PKG}_${version}_*.deb")
	fi
	if ! [ -f "$CACHE/dl/config-$version" ]; then
		dpkg-deb --fsys-tarfile "$deb" | tar xO --wildcards "*/$CONFIG_NAME.xz" | xz -dc >"$CACHE/dl/config.new" ||
			die "$deb has no $CONFIG_NAME"
		mv "$CACHE/dl/config.new" "$CACHE/dl/config-$version"
	fi
	printf '%s\n' "$CACHE/dl/config-$version"
}

case ${1:-} in
--config) with_lock source distro_config ;;
*) with_lock source patched "$@" ;;
esac
