#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds modules for a distribution's own kernel with its headers and this machine's compilers, for "make stock" and DKMS:
#
#   build.sh check KDIR         print each reason why DKMS builds no modules for the kernel of KDIR; fail if there is one
#   build.sh dkms KDIR          build the modules in this copy of the source, or exit with 77, which DKMS takes for a kernel to skip
#   build.sh modules KDIR OUT   build the modules in OUT
#   build.sh install KDIR OUT   install them as updates/ferrotrace, below INSTALL_MOD_PATH if it is set
#   build.sh uninstall KDIR     remove them there
#
# KDIR is /lib/modules/RELEASE/build, or another directory with the headers of a kernel.
set -euo pipefail

SOURCE=$(cd "$(dirname "$0")/.." && pwd)
# The oldest kernel that the modules are written for, and the oldest bindgen that knows its headers.
MIN_KERNEL=7.2 MIN_BINDGEN=0.71.1
# MiB of the build directory.
SPACE=200

say() { printf '%s\n' "ferrotrace: $*" >&2; }
die() {
	say "error: $*"
	exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
# version_ge A B: true when dotted version A is at least B.
version_ge() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }
# config NAME: prints its value in the kernel's configuration, without quotes.
config() { sed -n "s/^CONFIG_$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$kdir/.config"; }
# version_of CMD: prints the version that CMD prints, or "none" if it does not run.
version_of() { "$1" --version 2>/dev/null | sed -n '1s/^[a-z]* //p' | grep . || echo none; }

# reasons OUT: prints why no modules can be built in OUT, a line each; only one if the kernel can never have modules.
reasons() {
	local rustc cc found
	if [ -z "$release" ] || ! [ -s "$kdir/.config" ]; then
		echo "$kdir has no headers of a kernel"
	elif [ "$(config FERROTRACE)" = y ]; then
		echo "the kernel has Ferrotrace already"
	elif [ "$(config X86_64)" != y ]; then
		echo "the kernel is not for x86_64"
	elif ! version_ge "$release" "$MIN_KERNEL"; then
		echo "the kernel is older than $MIN_KERNEL"
	elif [ "$(config RUST)" != y ]; then
		echo "the kernel has no Rust (CONFIG_RUST)"
	else
		{ [ -e "$kdir/rust/libkernel.rmeta" ] && [ -e "$kdir/scripts/target.json" ]; } ||
			echo "its headers lack the metadata of the kernel's crates; for Debian's, Ferrotrace's \"make rust-dev RELEASE=$release\" makes the package linux-rust-dev-$release, which has it"
		rustc=$(config RUSTC_VERSION_TEXT)
		found=$(version_of "${RUSTC:-rustc}")
		[ "rustc $found" = "$rustc" ] || echo "the kernel's crates need exactly $rustc; here is: $found"
		found=$(version_of "${BINDGEN:-bindgen}")
		{ [ "$found" != none ] && version_ge "$found" "$MIN_BINDGEN"; } || echo "bindgen $MIN_BINDGEN or newer is needed; here is: $found"
		cc=$(config CC_VERSION_TEXT)
		have "${cc%% *}" || echo "the kernel's compiler ${cc%% *} is needed; here is none"
		have make || echo "make is needed; here is none"
		found=$(df --output=avail -BM "$1" | tail -n 1 | tr -dc 0-9)
		[ "$found" -ge $SPACE ] || echo "$SPACE MiB are needed in $1; free are: $found"
	fi
}

# check OUT: says why no modules can be built in OUT; fails if there is a reason.
check() {
	local found
	found=$(reasons "$1")
	[ "$found" ] || return 0
	say "no modules for ${release:-the kernel}:"
	printf '  %s\n' "$found" | sed '2,$s/^/  /' >&2
	return 1
}

# check_dkms: check, and fail if other modules of ours are installed.
check_dkms() {
	if [ -e "$(dirname "$kdir")/updates/ferrotrace" ]; then
		say "no modules for $release by DKMS: it has those of the package ferrotrace-modules-$release, or of \"make stock-install\""
		return 1
	fi
	check "$SOURCE"
}

# kbuild ARGS...: runs kbuild. FERRO_BUILD makes symbol names depend on the sources, so that modules of two builds do not mix.
kbuild() {
	local build
	build=$(find "$SOURCE" \( -name '.?*' -o -name target -o -path "$SOURCE/build" -o -path "$SOURCE/tools" \) -prune -o \
		\( -name '*.rs' -o -name '*.[chS]' -o -name '*.mk' -o -name Kbuild \) -type f -print | LC_ALL=C sort | xargs cat | sha256sum)
	make -C "$kdir" -j"${JOBS:-$(nproc)}" M="$SOURCE" FERRO_BUILD="${build:0:16}" ${RUSTC:+RUSTC="$RUSTC"} ${BINDGEN:+BINDGEN="$BINDGEN"} "$@"
}

# owner: prints the owner of modules of ours that are installed already, if any.
owner() {
	[ -z "${INSTALL_MOD_PATH:-}" ] || return 0
	if have dpkg && dpkg -S "/usr$place/ferrotrace_core.ko" >/dev/null 2>&1; then
		echo "the package ferrotrace-modules-$release"
	elif find "/lib/modules/$release" -name 'ferrotrace_core.ko*' ! -path "$place/*" | grep -q .; then
		echo "DKMS, or the kernel itself"
	fi
}

# index: updates modprobe's index, if the kernel's own modules are there.
index() {
	if [ -e "${INSTALL_MOD_PATH:-}/lib/modules/$release/modules.order" ]; then depmod -b "${INSTALL_MOD_PATH:-/}" "$release"; fi
}

usage() { die "usage: build.sh check|dkms|uninstall KDIR | modules|install KDIR OUT"; }
[ $# -ge 2 ] || usage
kdir=$2
release=$(cat "$kdir/include/config/kernel.release" 2>/dev/null) || release=
place=/lib/modules/$release/updates/ferrotrace
case $1:$# in
check:2) check_dkms ;;
dkms:2)
	# DKMS fails where a build fails, and apt with it; the same kernel without our modules is no reason for that.
	{ check_dkms && kbuild modules; } || exit 77
	;;
modules:3)
	mkdir -p "$3"
	check "$3"
	kbuild MO="$(readlink -f "$3")" modules
	;;
install:3)
	found=$(owner)
	[ -z "$found" ] || die "modules for $release are installed by $found; remove them first"
	kbuild MO="$(readlink -f "$3")" INSTALL_MOD_DIR=updates/ferrotrace INSTALL_MOD_STRIP=1 \
		CONFIG_MODULE_SIG_ALL='' CONFIG_MODULE_COMPRESS_ALL='' modules_install
	index
	;;
uninstall:2)
	[ "$release" ] || die "$kdir has no headers of a kernel"
	if have dpkg && dpkg -S "/usr$place/ferrotrace_core.ko" >/dev/null 2>&1; then
		die "$place is of the package ferrotrace-modules-$release; apt removes it"
	fi
	[ -d "${INSTALL_MOD_PATH:-}$place" ] || die "no modules in ${INSTALL_MOD_PATH:-}$place"
	rm -r "${INSTALL_MOD_PATH:-}$place"
	rmdir --ignore-fail-on-non-empty "${INSTALL_MOD_PATH:-}${place%/*}"
	index
	;;
*) usage ;;
esac
