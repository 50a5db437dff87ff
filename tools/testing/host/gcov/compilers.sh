#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Unpacks compilers of other Debian suites into the cache, side by side, and makes programs that run them: gcc-N, gcov-N,
# clang-N, llvm-cov-N and llvm-profdata-N in $CACHE/gcov/bin. Nothing is installed.
#
#   compilers.sh                 all compilers of C that are on offer: 1 GB
#   compilers.sh gcc-13 clang-22 some
#   compilers.sh llvm-22         llvm-cov and llvm-profdata without their compiler
#   compilers.sh rust-trixie     rustc, its library source, and bindgen of a suite: $CACHE/gcov/trixie/usr/bin
#
# Exit status 3: its suite has no such compiler, or this machine has no mirror of that suite.
#
# They run with the libraries of their suite, by the loader of their suite. Linking is left to the machine's own gcc.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=integration/lib.sh
. "$HERE/../../../../integration/lib.sh"
# shellcheck source=integration/apt.sh
. "$REPO/integration/apt.sh"

DIR=$CACHE/gcov
ALL="gcc-9 gcc-10 gcc-11 gcc-12 gcc-13 gcc-14 gcc-15 gcc-16 clang-16 clang-17 clang-18 clang-19 clang-21 clang-22 clang-23"

# Packages that others depend on, and that compiling C does not need.
UNUSED='^lib(asan|tsan|lsan|hwasan|ubsan|itm|gomp|atomic|quadmath|gprofng|c-gconv|objc|python3|pipeline|hwloc)'
UNUSED=$UNUSED'|^(llvm-.*-(dev|runtime)|linux-libc-dev|rpcsvc|perl|dpkg|debconf|python3|media-types|tzdata)'
UNUSED=$UNUSED'|^(openssl|ca-cert|netbase)'

# suite COMPILER: the suite that has it.
suite() {
	case $1 in
	rust-*) echo "${1#rust-}" ;;
	gcc-9 | gcc-10 | clang-16) echo bullseye ;;
	gcc-11 | gcc-12) echo bookworm ;;
	gcc-13 | gcc-14 | clang-1[789] | llvm-1[789] | clang-22 | llvm-22) echo trixie ;;
	*) echo unstable ;;
	esac
}

# packages COMPILER: its required packages.
packages() {
	case $1 in
	gcc-* | llvm-*) echo "$1" ;;
	rust-*) echo "rustc rust-src bindgen" ;;
	clang-*) echo "$1 llvm-${1#clang-} libclang-rt-${1#clang-}-dev" ;;
	esac
}

# unpack COMPILER: its packages and their dependencies, except those that no C compiler reads.
unpack() {
	local suite names name missing root debs=$DIR/debs
	suite=$(suite "$1")
	root=$DIR/$suite
	mkdir -p "$root" "$debs/$suite"
	: >"$DIR/none"
	if ! [ -e "$debs/$suite.updated" ]; then
		private_sources "$suite" || return 3
		private_apt "$suite" apt-get update >"$DIR/log" 2>&1 || return 1
		: >"$debs/$suite.updated"
	fi
	for name in $(packages "$1"); do
		LC_ALL=C private_apt "$suite" apt-cache policy "$name" 2>/dev/null | grep '^  Candidate: [^(]' >/dev/null || return 3
	done
	# shellcheck disable=SC2046
	names=$(private_apt "$suite" apt-get -o Dir::State::status="$DIR/none" -o APT::Install-Recommends=false \
		-s install $(packages "$1") | awk '/^Inst/ { print $2 }' |
		grep -vE "$UNUSED") || return 1
	missing=()
	for name in $names; do
		compgen -G "$debs/$suite/${name}_*.deb" >/dev/null || missing+=("$name")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	(cd "$debs/$suite" && private_apt "$suite" apt-get -o Dir::State::status="$DIR/none" download "${missing[@]}") \
		>>"$DIR/log" 2>&1 || return 1
	for name in "${missing[@]}"; do
		dpkg -x "$(echo "$debs/$suite/${name}"_*.deb)" "$root" || return 1
	done
}

# loader_of ROOT, libraries_of ROOT: the loader of a suite, and where its libraries are.
loader_of() {
	local loader
	loader=$(compgen -G "$1/usr/lib*/ld-linux-x86-64.so.2" || compgen -G "$1/lib64/ld-linux-x86-64.so.2")
	readlink -e "$loader" || compgen -G "$1/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" ||
		compgen -G "$1/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
}
libraries_of() { printf '%s\n' "$1/usr/lib/x86_64-linux-gnu:$1/lib/x86_64-linux-gnu"; }

# program NAME FILE [ARGS...]: make $DIR/bin/NAME, which runs FILE of a suite.
program() {
	local name=$1 file=$2 root=$DIR/$3 loader libraries
	shift 3
	loader=$(loader_of "$root")
	libraries=$(libraries_of "$root")
	cat >"$DIR/bin/$name" <<-EOF
		#!/bin/sh
		loader=$loader
		libraries=$libraries
		root=$root
		exec "\$loader" --library-path "\$libraries" "$file" $* "\$@"
	EOF
	chmod +x "$DIR/bin/$name"
}

# own_loader FILE ROOT: have it run by the loader of a suite, with the libraries there, also where others start it.
own_loader() {
	local lib
	have patchelf || apt-get -q -y --no-install-recommends install patchelf >&2
	patchelf --set-interpreter "$(loader_of "$2")" --force-rpath --set-rpath "$(libraries_of "$2")" "$1"
	# A library with a path of its own looks for nothing where the program says.
	for lib in "$2"/usr/lib/{x86_64-linux-gnu,llvm-*/lib}/lib{LLVM,clang,rustc_driver}*.so*; do
		if [ -f "$lib" ] && [ ! -L "$lib" ] && readelf -d "$lib" | grep -qF '(RUNPATH)'; then patchelf --remove-rpath "$lib"; fi
	done
}

# linked COMPILER: make the programs of it.
linked() {
	local suite root n=${1##*-}
	suite=$(suite "$1")
	root=$DIR/$suite
	case $1 in
	rust-*)
		# rustc looks for its library, and bindgen is looked for, by where the program itself is.
		for n in rustc bindgen; do own_loader "$root/usr/bin/$n" "$root"; done
		;;
	gcc-*)
		# It finds its parts by -B, and runs them by the loader, too.
		# shellcheck disable=SC2016
		program "$1" "$root/usr/bin/x86_64-linux-gnu-$1" "$suite" '-wrapper "$loader,--library-path,$libraries"' \
			"-B$root/usr/lib/gcc/x86_64-linux-gnu/$n/" "-B$root/usr/libexec/gcc/x86_64-linux-gnu/$n/" \
			"-B$root/usr/bin/x86_64-linux-gnu-"
		program "gcov-$n" "$root/usr/bin/x86_64-linux-gnu-gcov-$n" "$suite"
		;;
	clang-* | llvm-*)
		# It runs itself again for work in several steps.
		if [ "$1" = "clang-$n" ]; then
			own_loader "$root/usr/lib/llvm-$n/bin/clang" "$root"
			ln -sf "$root/usr/lib/llvm-$n/bin/clang" "$DIR/bin/$1"
		fi
		program "llvm-cov-$n" "$root/usr/lib/llvm-$n/bin/llvm-cov" "$suite"
		program "llvm-profdata-$n" "$root/usr/lib/llvm-$n/bin/llvm-profdata" "$suite"
		;;
	esac
}

mkdir -p "$DIR/bin" "$DIR/debs"
[ $# -gt 0 ] || read -ra ALL_OF <<<"$ALL"
for compiler in "${@:-${ALL_OF[@]}}"; do
	status=0
	unpack "$compiler" || status=$?
	if [ $status = 3 ]; then say "$compiler is not on offer" && exit 3; fi
	[ $status = 0 ] || die "$compiler cannot be had: see $DIR/log"
	linked "$compiler"
	program=$DIR/bin/$compiler
	case $compiler in
	llvm-*) program=$DIR/bin/llvm-cov-${compiler#llvm-} ;;
	rust-*) program=$DIR/$(suite "$compiler")/usr/bin/rustc ;;
	esac
	say "$compiler: $("$program" --version | head -n 1)"
done
