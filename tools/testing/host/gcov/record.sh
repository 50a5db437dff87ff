#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Compiles and runs the program of this directory, and records its compiler's data in memory and the
# files of the compiler's runtime, for tools/testing/host/src/gcov.rs.
#
#   record.sh gcc DIR GCC [FLAGS...]     in the new directory DIR, which keeps the notes; the record
#                                        is DIR/record
#   record.sh llvm DIR CLANG [FLAGS...]  the same
#   record.sh profile DIR CLANG [FLAGS...]  the same with source-based coverage
#   record.sh rust DIR CLANG RUSTC       the same of Rust, with the runtime of a clang of the same LLVM
#   record.sh all                        all of recorded/, with the compilers that compilers.sh has
#                                        fetched
#
# The program runs three times: without an argument, with one, and so again, with the files of the
# first run in place.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)

# file NAME AS: a file, as the record has it.
file() { printf 'file %s %s\n' "$2" "$(stat -c %s "$1")" && cat "$1"; }

# files RUN: the files that the run wrote.
files() {
	local f
	for f in *.gcda; do
		file "$f" "$1/$f"
	done
}

record_gcc() {
	local dir=$1 gcc=$2
	shift 2
	mkdir -p "$dir"
	cd "$dir"
	cp "$HERE"/{program,shared,dump}.c "$HERE"/{program,dump}.h .
	"$gcc" -O1 -fno-pie --coverage "$@" -c program.c shared.c
	gcc -O1 -fno-pie -c dump.c
	gcc -no-pie program.o shared.o dump.o "$("$gcc" -print-file-name=libgcov.a)" \
		-Wl,--wrap=__gcov_init,--wrap=__gcov_exit -o program
	run
}

record_llvm() {
	local dir=$1 clang=$2
	shift 2
	mkdir -p "$dir"
	cd "$dir"
	cp "$HERE"/{program,shared,dump-llvm}.c "$HERE"/{program,dump}.h .
	# One by one: clang then compiles and links in one process.
	"$clang" -O1 -fno-pie --coverage "$@" -c program.c
	"$clang" -O1 -fno-pie --coverage "$@" -c shared.c
	gcc -O1 -fno-pie -c dump-llvm.c
	gcc -no-pie program.o shared.o dump-llvm.o \
		"$("$clang" -print-resource-dir)/lib/linux/libclang_rt.profile-x86_64.a" -o program \
		-Wl,--wrap=llvm_gcda_start_file,--wrap=llvm_gcda_emit_function,--wrap=llvm_gcda_emit_arcs
	run
}

record_profile() {
	local dir=$1 clang=$2
	shift 2
	mkdir -p "$dir"
	cd "$dir"
	cp "$HERE"/{program,shared}.c "$HERE/program.h" .
	"$clang" -O1 -fno-pie -fprofile-instr-generate -fcoverage-mapping "$@" -c program.c
	"$clang" -O1 -fno-pie -fprofile-instr-generate -fcoverage-mapping "$@" -c shared.c
	run_profile "$clang" program.o shared.o
}

record_rust() {
	local dir=$1 clang=$2 rustc=$3
	mkdir -p "$dir"
	cd "$dir"
	cp "$HERE/program.rs" .
	"$rustc" --edition=2024 --crate-type=lib --emit=obj -Cinstrument-coverage -Cpanic=abort -Copt-level=1 \
		-Crelocation-model=static -o program.o program.rs
	run_profile "$clang" program.o
}

# run_profile CLANG OBJECT...: link, run and record, with CLANG's runtime.
run_profile() {
	local runtime
	runtime=$("$1" -print-resource-dir)/lib/linux/libclang_rt.profile-x86_64.a
	shift
	cp "$HERE/dump-profile.c" "$HERE/dump.h" .
	gcc -O1 -fno-pie -c dump-profile.c
	gcc -no-pie "$@" dump-profile.o "$runtime" -Wl,-u,__llvm_profile_runtime -o program
	LLVM_PROFILE_FILE=default.profraw ./program
	{ cat memory && file default.profraw first/default.profraw; } >record
	LLVM_PROFILE_FILE=default.profraw ./program 2
	file default.profraw second/default.profraw >>record
}

# run: run the program, and write the record.
run() {
	rm -f memory
	./program
	{ cat memory && files first; } >record
	mkdir first second
	mv -- *.gcda first
	./program 2
	files second >>record
	mv -- *.gcda second
	cp first/*.gcda .
	./program 2
	files both >>record
	rm ./*.gcda
}

# all_gcc: without options, and with every kind of counter that the version has.
all_gcc() {
	local n gcc kinds work
	for n in 9 10 11 12 13 14 15 16; do
		gcc=$BIN/gcc-$n
		kinds=-fprofile-values
		[ "$n" -lt 14 ] || kinds="$kinds -fcondition-coverage"
		[ "$n" -lt 15 ] || kinds="$kinds -fpath-coverage"
		work=$(mktemp -d)
		# shellcheck disable=SC2086
		(record_gcc "$work/gcc" "$gcc") && (record_gcc "$work/all" "$gcc" $kinds)
		cp "$work/gcc/record" "$HERE/recorded/gcc-$n"
		cp "$work/all/record" "$HERE/recorded/gcc-$n-kinds"
		rm -r "$work"
	done
}

all_llvm() {
	local n work
	for n in 16 17 18 19 21 22 23; do
		work=$(mktemp -d)
		(record_llvm "$work/llvm" "$BIN/clang-$n")
		cp "$work/llvm/record" "$HERE/recorded/llvm-$n"
		[ "$n" -lt 19 ] || {
			(record_profile "$work/profile" "$BIN/clang-$n" -fcoverage-mcdc)
			cp "$work/profile/record" "$HERE/recorded/profile-$n"
		}
		rm -r "$work"
	done
}

case ${1-} in
gcc) shift && record_gcc "$@" ;;
llvm) shift && record_llvm "$@" ;;
profile) shift && record_profile "$@" ;;
rust) shift && record_rust "$@" ;;
all)
	# shellcheck source=integration/lib.sh
	. "$HERE/../../../../integration/lib.sh"
	BIN=$CACHE/gcov/bin
	mkdir -p "$HERE/recorded"
	all_gcc
	all_llvm
	work=$(mktemp -d)
	(record_rust "$work/rust" "$BIN/clang-22" "${RUSTC:-rustc}")
	cp "$work/rust/record" "$HERE/recorded/profile-rust"
	rm -r "$work"
	;;
*) sed -n '4,20s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
