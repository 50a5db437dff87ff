#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes Debian packages of a kernel variant and of the command, in build/deb:
#
#   deb.sh VARIANT
#
# linux-image, linux-headers and linux-libc-dev are the kernel's own (bindeb-pkg). Its headers lack
# files that modules in Rust need: ferrotrace-dev has these, for clients in Rust, and for clients in
# C of our headers. ferrotrace is the command. For the variant stock, the kernel is the distribution's:
# linux-rust-dev has what its headers lack (stock.sh), ferrotrace-modules our modules, and ferrotrace-dkms their source.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

# Installed files are readable for all, even if the files here are private (pack).
umask 022
variant=${1:?usage: deb.sh VARIANT}
out=$REPO/build/deb
case $variant in stock-*) die "no packages for $variant: the modules' packages are for stock; make rust-dev makes linux-rust-dev" ;; esac
if [ "$variant" != stock ]; then
	for tool in dpkg-buildpackage dh_builddeb; do
		have $tool || die "no $tool: install dpkg-dev and debhelper"
	done
fi

"$REPO/integration/kernel.sh" build "$variant" >/dev/null
kdir=$("$REPO/integration/kernel.sh" kdir "$variant")
tool_version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$REPO/Cargo.toml" | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

# Kbuild writes the packages next to its directory.
kernel_packages() {
	local log=$kdir/deb.log
	rm -f "$(dirname "$kdir")"/*.deb
	say "packing kernel $variant ($release)"
	# With the variables of the build, so that nothing is rebuilt. The tools of the build exist
	# under any name.
	"$REPO/integration/kernel.sh" make "$variant" KDEB_PKGVERSION="$version" KDEB_COMPRESS=zstd DPKG_FLAGS=-d bindeb-pkg >"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		die "bindeb-pkg failed; log: $log"
	}
	mv "$(dirname "$kdir")"/*.deb "$out/"
	rm -rf "$kdir/debian" "$(dirname "$kdir")"/linux-upstream_*
}

# pack DIR NAME VERSION DEPENDS DESCRIPTION...: a package of the contents of DIR; the first line
# describes it in short. $fields has more lines of the control file.
pack() {
	local dir=$1 name=$2 pack_version=$3 depends=$4
	shift 4
	mkdir -p "$dir/DEBIAN"
	chmod -R u=rwX,go=rX "$dir"
	{
		printf '%s\n' "Package: $name" "Version: $pack_version" "Architecture: amd64" \
			"Maintainer: Ferrotrace maintainers <ferrotrace@localhost>" "Section: kernel" "Priority: optional" \
			"Depends: $depends" ${fields:+"$fields"} "Description: $1"
		shift
		printf ' %s\n' "$@"
	} >"$dir/DEBIAN/control"
	dpkg-deb --root-owner-group -Zzstd --build "$dir" "$out/${name}_${pack_version}_amd64.deb" >/dev/null
}

# Files of the build directory that kbuild needs for a module in Rust, and of our directory for a
# client: metadata of crates, procedural macros, headers.
dev_package() {
	local to=$work/dev/usr/src/linux-headers-$release
	mkdir -p "$to"
	(cd "$kdir" && find rust kernel/ferrotrace \( -name '*.rmeta' -o -path 'rust/*.so' \) -type f -print | rsync -a --files-from=- . "$to/")
	(cd "$kdir/source" && printf '%s\n' kernel/ferrotrace/include kernel/ferrotrace/rust/client.mk |
		rsync -ar --files-from=- . "$to/")
	pack "$work/dev" "ferrotrace-dev-$release" "$version" "linux-headers-$release (= $version)" \
		"Ferrotrace's crates and headers for modules" \
		"What modules outside of the kernel's tree are built against that are in Rust, or use" \
		"Ferrotrace's headers in C. They are for linux-headers-$release, and for" \
		"$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"/\1/p' "$kdir/.config")."
}

# modules_package RELEASE: our modules for a kernel of the distribution. They fit one build of it only.
modules_package() {
	local release=$1 to=$work/modules rust_dev kernel
	rust_dev=$("$REPO/integration/stock.sh" rust-dev "$release")
	kernel=$(dpkg-deb -f "$rust_dev" Version)
	cp "$rust_dev" "$out/"
	mkdir -p "$to/usr/lib/modules/$release/updates/ferrotrace" "$to/DEBIAN"
	find "$kdir/kernel/ferrotrace" -name samples -prune -o -name '*.ko' -exec cp -t "$to/usr/lib/modules/$release/updates/ferrotrace" {} +
	# Removes modules that DKMS has built for this kernel: modprobe would mix both.
	cat >"$to/DEBIAN/preinst" <<-EOF
		#!/bin/sh
		for built in /var/lib/dkms/ferrotrace/*/$release; do
			if ! [ -d "\$built" ]; then continue; fi
			version=\${built%/*}
			dkms unbuild -m ferrotrace -v "\${version##*/}" -k $release || :
		done
	EOF
	# As packages of the kernel do it; the kernel may be removed before.
	printf '#!/bin/sh\nset -e\nif [ -e /usr/lib/modules/%s/modules.order ]; then depmod %s; fi\n' "$release" "$release" >"$to/DEBIAN/postinst"
	cp "$to/DEBIAN/postinst" "$to/DEBIAN/postrm"
	chmod 755 "$to"/DEBIAN/p*
	pack "$to" "ferrotrace-modules-$release" "$tool_version+$kernel" "linux-modules-$release (= $kernel), kmod" \
		"Ferrotrace's modules for Linux $release" \
		"Probes, functions, fast channels, probe programs and klog for the kernel of this" \
		"package, which needs no patch. The command ferrotrace loads them when it needs them."
}

# dkms_package: the modules' source, which DKMS builds for each kernel.
dkms_package() {
	local to=$work/dkms source=$work/dkms/usr/src/ferrotrace-$tool_version file modules
	mkdir -p "$to/DEBIAN" "$source"
	(cd "$REPO" && { PARTS="$PARTS stock COPYING" part_files; } | rsync -rp --files-from=- . "$source/")
	modules=$(cd "$kdir/kernel/ferrotrace" && find . -name samples -prune -o -name '*.ko' -printf '%P\n' | sed 's/\.ko$//' | sort | tr '\n' ' ')
	for file in dkms.conf postinst prerm triggers; do
		sed "s|@VERSION@|$tool_version|g; s|@MODULES@|$modules|" "$REPO/integration/dkms/$file" >"$to/DEBIAN/$file"
	done
	mv "$to/DEBIAN/dkms.conf" "$source/"
	chmod 755 "$to"/DEBIAN/p* "$source"/stock/*.sh
	fields="Recommends: linux-rust-dev, openssl" pack "$to" ferrotrace-dkms "$tool_version" "dkms (>= 3.2), bindgen (>= 0.71.1), kmod" \
		"Ferrotrace's modules, built for each kernel by DKMS" \
		"Probes, functions, fast channels, probe programs and klog for kernels with Rust that" \
		"need no patch. For each kernel it needs the packages linux-headers-RELEASE and" \
		"linux-rust-dev-RELEASE, with their compilers (1.4 GB), and 1 to 5 minutes. Kernels that" \
		"lack something are skipped, with the reason. Where ferrotrace-modules-RELEASE is" \
		"installed, it is used instead, and is the better choice without Secure Boot."
}

command_package() {
	DESTDIR=$work/command PREFIX=/usr "$REPO/integration/install-tools.sh"
	# The kernel's headers_install knows of ours in a tree of "make export" only.
	install -D -m 644 -t "$work/command/usr/include/linux" "$REPO"/include/uapi/linux/*.h
	find "$work/command/usr/share/man" -type f -exec gzip -9n {} +
	fields="Replaces: linux-libc-dev" pack "$work/command" ferrotrace "$tool_version" "libc6 (>= $(newest_glibc "$work/command/usr/bin/ferrotrace")), libgcc-s1" \
		"records, probes and counts with Ferrotrace's engines" \
		"The command of Ferrotrace, the kernel's tracing in Rust: channels, probes, functions," \
		"probe programs, hooks and coverage, with man pages and completions; and the headers" \
		"for programs that read channels themselves."
}

# newest_glibc PROGRAM: the newest version of the C library that its symbols need.
newest_glibc() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | cut -d_ -f2; }

if [ "$variant" = stock ]; then
	modules_package "$("$REPO/integration/stock.sh" release)"
	dkms_package
else
	release=$(<"$kdir/include/config/kernel.release")
	# Of the kernel that was built: its number is a part of its name for itself.
	version=$(make -s -C "$kdir/source" kernelversion)-1
	kernel_packages
	dev_package
fi
command_package
ls "$out"/*.deb
