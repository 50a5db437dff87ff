#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Our modules by DKMS, in a minimal trixie with apt alone: ferrotrace-dkms is installed, upgraded, downgraded and purged, on kernels
# that it has to skip as well, and with a source that does not compile. Also "make stock-install" there. Of "stock" only.
# Seconds: 500
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=integration/apt.sh
. "$REPO/integration/apt.sh"
# shellcheck source=integration/root.sh
. "$REPO/integration/root.sh"

base=$CACHE/roots/trixie
archives=$CACHE/roots/archives
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$REPO/Cargo.toml" | head -n 1)

# new_root: a minimal trixie that has trixie-backports as a source, and the packages.
new_root() {
	if ! [ "$(id -u)" = 0 ] || ! unshare --mount --propagation private true; then return 1; fi
	if ! [ -d "$base" ]; then
		rm -rf "$base.new"
		make_root trixie "$base.new" kmod openssl && mv "$base.new" "$base" || return 1
	fi
	mkdir -p "$archives"
	private_sources trixie-backports && cp -a "$base" "$root" || return 1
	for file in "$CACHE"/apt/trixie-backports/src/*.*; do cp "$file" "$root/etc/apt/sources.list.d/backports-${file##*/}"; done
	mkdir -p "$root/packages" "$root$REPO"
}

# packages: ours, and of ferrotrace-dkms a higher version that does not compile, and a still higher one.
packages() {
	"$REPO/integration/deb.sh" stock && cp "$REPO"/build/deb/*.deb "$root/packages/" && repack 9 "fn broken(" && repack 10 || return 1
	release=$(basename "$root"/packages/linux-rust-dev-*.deb | sed 's/linux-rust-dev-\(.*\)_.*_.*/\1/')
}

# repack VERSION [TEXT]: packs ferrotrace-dkms as another version; TEXT is added to a source.
repack() {
	local dir=$scratch/repack
	rm -rf "$dir"
	dpkg-deb -R "$root/packages/ferrotrace-dkms_${version}_amd64.deb" "$dir" && mv "$dir/usr/src/ferrotrace-$version" "$dir/usr/src/ferrotrace-$1" &&
		sed -i "s/$version/$1/g" "$dir"/DEBIAN/{control,postinst,prerm} "$dir/usr/src/ferrotrace-$1/dkms.conf" || return 1
	if [ "${2:-}" ]; then echo "$2" >>"$dir/usr/src/ferrotrace-$1/rust/core/ferro_core.rs"; fi
	dpkg-deb --root-owner-group -b "$dir" "$root/packages/ferrotrace-dkms_$1_amd64.deb"
}

# in_root CMD: runs CMD in the root, with the repository at its own path.
in_root() {
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child --propagation private sh -e -c '
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		mount --bind "$3" "$1/var/cache/apt/archives"
		mount --bind "$4" "$1$4"
		exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C REPO="$4" bash -e -c "$2"' \
		sh "$root" "$1" "$archives" "$REPO" </dev/null
}

# apt ARGS...: runs apt-get in the root; its output is in $output as well.
output=$scratch/output
apt() { in_root "apt-get -q -y --no-install-recommends --allow-downgrades $*" 2>&1 | tee "$output"; }
said() { grep -F -- "$1" "$output" >/dev/null || { say "not said: $1" && return 1; }; }
status() { in_root "dkms status -m ferrotrace"; }
modules() { find "$root/usr/lib/modules" -name 'ferrotrace_core.ko*' -printf '%P\n'; }

# files: the files of the root, except data of apt, dpkg, and depmod, logs, and DKMS' keys.
files() {
	(cd "$root" && find . \( -path ./packages -o -path ./tmp -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/dpkg -o -path ./var/lib/apt \) -prune -o ! -name 'modules.*' ! -name 'mok.*' -print | sort)
}

# unchanged: succeeds if the files are the same as before.
unchanged() { files | diff "$scratch/before" -; }

# fake RELEASE LINES: headers of a kernel with this configuration.
fake() {
	local dir=$root/usr/lib/modules/$1/build
	mkdir -p "$dir/include/config"
	echo "$1" >"$dir/include/config/kernel.release"
	printf '%s\n' CONFIG_X86_64=y "${@:2}" >"$dir/.config"
}

# kernel: the kernel's modules and headers, and three other kernels.
kernel() {
	fake 6.12.9-old
	fake 7.4.0-c
	fake 7.4.0-ours CONFIG_RUST=y CONFIG_FERROTRACE=y
	in_root "apt-get -q update" && apt install "linux-modules-$release" "linux-headers-$release" dkms bindgen openssl && files >"$scratch/before"
}

# lacking: without the crates, no kernel gets modules, and apt succeeds.
lacking() {
	apt install "/packages/ferrotrace-dkms_${version}_amd64.deb" && said "makes the package linux-rust-dev-$release" &&
		said '(built from a source tarball); here is: none' && said 'the kernel is older than' && said 'has no Rust' && said 'has Ferrotrace already' &&
		[ -z "$(modules)" ]
}

# with_crates: the package with the crates has them built.
with_crates() {
	local began=$SECONDS
	apt install /packages/linux-rust-dev-*.deb && [ "$(modules)" = "$release/updates/dkms/ferrotrace_core.ko.xz" ] || return 1
	say "installed and built in $((SECONDS - began)) seconds"
	status | grep "$release.*: installed"
}

# all_modules: succeeds if the modules are those of ferrotrace-modules.
all_modules() {
	diff <(find "$root/usr/lib/modules/$release/updates/dkms" -name '*.ko.xz' -printf '%f\n' | sed 's/\.xz$//' | sort) \
		<(dpkg-deb -c "$root/packages/ferrotrace-modules-"*.deb | grep -o '[^/]*\.ko$' | sort)
}

signed() { in_root "cd /lib/modules/$release/updates/dkms && for module in *; do modinfo -F signer \$module | grep -x 'DKMS module signing key'; done"; }

loaded() { run_vm stock "modprobe -r ferrotrace_core && modprobe -d $root -S $release ferrotrace_kprobe_events && grep ferrotrace_core /proc/modules && grep -q ferrotrace_kprobe_events /proc/modules"; }

# broken: apt succeeds without modules, and so does DKMS as a hook of a kernel's packages.
broken() {
	apt install /packages/ferrotrace-dkms_9_amd64.deb && said 'Consult /var/lib/dkms/ferrotrace/9/build/make.log' &&
		grep -F 'fn broken(' "$root/var/lib/dkms/ferrotrace/9/build/make.log" && [ -z "$(modules)" ] && [ "$(status)" = "ferrotrace/9: added" ] &&
		in_root "/etc/kernel/header_postinst.d/dkms $release"
}

# built_win: where built modules are installed, DKMS builds none, and apt succeeds.
built_win() {
	apt install /packages/ferrotrace-modules-*.deb && apt install "/packages/ferrotrace-dkms_${version}_amd64.deb" &&
		said "no modules for $release by DKMS: it has those of the package" && [ "$(status)" = "ferrotrace/$version: added" ] &&
		[ "$(modules)" = "$release/updates/ferrotrace/ferrotrace_core.ko" ] && in_root "modinfo -k $release ferrotrace_kprobe_events"
}

# upgraded: DKMS builds the higher version once they are gone.
upgraded() {
	apt install /packages/ferrotrace-dkms_10_amd64.deb "ferrotrace-modules-$release-" && [ "$(modules)" = "$release/updates/dkms/ferrotrace_core.ko.xz" ] &&
		[ "$(status | cut -d, -f1)" = ferrotrace/10 ]
}

# replaced: built modules take the place of DKMS' ones. Without the crates DKMS does not build again.
replaced() {
	apt install /packages/ferrotrace-modules-*.deb && [ "$(modules)" = "$release/updates/ferrotrace/ferrotrace_core.ko" ] &&
		apt purge "ferrotrace-modules-$release" "linux-rust-dev-$release" && [ -z "$(modules)" ]
}

# purged: without the compilers, too, which dkms would like to keep.
purged() { apt autoremove --purge -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false ferrotrace-dkms && unchanged && in_root "depmod $release; ! modinfo -k $release ferrotrace_core"; }

# from_clone: make stock-install, in a directory for a packager, and in the root itself.
from_clone() {
	local make="make -C $REPO KDIR=/lib/modules/$release/build"
	apt install /packages/linux-rust-dev-*.deb && files >"$scratch/before" || return 1
	in_root "$make stock-install DESTDIR=/stage && find /stage -type f | grep -c ko && ! ls -d /lib/modules/$release/updates &&
		$make stock-uninstall DESTDIR=/stage && rm -r /stage" && unchanged || return 1
	in_root "$make stock-install && modinfo -k $release ferrotrace_kprobe_events && $make stock-uninstall && ! modinfo -k $release ferrotrace_core" && unchanged
}

if ! under_test stock; then
	tap_skip "dkms" "a long test of stock"
elif ! new_root >&2; then
	tap_skip "dkms" "a root directory of trixie cannot be made here"
else
	tap_run "dkms: packages are made" packages
	tap_run "dkms: the kernel and DKMS are installed" kernel
	tap_run "dkms: kernels are skipped with the reason, and apt succeeds" lacking
	tap_run "dkms: linux-rust-dev has the modules built" with_crates
	tap_run "dkms: all modules are installed" all_modules
	tap_run "dkms: they are signed with the machine's key" signed
	tap_run "dkms: they load" loaded
	tap_run "dkms: a source that does not compile leaves no modules, and apt succeeds" broken
	tap_run "dkms: a lower version leaves a kernel alone that has built modules" built_win
	tap_run "dkms: a higher version builds once these are gone" upgraded
	tap_run "dkms: built modules replace DKMS' ones" replaced
	tap_run "dkms: purged, it leaves nothing" purged
	tap_run "dkms: make stock-install and stock-uninstall" from_clone
fi
tap_plan
