#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make deb": the packages are installed into a minimal trixie, which boots with that kernel, with
# its modules and the command; and a client in Rust is built outside of the kernel's tree against
# the installed headers. Only where storms are long (make check-long), of "modular".
# Seconds: 400
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=integration/apt.sh
. "$REPO/integration/apt.sh"
# shellcheck source=integration/root.sh
. "$REPO/integration/root.sh"

variant=modular
base=$CACHE/roots/installed
client=$REPO/samples/outside
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root

# new_root: a copy of the last run's minimal trixie; it has the packages that boot a guest.
new_root() {
	if ! [ -d "$base" ]; then
		[ "$(id -u)" = 0 ] || { say "root is needed to make $base" && return 1; }
		rm -rf "$base.new"
		make_root trixie "$base.new" kmod iproute2 busybox-static && mv "$base.new" "$base" || return 1
	fi
	cp -a "$base" "$root"
}

packages() {
	if ! have dh_builddeb; then apt-get -q -y --no-install-recommends install dpkg-dev debhelper || return 1; fi
	# As a user with private files.
	(umask 077 && "$REPO/integration/deb.sh" $variant)
}

# files: the files of the root, except dpkg's own data and files that suites bring.
files() { (cd "$root" && find . -path ./packages -prune -o -path ".$REPO" -prune -o -path ./var -prune -o ! -type d -print); }

# readable: installed files are for all.
readable() {
	local deb
	for deb in "$REPO"/build/deb/*.deb; do
		dpkg-deb -c "$deb" >"$scratch/contents" && ! grep -E '^[-d].{6}-' "$scratch/contents" || return 1
	done
	[ -s "$scratch/contents" ]
}

# installed: all except linux-libc-dev, which is for compiling programs.
installed() {
	local deb
	files | sort >"$scratch/before" && [ -s "$scratch/before" ] || return 1
	mkdir "$root/packages"
	for deb in "$REPO"/build/deb/*.deb; do
		case ${deb##*/} in linux-libc-dev*) ;; *) cp "$deb" "$root/packages/" ;; esac
	done
	chroot "$root" /bin/sh -c 'dpkg -i /packages/*.deb' || return 1
	release=$(basename "$root"/lib/modules/*)
	[ -f "$root/boot/vmlinuz-$release" ] && [ -f "$root/lib/modules/$release/modules.dep" ]
}

# user_headers: ours are there for programs, and compile with the others.
user_headers() {
	local header
	for header in "$REPO"/include/uapi/linux/*.h; do
		cmp "$header" "$root/usr/include/linux/${header##*/}" &&
			echo "#include <linux/${header##*/}>" | gcc -fsyntax-only -I"$root/usr/include" -x c - || return 1
	done
}

# client_builds: by the tools that the kernel was built with, against the installed files of it
# alone.
client_builds() {
	local args
	mkdir "$scratch/client" && cp "$client"/* "$scratch/client/" || return 1
	mapfile -t args < <("$REPO/integration/kernel.sh" tools $variant)
	make -C "$root/usr/src/linux-headers-$release" "${args[@]}" M="$scratch/client" modules &&
		mkdir -p "$root/lib/modules/$release/updates" &&
		cp "$scratch/client/forks.ko" "$root/lib/modules/$release/updates/" && chroot "$root" depmod "$release"
}

# shown: the document has the client as it is.
shown() {
	local file
	cd "$REPO" || return 1
	for file in Kbuild forks.rs; do
		# Except for the licence.
		FILE=$client/$file python3 -c '
import os, sys
lines = open(os.environ["FILE"], encoding="utf-8").read().split("\n")
text = "\n".join("    " + l if l else l for l in lines if "SPDX" not in l).strip("\n")
sys.exit(text not in open("Documentation/rust-clients.rst").read())' || return 1
	done
}

# boots: as installed: nothing of the build directory is there.
boots() {
	mkdir -p "$root$REPO/tools/testing" && cp -r "$REPO/tools/testing/vm" "$root$REPO/tools/testing/" || return 1
	# shellcheck disable=SC2016
	GUEST_ROOT=$root GUEST_IMAGE=$root/boot/vmlinuz-$release TIMEOUT=${TIMEOUT:-600} run_vm $variant '
		set -ex
		if [ -e "$FERROTRACE_KDIR" ]; then exit 1; fi
		uname -r
		modprobe ferrotrace_kprobe_events
		modprobe forks
		grep -q rust_kprobes /proc/modules
		for i in 1 2 3 4 5; do /bin/true; done
		[ -d /sys/kernel/debug/forks ]
		modprobe -r forks
		dmesg | grep -E "forks: ([5-9]|[0-9]{2,}) forks"
		ferrotrace --version
		ferrotrace probe watch kernel_clone --count 3 >/run/hits & watch=$!
		until grep -q kernel_clone /sys/kernel/debug/kprobes/list; do sleep 0.2; done
		for i in 1 2 3 4 5 6 7 8; do /bin/true; done
		wait $watch
		cat /run/hits
		grep -q kernel_clone /run/hits'
}

# purged: removed, the packages leave nothing except depmod's files for the kernel and the client.
purged() {
	local deb names
	mapfile -t names < <(for deb in "$root"/packages/*.deb; do dpkg-deb -f "$deb" Package; done)
	chroot "$root" dpkg --purge "${names[@]}" || return 1
	files | sort >"$scratch/after" && comm -13 "$scratch/before" "$scratch/after" >"$scratch/left" || return 1
	! grep -vE "^./(usr/)?lib/modules/$release/(modules\.|updates/)" "$scratch/left"
}

if ! under_test $variant || [ "${FERROTRACE_STORM:-}" != long ]; then
	tap_skip "deb: packages" "a long test of $variant"
elif ! new_root >&2; then
	tap_not_ok "deb: no root to install into"
else
	tap_run "deb: packages are made" packages
	tap_run "deb: all may read what is in them" readable
	tap_run "deb: they are installed" installed
	tap_run "deb: programs have our headers" user_headers
	tap_run "deb: the document shows the client" shown
	tap_run "deb: a client in Rust is built outside of the tree" client_builds
	tap_run "deb: the installed kernel boots, with modules, client and command" boots
	tap_run "deb: purged, they leave nothing" purged
fi
tap_plan
