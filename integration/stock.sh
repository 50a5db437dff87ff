#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds modules for a distribution's own kernel, which has none of our patches: the variants stock, stock-cloud and stock-rt
# (of trixie-backports), and stock-sid.
#
#   stock.sh release [VARIANT [--update]]
#                                    print the release of the newest kernel fetched for this variant, or for stock; with --update, or if
#                                    none was, of Debian's mirror
#   stock.sh root RELEASE            make a root directory with the kernel's compilers and headers
#   stock.sh rust-dev RELEASE        make the package linux-rust-dev-RELEASE; print its path
#   stock.sh build RELEASE           build Ferrotrace's modules and what a guest needs; print the image's path
#   stock.sh kdir RELEASE            print the directory of these modules
#   stock.sh image RELEASE           print the image's path
#   stock.sh debug RELEASE           fetch the image with debugging information (a download of 1.2 GB); print its path
#   stock.sh check HEADERS BUILD     fail unless the kernel's crates built in BUILD match the kernel of HEADERS
#   stock.sh kbuild RELEASE ARGS...  run kbuild with the headers of that kernel, e.g. "M=DIR modules"
#   stock.sh make RELEASE ARGS...    run kbuild for modules that use Ferrotrace's
#
# Debian's header packages lack the metadata of the kernel's Rust crates, without which no module in Rust builds. The package
# linux-rust-dev-RELEASE adds it, from a build of the kernel's source with the kernel's own configuration and compilers. If the
# build does not match the kernel, the package is not made.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=integration/apt.sh
. "$REPO/integration/apt.sh"
# shellcheck source=integration/root.sh
. "$REPO/integration/root.sh"

# Files of a package are readable for all.
umask 022

# Packages that a kernel build needs in addition to the C compiler.
TOOLS="make flex bison bc libelf-dev libssl-dev libdw-dev zlib1g-dev python3 kmod cpio xz-utils rsync rustc rust-src bindgen pahole"

# Modules that a guest loads to mount the host's files.
GUEST_MODULES="fs/netfs/netfs net/9p/9pnet net/9p/9pnet_virtio fs/9p/9p fs/overlayfs/overlay"

usage() { die "usage: stock.sh release [VARIANT [--update]] | root|rust-dev|build|kdir|image|debug RELEASE | check HEADERS BUILD | kbuild|make RELEASE ARGS..."; }

# newest_release VARIANT [--update]: prints a release, such as 7.3.4+deb13-amd64.
newest_release() {
	local suite found suites="trixie-backports unstable" pattern="${SERIES//./\\.}\..*\+deb[0-9]+-amd64"
	case $1 in
	stock) ;;
	stock-cloud | stock-rt) pattern=${pattern%amd64}${1#stock-}-amd64 ;;
	stock-sid) suites=unstable pattern='[0-9.]+\+deb14-amd64' ;;
	*) die "'$1' is not a variant for a distribution's kernel" ;;
	esac
	found=$(cd "$CACHE/stock" 2>/dev/null && compgen -G "*/debs/linux-headers-*-amd64_*.deb" | cut -d/ -f1 | grep -xE "$pattern" | sort -V | tail -n 1) || found=
	if [ "$found" ] && [ "${2:-}" != --update ]; then
		printf '%s\n' "$found"
		return
	fi
	for suite in $suites; do
		private_sources "$suite" || continue
		private_apt "$suite" apt-get update >"$CACHE/apt/$suite/log" 2>&1 || continue
		found=$(private_apt "$suite" apt-cache pkgnames linux-headers- | sed 's/^linux-headers-//' | grep -xE "$pattern" | sort -V | tail -n 1) || found=
		if [ "$found" ]; then
			printf '%s\n' "$found"
			return
		fi
	done
	die "no header package of a kernel for the variant $1 on offer in: $suites"
}

# setup RELEASE: sets the variables that the functions below use.
setup() {
	RELEASE=$1
	[[ $RELEASE =~ ^([0-9]+\.[0-9]+)[0-9.]*\+deb([0-9]+)-([a-z]+-)?amd64$ ]] ||
		die "'$RELEASE' is not the release of a Debian kernel for amd64, such as 7.3.4+deb13-amd64"
	ABI=${RELEASE%%-*}
	case ${BASH_REMATCH[2]} in
	13) COMPILERS=trixie PACKAGES=trixie-backports ;;
	*) COMPILERS=unstable PACKAGES=unstable ;;
	esac
	DIR=$CACHE/stock/$RELEASE
	ROOT=$CACHE/stock/root-$COMPILERS
	HEADERS=/usr/src/linux-headers-$RELEASE
	KDIR=$DIR/kdir
	IMAGE=$KDIR/vmlinuz
}

# fetch_package NAME: downloads a package of the kernel; prints its path.
fetch_package() {
	local found
	found=$(find "$DIR/debs" -name "$1_*.deb" | sort -V | tail -n 1)
	if [ -z "$found" ]; then
		(cd "$DIR/debs" && private_apt "$PACKAGES" apt-get download "$1" >&2) || die "cannot download $1 of $PACKAGES"
		found=$(find "$DIR/debs" -name "$1_*.deb" | tail -n 1)
	fi
	case $1 in
	linux-headers-"$RELEASE") ;;
	*)
		[ "$(dpkg-deb -f "$found" Version)" = "$(dpkg-deb -f "$(fetch_package "linux-headers-$RELEASE")" Version)" ] ||
			die "$found is of another version than the headers; remove $DIR to take newer packages"
		;;
	esac
	printf '%s\n' "$found"
}

# make_chroot: makes the chroot with the compilers and the headers. Needs root.
make_chroot() {
	local package compiler
	if [ "$(id -u)" != 0 ] || ! unshare --mount --propagation private true; then
		die "making the chroot with the kernel's compilers needs root and the right to mount"
	fi
	mkdir -p "$DIR/debs"
	if ! compgen -G "$DIR/debs/linux-headers-$RELEASE""_*.deb" >/dev/null; then
		if private_sources "$PACKAGES"; then private_apt "$PACKAGES" apt-get update >"$CACHE/apt/$PACKAGES/log" 2>&1 || true; fi
	fi
	compiler=$(dpkg-deb -f "$(fetch_package "linux-headers-$RELEASE")" Depends | grep -o 'gcc-[0-9]*')
	if [ ! -e "$ROOT/usr/bin/$compiler" ]; then
		[ ! -e "$ROOT" ] || die "$ROOT has no $compiler; remove it, and the next run makes another"
		rm -rf "$ROOT.new"
		# shellcheck disable=SC2086
		make_root "$COMPILERS" "$ROOT.new" "$compiler" gcc $TOOLS
		mv "$ROOT.new" "$ROOT"
	fi
	if [ ! -e "$ROOT$HEADERS/.unpacked" ]; then
		for package in "linux-headers-$ABI-common" "linux-kbuild-$ABI" "linux-headers-$RELEASE"; do
			dpkg-deb -x "$(fetch_package "$package")" "$ROOT" || die "cannot unpack $package"
		done
		touch "$ROOT$HEADERS/.unpacked"
	fi
}

# in_chroot DIRECTORIES CMD...: runs CMD in the chroot, with the colon-separated DIRECTORIES bind-mounted at their own paths.
in_chroot() {
	local places=$1
	shift
	# shellcheck disable=SC2016
	unshare --mount --propagation private sh -e -c '
		root=$1 places=$2
		shift 2
		mount -t proc proc "$root/proc"
		mount --bind /dev "$root/dev"
		IFS=:
		for place in $places; do
			mkdir -p "$root$place"
			mount --bind "$place" "$root$place"
		done
		exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C KBUILD_BUILD_TIMESTAMP=0 "$@"' \
		sh "$ROOT" "$places" "$@" </dev/null
}

# source_tree: prints the directory of the kernel's source, without patches.
source_tree() {
	local version key deb
	version=$(dpkg-deb -f "$(fetch_package "linux-headers-$RELEASE")" Version)
	# As source.sh names it.
	key=$(printf '%s\n' "$version" | tr -c 'A-Za-z0-9.\n-' _)
	if [ ! -d "$CACHE/src/$key.orig" ]; then
		deb=$(fetch_package "linux-source-${RELEASE%%.*}.$(echo "${RELEASE#*.}" | grep -o '^[0-9]*')")
		say "unpacking the source of $RELEASE"
		rm -rf "$CACHE/src/$key.new"
		mkdir -p "$CACHE/src/$key.new"
		dpkg-deb --fsys-tarfile "$deb" | tar xO --wildcards '*/linux-source-*.tar.xz' | xz -dc -T0 |
			tar x -C "$CACHE/src/$key.new" --strip-components=1
		mv "$CACHE/src/$key.new" "$CACHE/src/$key.orig"
	fi
	printf '%s\n' "$CACHE/src/$key.orig"
}

# check_config HEADERS BUILD: fails unless the build has the kernel's configuration, compiler versions included.
# CONFIG_OPENSSL_SUPPORTS_* describes the build machine, and may differ.
check_config() {
	local different
	if ! [ -s "$1/.config" ] || ! [ -s "$2/.config" ]; then die "no configuration in $1 or $2"; fi
	different=$(diff <(grep -v '^#' "$1/.config" | LC_ALL=C sort) <(grep -v '^#' "$2/.config" | LC_ALL=C sort) |
		grep '^[<>]' | grep -v ' CONFIG_OPENSSL_SUPPORTS_' || true)
	[ -n "$different" ] || return 0
	say "the configuration differs: < is the kernel's, > this build's"
	printf '%s\n' "$different" | head -n 20 >&2
	return 1
}

# check_symbols HEADERS BUILD: fails unless the build defines each Rust symbol that the kernel exports. A name has a hash of the
# crate's name and the compiler, not of the source; fetch_package compares the versions of the packages.
check_symbols() {
	local missing
	grep -qP '\t_R' "$1/Module.symvers" || die "$1/Module.symvers has no symbols of Rust"
	missing=$(LC_ALL=C comm -13 <(nm -p --defined-only "$2"/rust/*.o | awk '{ print $3 }' | LC_ALL=C sort -u) \
		<(awk '$2 ~ /^_R/ { print $2 }' "$1/Module.symvers" | LC_ALL=C sort -u))
	[ -n "$missing" ] || return 0
	say "$(printf '%s\n' "$missing" | wc -l) symbols of Rust that the kernel exports are not in this build, such as:"
	printf '%s\n' "$missing" | head -n 5 >&2
	return 1
}

# build_crates: builds the kernel's crates as the kernel's own build did.
build_crates() {
	local tree log=$DIR/prepare.log cc
	tree=$(source_tree)
	cc=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' "$ROOT$HEADERS/.config")
	mkdir -p "$DIR/build"
	cp "$ROOT$HEADERS/.config" "$DIR/build/.config"
	kbuild() {
		in_chroot "$tree:$DIR" nice make -C "$tree" O="$DIR/build" CC="$cc" KERNELRELEASE="$RELEASE" \
			RUST_LIB_SRC=/usr/lib/rustlib/src/rust/library -j"$JOBS" "$@" >>"$log" 2>&1 || {
			tail -n 20 "$log" >&2
			die "the crates of $RELEASE do not build; log: $log"
		}
	}
	: >"$log"
	say "building the crates of $RELEASE (about 4 minutes)"
	kbuild olddefconfig
	check_config "$ROOT$HEADERS" "$DIR/build" || die "linux-rust-dev-$RELEASE is not made: the configuration is not the kernel's"
	kbuild prepare
	check_symbols "$ROOT$HEADERS" "$DIR/build" || die "linux-rust-dev-$RELEASE is not made: Rust symbols of the kernel are missing"
}

# rust_dev: makes the package.
rust_dev() {
	local version deb files=$DIR/package crate rust
	make_chroot
	version=$(dpkg-deb -f "$(fetch_package "linux-headers-$RELEASE")" Version)
	deb=$DIR/linux-rust-dev-${RELEASE}_${version}_amd64.deb
	if [ ! -e "$deb" ]; then
		build_crates
		rm -rf "$files"
		rust=$files$HEADERS/rust
		mkdir -p "$files/DEBIAN" "$rust/kernel"
		for crate in core compiler_builtins ffi pin_init build_error bindings uapi zerocopy kernel; do
			cp "$DIR/build/rust/lib$crate.rmeta" "$rust/"
		done
		for crate in macros pin_init_internal zerocopy_derive; do strip -o "$rust/lib$crate.so" "$DIR/build/rust/lib$crate.so"; done
		cp "$DIR"/build/rust/kernel/generated_*.rs "$rust/kernel/"
		cp "$DIR/build/scripts/target.json" "$rust/"
		control "$version" >"$files/DEBIAN/control"
		share_target "$files/DEBIAN"
		dpkg-deb --root-owner-group -Zxz -z6 --threads-max="$JOBS" -b "$files" "$deb.new" >&2
		mv "$deb.new" "$deb"
		rm -rf "$files"
	fi
	if [ ! -e "$ROOT$HEADERS/rust/libkernel.rmeta" ]; then
		dpkg-deb -x "$deb" "$ROOT"
		cp "$ROOT$HEADERS/rust/target.json" "$ROOT/usr/lib/linux-kbuild-$ABI/scripts/"
	fi
	printf '%s\n' "$deb"
}

# share_target DIR: writes scripts of the package. Kbuild looks for the target in a directory that the flavours of a kernel share,
# where a file can be of one package only.
share_target() {
	local name=linux-rust-target-$ABI target=$HEADERS/rust/target.json
	cat >"$1/postinst" <<-EOF
		#!/bin/sh
		update-alternatives --install /usr/lib/linux-kbuild-$ABI/scripts/target.json $name $target 10
	EOF
	cat >"$1/prerm" <<-EOF
		#!/bin/sh
		if [ "\$1" != upgrade ]; then update-alternatives --remove $name $target; fi
	EOF
	chmod 755 "$1"/p*
}

# control VERSION: the package's description. rustc reads only metadata of its own version.
control() {
	local rustc
	rustc=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="rustc \([0-9.]*\).*/\1/p' "$ROOT$HEADERS/.config")
	cat <<-EOF
	Package: linux-rust-dev-$RELEASE
	Version: $1
	Architecture: amd64
	Maintainer: Ferrotrace maintainers <maintainers@users.noreply.a-seed-b466b316.example>
	Section: kernel
	Priority: optional
	Installed-Size: $(du -sk "$DIR/package" | cut -f1)
	Provides: linux-rust-dev
	Depends: linux-headers-$RELEASE (= $1), rustc (>= $rustc), rustc (<< $rustc.1)
	Description: crates to build modules in Rust for Linux $RELEASE
	 The metadata of the kernel's Rust crates, their procedural macros and the
	 description of the target. With this package beside the header package,
	 "make -C /lib/modules/$RELEASE/build M=..." builds modules in Rust.
	EOF
}

# client_kbuild ARGS...: runs kbuild for a module that uses ours. Adds our headers, crates and symbols where a patched kernel has
# them.
client_kbuild() {
	local tree=$DIR/ferrotrace place
	for place in "$HEADERS" "/usr/src/linux-headers-$ABI-common"; do
		mkdir -p "$ROOT$place/kernel"
		ln -sfn "$tree" "$ROOT$place/kernel/ferrotrace"
	done
	in_kbuild KBUILD_EXTRA_SYMBOLS="$tree/Module.symvers" KCPPFLAGS="-I $tree/include -I $tree/include/uapi -include $tree/stock/stock.h" \
		KRUSTFLAGS="--cfg CONFIG_FERROTRACE --cfg CONFIG_KLOG_RUST" "$@"
}

# in_kbuild ARGS...: runs kbuild with the headers. M= and MO= name directories of the host.
in_kbuild() {
	local arg places=$REPO
	for arg; do
		case $arg in
		M=* | MO=*)
			mkdir -p "${arg#*=}"
			places+=:$(readlink -f "${arg#*=}")
			;;
		esac
	done
	in_chroot "$places:$DIR" nice make -C "$HEADERS" -j"$JOBS" "$@"
}

# build_state: a hash of all that the modules and the guest's first files are made of.
build_state() { (cd "$REPO" && { our_files && echo integration/stock.sh && echo tools/testing/vm/initramfs.sh; } | xargs sha256sum | sha256sum); }

our_files() { PARTS="$PARTS stock" part_files; }

# build: the modules, the image, and the first files of a guest.
build() {
	local tree=$DIR/ferrotrace ours=$KDIR/kernel/ferrotrace module state
	state=$(build_state)
	if [ "$(cat "$KDIR/.state" 2>/dev/null)" = "$state" ]; then
		say "modules for $RELEASE are up to date"
		printf '%s\n' "$IMAGE"
		return
	fi
	rm -f "$KDIR/.state"
	rust_dev >/dev/null
	mkdir -p "$tree" "$ours"
	(cd "$REPO" && our_files | rsync -rlpc --files-from=- . "$tree/")
	say "building the modules for $RELEASE"
	in_kbuild M="$tree" SAMPLES=m FERRO_BUILD="${state:0:16}" modules >"$DIR/build.log" 2>&1 || {
		grep -n -E -A12 'error(\[|:)|ERROR: ' "$DIR/build.log" | head -n 60 >&2
		die "the modules for $RELEASE do not build; log: $DIR/build.log"
	}
	rm -rf "$ours"
	mkdir -p "$ours"
	# Only those that the sources have now.
	(cd "$tree" && sed 's/\.o$/.ko/' modules.order | rsync -rp --files-from=- . "$ours/")
	find "$ours" -name '*.ko' -exec strip -g {} +
	cp "$tree/Module.symvers" "$ROOT$HEADERS/.config" "$KDIR/"
	ln -sfn "$(source_tree)" "$KDIR/source"
	mkdir -p "$DIR/headers"
	cp "$ROOT$HEADERS"/{.config,Module.symvers} "$DIR/headers/"
	if [ ! -e "$IMAGE" ] || [ ! -e "$DIR/image" ]; then
		rm -rf "$DIR/image"
		for module in linux-binary linux-modules linux-base; do
			dpkg-deb -x "$(fetch_package "$module-$RELEASE")" "$DIR/image" || die "cannot unpack $module-$RELEASE"
		done
		# The flavour cloud lacks it.
		if ! grep -q '^CONFIG_9P_FS=' "$ROOT$HEADERS/.config"; then build_9p; fi
		cp "$DIR/image/usr/lib/modules/$RELEASE/vmlinuz" "$IMAGE.new"
		mv "$IMAGE.new" "$IMAGE"
	fi
	# For modprobe in a guest.
	mkdir -p "$KDIR/lib/modules/$RELEASE"
	cp "$DIR/image/usr/lib/modules/$RELEASE"/modules.{order,builtin,builtin.modinfo} "$KDIR/lib/modules/$RELEASE/"
	rsync -r --delete "$ours/" "$KDIR/lib/modules/$RELEASE/updates/"
	depmod -b "$KDIR" "$RELEASE"
	initramfs
	printf '%s\n' "$state" >"$KDIR/.state"
	printf '%s\n' "$IMAGE"
}

# debug: takes the image from the package with the kernel's debugging information.
debug() {
	local package=linux-image-$RELEASE-dbg found=./usr/lib/debug/lib/modules/$RELEASE/vmlinux
	if [ ! -e "$DIR/vmlinux" ]; then
		say "fetching $package"
		fetch_package "$package" >&2
		dpkg-deb --fsys-tarfile "$DIR/debs/$package"_*.deb | tar xO "$found" >"$DIR/vmlinux.new"
		rm "$DIR/debs/$package"_*.deb
		mv "$DIR/vmlinux.new" "$DIR/vmlinux"
	fi
	printf '%s\n' "$DIR/vmlinux"
}

# build_9p: builds 9p, by which a guest mounts the host's files, from the kernel's source.
build_9p() {
	local tree part to=$DIR/image/usr/lib/modules/$RELEASE/kernel symbols=
	tree=$(source_tree)
	for part in net fs; do
		in_kbuild M="$tree/$part/9p" MO="$DIR/9p/$part" CONFIG_NET_9P=m CONFIG_NET_9P_VIRTIO=m CONFIG_9P_FS=m \
			${symbols:+KBUILD_EXTRA_SYMBOLS="$symbols"} modules >"$DIR/9p.log" 2>&1 || die "9p does not build; log: $DIR/9p.log"
		symbols=$DIR/9p/$part/Module.symvers
		mkdir -p "$to/$part/9p"
		find "$DIR/9p/$part" -name '*.ko' -exec strip -g {} ';' -exec xz -f {} ';' -exec mv -t "$to/$part/9p" {}.xz ';'
	done
}

# initramfs: packs the modules that mount the host's files, and an init that mounts them and runs init.sh.
initramfs() {
	local root module
	root=$(mktemp -d)
	mkdir -p "$root"/{bin,dev,lib,proc,root,sys}
	cp "$(command -v busybox)" "$root/bin/"
	install -m 755 "$REPO/tools/testing/vm/initramfs.sh" "$root/init"
	for module in $GUEST_MODULES; do
		xz -dc "$DIR/image/usr/lib/modules/$RELEASE/kernel/$module.ko.xz" >"$root/lib/${module##*/}.ko"
		printf '/lib/%s.ko\n' "${module##*/}" >>"$root/modules"
	done
	(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$KDIR/initramfs.new"
	mv "$KDIR/initramfs.new" "$KDIR/initramfs"
	rm -rf "$root"
}

case ${1:-} in
release) newest_release "${2:-stock}" "${3:-}" ;;
check) [ $# = 3 ] || usage && check_config "$2" "$3" && check_symbols "$2" "$3" ;;
root | rust-dev | build | kdir | image | debug | make | kbuild)
	[ $# -ge 2 ] || usage
	setup "$2"
	case $1 in
	root) with_lock "stock-root-$COMPILERS" make_chroot ;;
	rust-dev) with_lock "stock-root-$COMPILERS" rust_dev ;;
	build) with_lock "stock-root-$COMPILERS" build ;;
	kdir) printf '%s\n' "$KDIR" ;;
	image) printf '%s\n' "$IMAGE" ;;
	debug) with_lock "stock-root-$COMPILERS" debug ;;
	kbuild) with_lock "stock-root-$COMPILERS" in_kbuild "${@:3}" ;;
	make) with_lock "stock-root-$COMPILERS" client_kbuild "${@:3}" ;;
	esac
	;;
*) usage ;;
esac
