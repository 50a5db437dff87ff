#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Installs all that is missing to build, boot and test the kernels; does nothing where nothing is
# missing.
#
#   setup.sh            list present and missing requirements, then install the missing ones
#   setup.sh --quiet    print nothing unless something must be installed
#   setup.sh --check    install nothing; fail if something is missing
#
# Everything is installed from the distribution's, Cargo's and Python's registries, by name.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=integration/apt.sh
. "$(dirname "$0")/apt.sh"

mode=${1:-}

# Each requirement is a line "NAME|TEST|PACKAGES": a shell test that succeeds if it is present, and
# the packages to install otherwise: alternatives separated by "/", the first available one; "+"
# joins packages of one alternative.
requirements() {
	cat <<'EOF'
compiler, make and binutils|have gcc && have make && have ld|build-essential
flex|have flex|flex
bison|have bison|bison
bc|have bc|bc
perl|have perl|perl
patch|have patch|patch
xz|have xz|xz-utils
zstd|have zstd|zstd
rsync|have rsync|rsync
cpio|have cpio|cpio
git|have git|git
ccache|have ccache|ccache
pahole|have pahole|dwarves/pahole
libelf headers|has_header libelf.h gelf.h|libelf-dev
OpenSSL headers|has_header openssl/ssl.h|libssl-dev
CA certificates|[ -e /etc/ssl/certs/ca-certificates.crt ]|ca-certificates
kmod|has_tool modprobe && has_tool insmod|kmod
ip|has_tool ip|iproute2
setsid and mountpoint|have setsid && have mountpoint|util-linux
losetup|has_tool losetup|mount
mkfs.ext4|has_tool mkfs.ext4|e2fsprogs
QEMU for x86_64|have qemu-system-x86_64|qemu-system-x86
busybox|have busybox|busybox-static
blktrace and blkparse|has_tool blktrace && have blkparse|blktrace
lcov|have lcov|lcov
gcovr|have gcovr|gcovr
babeltrace2|have babeltrace2|babeltrace2
python3|have python3|python3
Python's venv|have_venv|python3-venv
docutils|has_docutils|python3-docutils
shellcheck|have shellcheck|shellcheck
rustc with its library source|find_rustc >/dev/null|rustc-web+rust-web-src/rustc+rust-src
rustfmt|has_rust_tool rustfmt|rustfmt-web/rustfmt
clippy|has_rust_tool clippy-driver|rust-web-clippy/rust-clippy
cargo|find_cargo >/dev/null|cargo-web/cargo
libclang|find_libclang >/dev/null|libclang-19-dev+clang-19/libclang-dev+clang
EOF
}

# names LINES: the names of requirements, on one line.
names() { cut -d'|' -f1 <<<"$1" | paste -sd, | sed 's/,/, /g'; }

# Requirements that are not packages of every distribution: "NAME|TEST|FUNCTION".
extras() {
	cat <<'EOF'
bindgen|find_bindgen >/dev/null|install_bindgen
virtme-ng|find_vng >/dev/null|install_virtme
a newer QEMU|have_qemu|install_qemu
readers of traces|have_readers|install_readers
EOF
}

has_tool() { have "$1" || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }
has_header() { local h; for h in "$@"; do printf '#include <%s>\n' "$h"; done | gcc -E - >/dev/null 2>&1; }
have_venv() { python3 -c 'import venv, ensurepip' 2>/dev/null; }
has_docutils() { python3 -c 'import docutils' 2>/dev/null; }
# For lint. A toolchain of rustup's brings its own; the distribution's has them in packages.
has_rust_tool() {
	local rustc
	rustc=$(find_rustc) || return 1
	[ "$rustc" != /usr/bin/rustc ] || [ -x "/usr/bin/$1" ]
}

has_root() { [ "$(id -u)" = 0 ] || have sudo; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# candidate PACKAGE: succeeds if the configured suites have it.
candidate() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep '^  Candidate: [^(]' >/dev/null; }

# choose ALTERNATIVES ("a+b/c"): prints the first whose packages are all available, as words.
choose() {
	local alternative p ok alternatives
	IFS=/ read -r -a alternatives <<<"$1"
	for alternative in "${alternatives[@]}"; do
		ok=1
		for p in ${alternative//+/ }; do candidate "$p" || ok=0; done
		if [ $ok = 1 ]; then
			printf '%s\n' "${alternative//+/ }"
			return 0
		fi
	done
	return 1
}

# missing: prints the lines of requirements() that do not hold.
missing() {
	local line test
	while IFS= read -r line; do
		test=${line#*|}
		eval "${test%|*}" || printf '%s\n' "$line"
	done < <(requirements)
}

refresh_lists() {
	# Lists older than a day, or none.
	if has_root && [ -z "$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' -mtime -1 2>/dev/null | head -n 1)" ]; then
		say "apt-get update"
		as_root apt-get -q update >/dev/null || die "apt-get update failed"
	fi
}

install_packages() {
	local lines=$1 line packages="" chosen
	have apt-get || die "not a Debian system; please install: $(names "$lines")"
	refresh_lists
	while IFS= read -r line; do
		chosen=$(choose "${line##*|}") || die "no package on offer for ${line%%|*} (tried: ${line##*|})"
		packages="$packages $chosen"
	done <<<"$lines"
	has_root || die "root is needed, and there is no sudo; as root: apt-get install$packages"
	say "installing:$packages"
	# shellcheck disable=SC2086
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $packages >"$CACHE/apt.log" 2>&1 || {
		tail -n 20 "$CACHE/apt.log" >&2
		die "apt-get install failed; log: $CACHE/apt.log"
	}
	lines=$(missing)
	[ -z "$lines" ] || die "installed, but still missing: $(names "$lines")"
}

# install_package NAME: the distribution's package, where there is one.
install_package() {
	have apt-get && has_root && candidate "$1" &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$1" >"$CACHE/apt.log" 2>&1
}

# The distribution's where it is new enough, else Cargo's.
install_bindgen() {
	if install_package bindgen && find_bindgen >/dev/null; then return; fi
	"$(find_cargo)" install -q bindgen-cli --locked --root "$CACHE/tools" >"$CACHE/bindgen.log" 2>&1 || {
		tail -n 20 "$CACHE/bindgen.log" >&2
		die "cargo cannot install bindgen-cli; log: $CACHE/bindgen.log"
	}
}

# Python's, which is the newest; else the distribution's.
install_virtme() {
	rm -rf "$CACHE/tools/venv"
	if python3 -m venv "$CACHE/tools/venv" &&
		"$CACHE/tools/venv/bin/pip" -q --disable-pip-version-check install virtme-ng >"$CACHE/pip.log" 2>&1; then
		return
	fi
	rm -rf "$CACHE/tools/venv"
	install_package virtme-ng || {
		tail -n 5 "$CACHE/pip.log" >&2
		die "neither pip nor apt-get can install virtme-ng; logs: $CACHE/pip.log $CACHE/apt.log"
	}
}

# The mark says which they are: other ones are installed again.
READERS="perfetto protobuf duckdb"
have_readers() {
	[ "$(cat "$CACHE/tools/readers/complete" 2>/dev/null)" = "$READERS" ] ||
		[ -n "$(find "$CACHE/tools/readers.none" -mtime -7 2>/dev/null)" ]
}

# Tools that judge the traces of "ferrotrace export": Perfetto's own description of its format,
# DuckDB, and a babeltrace2 that reads version 2. Without them their tests are skipped.
install_readers() {
	local dir=$CACHE/tools/readers
	rm -rf "$dir"
	# shellcheck disable=SC2086
	if ! python3 -m venv "$dir" || ! "$dir/bin/pip" -q --disable-pip-version-check install $READERS >"$CACHE/pip-readers.log" 2>&1; then
		say "no readers of traces on offer (log: $CACHE/pip-readers.log); their tests will be skipped"
		: >"$CACHE/tools/readers.none"
		return
	fi
	if ! reads_ctf2 babeltrace2; then
		unpack_babeltrace "$BABELTRACE_SUITE" "$dir/ctf2" >"$CACHE/babeltrace.log" 2>&1 ||
			say "no babeltrace2 >= 2.1 on offer (log: $CACHE/babeltrace.log); its test will be skipped"
	else
		ln -s "$(command -v babeltrace2)" "$dir/bin/babeltrace2"
	fi
	echo "$READERS" >"$dir/complete"
}

# The oldest suite with a babeltrace2 that reads version 2, and the libraries of that suite that it
# needs: on an older one it runs with these.
BABELTRACE_SUITE=trixie
BABELTRACE_PACKAGES="babeltrace2 libbabeltrace2-0 libglib2.0-0t64 libpcre2-8-0 libelf1t64 libdw1t64 zlib1g libbz2-1.0 liblzma5 libzstd1 libstdc++6 libgcc-s1 libc6"

# reads_ctf2 PROGRAM: succeeds if that babeltrace2 does.
reads_ctf2() { "$1" --version 2>/dev/null | grep -E '^Babeltrace (2\.[1-9]|[3-9])' >/dev/null; }

# unpack_babeltrace SUITE DIR: babeltrace2 and its libraries to DIR, and a script next to the other
# readers that runs it.
unpack_babeltrace() {
	local d script
	mkdir -p "$2/debs" && private_sources "$1" && private_apt "$1" apt-get update || return 1
	# shellcheck disable=SC2086
	(cd "$2/debs" && private_apt "$1" apt-get download $BABELTRACE_PACKAGES) || return 1
	for d in "$2"/debs/*.deb; do dpkg -x "$d" "$2" || return 1; done
	rm -r "$2/debs"
	script=$(dirname "$2")/bin/babeltrace2
	# By its own place: a cache may be moved, or be seen at several.
	cat >"$script" <<-'EOF'
	#!/bin/sh
	root=$(dirname "$(readlink -f "$0")")/../ctf2
	export BABELTRACE_PLUGIN_PATH="$root/usr/lib/x86_64-linux-gnu/babeltrace2/plugins"
	exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/babeltrace2" "$@"
	EOF
	chmod +x "$script"
	reads_ctf2 "$script" || { rm "$script"; return 1; }
}

have_qemu() { find_qemu >/dev/null || [ -n "$(find "$CACHE/tools/qemu.none" -mtime -7 2>/dev/null)" ]; }

# From the backports of the machine's release, which fit its libraries, into the cache. Without
# backports, the guests run on the installed QEMU.
install_qemu() {
	local suite dir=$CACHE/tools/qemu
	suite=$(. /etc/os-release && printf '%s-backports' "${VERSION_CODENAME:-}")
	rm -rf "$dir" "$dir".*
	mkdir -p "$dir.new/debs"
	if have apt-get && unpack_qemu "$suite" "$dir.new" >"$CACHE/qemu.log" 2>&1; then mv "$dir.new" "$dir"; fi
	rm -rf "$dir.new"
	if ! find_qemu >/dev/null; then
		say "no QEMU >= $MIN_QEMU on offer (log: $CACHE/qemu.log); guests will be slower"
		: >"$dir.none"
	fi
}

# unpack_qemu SUITE DIR: it finds its own data, wherever it lies.
unpack_qemu() {
	local deb
	private_sources "$1" && private_apt "$1" apt-get update || return 1
	(cd "$2/debs" && private_apt "$1" apt-get download {qemu-system-x86,qemu-system-common,qemu-system-data,seabios}/"$1") || return 1
	for deb in "$2"/debs/*.deb; do dpkg-deb -x "$deb" "$2" || return 1; done
	rm -rf "$2/debs"
	"$2/usr/bin/qemu-system-x86_64" --version
}

# do_extras: installs, or with --check names, missing entries of extras().
do_extras() {
	local name test action
	while IFS='|' read -r name test action; do
		if eval "$test"; then continue; fi
		[ "$mode" != --check ] || die "missing: $name; run 'make setup'"
		say "installing $name into $CACHE/tools"
		"$action"
		eval "$test" || die "installed, but still missing: $name"
	done < <(extras)
}

report() {
	local rustc qemu
	rustc=$(find_rustc)
	say "rustc    $rustc $("$rustc" --version | awk '{print $2}'), library source beside it"
	say "cargo    $(find_cargo) $("$(find_cargo)" --version | awk '{print $2}')"
	say "bindgen  $(find_bindgen) $("$(find_bindgen)" --version | awk '{print $2}')"
	say "libclang $(find_libclang)"
	say "gcc      $(gcc -dumpfullversion)"
	qemu=$(find_qemu || command -v qemu-system-x86_64)
	say "qemu     $qemu $("$qemu" --version | awk 'NR == 1 {print $4}')"
	say "virtme   $(find_vng)"
}

mkdir -p "$CACHE/tools"
lines=$(missing)
if [ -n "$lines" ]; then
	say "missing: $(names "$lines")"
	[ "$mode" != --check ] || die "run 'make setup'"
	install_packages "$lines"
fi
do_extras
# Cargo alone knows the name of its registry; later commands need not ask it again.
[ "$mode" = --check ] || locked_cargo >/dev/null || die "cannot write Cargo.lock from integration/dependencies"
if [ "$mode" != --quiet ]; then
	report
	say "everything that is needed is installed"
fi
