# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# Shared by the scripts of this directory and of tools/testing: places, messages, the toolchain.
# Source it; it changes nothing but variables and functions.

# With it "cd" would go elsewhere, and say so.
unset CDPATH
REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${FERROTRACE_CACHE:-/} in /*) ;; *) export FERROTRACE_CACHE=$PWD/$FERROTRACE_CACHE ;; esac
CACHE=${FERROTRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ferrotrace}
SERIES=$(cat "$REPO/integration/kernel-version")
DEFAULT_VARIANTS="mainline modular builtin"
JOBS=${JOBS:-$(nproc)}

say() { printf '%s\n' "ferrotrace: $*" >&2; }
die() { say "error: $*"; exit 1; }

have() { command -v "$1" >/dev/null 2>&1; }

# version_ge A B: true when dotted version A is at least B.
version_ge() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# wait_for FD NAME -s|-x: take the lock NAME, shared or exclusive, and say so if others have it.
wait_for() {
	if ! flock -n "$3" "$1"; then
		say "waiting for another build ($2)"
		flock "$3" "$1"
	fi
}

# with_lock [-s] NAME CMD...: run CMD while holding the cache's lock NAME, with -s shared; returns
# its status. CMD is not a condition, so that "set -e" holds in it.
with_lock() {
	local kind=-x name fd status
	if [ "$1" = -s ]; then kind=-s && shift; fi
	name=$1
	shift
	mkdir -p "$CACHE/locks"
	exec {fd}>"$CACHE/locks/$name"
	wait_for "$fd" "$name" "$kind"
	"$@" {fd}>&-
	status=$?
	exec {fd}>&-
	return $status
}

# The kernel's minimum version of a tool, without needing the tree: scripts/min-tool-version.sh of 7.3.
MIN_RUSTC=1.85.0
MIN_BINDGEN=0.71.1
MIN_LIBCLANG=17

# From this on QEMU locks a page while it translates it, which PARALLEL=1 needs; and newer ones are faster: where text is
# patched under load, 10.0 takes half the time that 7.2 takes.
MIN_QEMU=8.1.0

# rustc_candidates: every rustc that might do, the user's choice first.
rustc_candidates() {
	[ -z "${RUSTC:-}" ] || printf '%s\n' "$RUSTC"
	printf '%s\n' /usr/bin/rustc /usr/lib/rust-*/bin/rustc
	type -ap rustc || true
	printf '%s\n' "${RUSTUP_HOME:-$HOME/.rustup}"/toolchains/*/bin/rustc
}

# find_rustc: prints a rustc that has its library source installed and that the kernel accepts. A
# rustup proxy stands for the active toolchain, so its sysroot's real binary is printed.
find_rustc() {
	local c sysroot version
	while read -r c; do
		[ -x "$c" ] || continue
		sysroot=$("$c" --print sysroot 2>/dev/null) || continue
		[ -d "$sysroot/lib/rustlib/src/rust/library/core" ] || continue
		version=$("$c" --version | awk '{print $2}')
		version_ge "${version%%-*}" "$MIN_RUSTC" || continue
		if [ -x "$sysroot/bin/rustc" ]; then c=$sysroot/bin/rustc; fi
		printf '%s\n' "$c"
		return 0
	done < <(rustc_candidates)
	return 1
}

# rust_tool RUSTC NAME: NAME (rustdoc, rustfmt, clippy-driver, cargo) of the same version as RUSTC, else any.
rust_tool() {
	local dir
	dir=$(dirname "$1")
	if [ -x "$dir/$2" ]; then printf '%s\n' "$dir/$2"; else command -v "$2"; fi
}

# find_libclang: prints the directory of the newest libclang that bindgen can use, or the user's choice.
find_libclang() {
	local dir best="" v best_v=0 lib
	for dir in "${LIBCLANG_PATH:-}" /usr/lib/llvm-*/lib /usr/lib/x86_64-linux-gnu; do
		[ -n "$dir" ] || continue
		if [ "$best" ] && [ "$best" = "${LIBCLANG_PATH:-}" ]; then break; fi
		for lib in "$dir"/libclang.so "$dir"/libclang-[0-9]*.so*; do
			[ -e "$lib" ] || continue
			v=$(printf '%s\n' "$(readlink -f "$lib")" "$dir" |
				sed -n 's/.*libclang[.-]\(so\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p; s/.*llvm-\([0-9]*\).*/\1/p' | head -n 1)
			if [ -n "$v" ] && [ "$v" -ge "$MIN_LIBCLANG" ] && [ "$v" -gt "$best_v" ]; then
				best=$dir best_v=$v
			fi
		done
	done
	[ -n "$best" ] && printf '%s\n' "$best"
}

# find_clang: prints the clang that libclang belongs to.
find_clang() {
	local lib c
	lib=$(find_libclang) || return 1
	for c in "$(dirname "$lib")/bin/clang" "$(command -v clang || true)"; do
		if [ -n "$c" ] && [ -x "$c" ]; then
			printf '%s\n' "$c"
			return 0
		fi
	done
	return 1
}

# find_bindgen: prints a bindgen that the kernel accepts.
find_bindgen() {
	local c v
	while read -r c; do
		[ -x "$c" ] || continue
		v=$("$c" --version 2>/dev/null | awk '{print $2}')
		if [ -n "$v" ] && version_ge "$v" "$MIN_BINDGEN"; then
			printf '%s\n' "$c"
			return 0
		fi
	done < <(printf '%s\n' "${BINDGEN:-}" "$CACHE/tools/bin/bindgen"; type -ap bindgen || true)
	return 1
}

# find_qemu: prints a QEMU that is new enough: the machine's, or the one that setup.sh has put into the cache.
find_qemu() {
	local c v
	while read -r c; do
		[ -x "$c" ] || continue
		v=$("$c" --version 2>/dev/null | sed -n '1s/^QEMU emulator version \([0-9.]*\).*/\1/p')
		if [ -n "$v" ] && version_ge "$v" "$MIN_QEMU"; then
			printf '%s\n' "$c"
			return 0
		fi
	done < <(type -ap qemu-system-x86_64 || true; printf '%s\n' "$CACHE/tools/qemu/usr/bin/qemu-system-x86_64")
	return 1
}

# find_vng: prints virtme-ng's command.
find_vng() {
	local c
	for c in "$CACHE/tools/venv/bin/vng" "$(command -v vng || true)"; do
		if [ -n "$c" ] && [ -x "$c" ]; then
			printf '%s\n' "$c"
			return 0
		fi
	done
	return 1
}

# find_cargo: prints a cargo for the host's programs, new enough for the tool's crates.
find_cargo() {
	local c v
	while read -r c; do
		[ -x "$c" ] || continue
		v=$("$c" --version 2>/dev/null | awk '{print $2}')
		if [ -n "$v" ] && version_ge "${v%%-*}" "$MIN_RUSTC"; then
			printf '%s\n' "$c"
			return 0
		fi
	done < <(printf '%s\n' "${CARGO:-}"; type -ap cargo || true)
	return 1
}

# locked_cargo: prints such a cargo, for a command with --locked: Cargo.lock has the packages of the checked-in list.
locked_cargo() {
	local cargo
	cargo=$(find_cargo) && "$REPO/integration/deps.py" lock "$cargo" >&2 && printf '%s\n' "$cargo"
}

# have_cargo_tool NAME, install_cargo_tool NAME: a subcommand of cargo that only one of our commands needs: the machine's,
# or one in the cache. Cargo finds it when the cache's tools are in PATH.
have_cargo_tool() { have "cargo-$1" || [ -x "$CACHE/tools/bin/cargo-$1" ]; }
install_cargo_tool() {
	say "installing cargo-$1"
	mkdir -p "$CACHE/tools"
	"$(find_cargo)" install -q "cargo-$1" --locked --root "$CACHE/tools" >"$CACHE/cargo-$1.log" 2>&1 || {
		tail -n 20 "$CACHE/cargo-$1.log" >&2
		die "cargo cannot install cargo-$1; log: $CACHE/cargo-$1.log"
	}
}

# pure_packages: the Cargo packages of the pure logic, which Kbuild compiles into the kernel and Cargo on the host.
pure_packages() { (cd "$REPO" && printf '%s\n' */core clients/*/core); }

# package_name DIRECTORY: the name of the Cargo package there.
package_name() { sed -n 's/^name = "\(.*\)"/\1/p' "$REPO/$1/Cargo.toml" | head -n 1; }

# The parts of the repository that belong to the kernel.
PARTS="Kbuild Kconfig bindings.h rust gkhi relay fast_relay klog kprobes ftrace_tramp gcov coverage dprobes clients samples include"

# part_files: every file of them that kbuild may see, relative to the repository and sorted. Build output of cargo is not
# among them.
part_files() {
	local p
	(
		cd "$REPO" || exit
		for p in $PARTS; do
			if [ -e "$p" ]; then find "$p" -name target -prune -o -type f ! -name Cargo.lock -print; fi
		done
	) | LC_ALL=C sort
}

PATCHES=$REPO/integration/patches

# patch_list: the series' patches, in order.
patch_list() {
	if [ -f "$PATCHES/series" ]; then sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$PATCHES/series"; fi
}

# apply_series DIR NAME: applies it there; an error says which patch does not fit the kernel NAME.
apply_series() {
	local p
	for p in $(patch_list); do
		patch -p1 -s -f --no-backup-if-mismatch -d "$1" <"$PATCHES/$p" >&2 ||
			die "integration/patches/$p does not apply to $2"
	done
}

# kernel_version TREE: the version in its Makefile, without running it; nothing without one.
kernel_version() {
	awk '$2 == "=" && $1 ~ /^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)$/ && !($1 in v) { v[$1] = $3 }
		END { if (v["VERSION"] != "") print v["VERSION"] "." v["PATCHLEVEL"] "." v["SUBLEVEL"] v["EXTRAVERSION"] }' "$1/Makefile"
}

# kbuild_takes PATH: its Makefile refuses some.
kbuild_takes() { ! [[ $1 = *[[:space:]:]* ]]; }

# check_kernel TREE [NAME]: fails unless it is a kernel tree that our series may apply to.
check_kernel() {
	local version='' name=${2:-$1}
	if [ -f "$1/Makefile" ] && [ -d "$1/kernel" ]; then version=$(kernel_version "$1"); fi
	case $version in
	"$SERIES" | "$SERIES".* | "$SERIES"-*) ;;
	"${SERIES%%.*}".*) say "warning: $name is kernel $version; the patches are for $SERIES" ;;
	'') die "$name is not a kernel source tree" ;;
	*) die "$name is kernel $version, not $SERIES" ;;
	esac
	[ -d "$1/rust/kernel" ] || die "$name is a kernel source tree without rust/kernel"
}
