#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the selftests of the exporter of coverage on the running kernel, as root, and prints KTAP.
#
#	run.sh [CASE...]	CASE: the beginning of a case's name; without one all that do not ask for another command line
#
# The modules are in $GCOV_SELFTESTS, the engine's module (if it is one) is in $FERROTRACE_KDIR.
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
# shellcheck source=tools/testing/selftests/gcov/reports.sh
. "$here/reports.sh"
modules=${GCOV_SELFTESTS:-$FERROTRACE_KDIR/selftests-gcov/module}
gcov=$DEBUGFS/gcov
# The newest: it reads the files of older compilers.
llvm_cov=$(find /usr/bin /usr/lib/llvm-*/bin -name 'llvm-cov*' 2>/dev/null | sort -V | tail -n 1)
files() { "$(dirname "$modules")/files" "$@"; }

ours() { [ -e $gcov/vmlinux ]; }
# has_option NAME: the kernel has CONFIG_NAME=y.
has_option() { grep -qx "CONFIG_$1=y" "$FERROTRACE_KDIR/.config"; }
# The kernel's compiler is LLVM: GNU's gcov does not read its files.
is_llvm() { has_option CC_IS_CLANG; }
# not_llvm: sets $skip if it is.
not_llvm() {
	if is_llvm; then skip="of GCC only"; fi
	[ -z "$skip" ]
}
# The exporter is a module, and is under test. The kernel with mainline's engines has it only to share objects with the others.
modular() { [ -e "$MODULE_DIR/rust_gcov.ko" ] && ! has_option KPROBES_ENGINE_C; }

load() { insmod "$modules/$1.ko" "${@:2}"; }
unload() { rmmod "$@"; }
run() { echo "$2" >"/sys/module/$1/parameters/run"; }
of() { echo "$gcov$modules/$1.gcda"; }

# clean_up: nothing is loaded, and nothing is kept.
clean_up() {
	local name
	settle
	for name in gcov_one gcov_two gcov_fake gcov_llvm gcov_rust; do
		if [ -e /sys/module/$name ]; then rmmod $name; fi
	done
	save_counted
	echo 0 >$gcov/reset
}
after() { clean_up; }

# save_counted: for "make coverage", which would not see the code that the tests of this file
# execute.
save_counted() {
	if [ -n "${FERROTRACE_COUNTED:-}" ] && [ -e $gcov/vmlinux.profraw ]; then
		cat $gcov/vmlinux.profraw >"$(mktemp "$FERROTRACE_COUNTED/XXXXXX.profraw")"
	fi
}

# report FILE.gcda SOURCE: gcov's report, from where the compiler ran: it finds the source from there.
report() {
	local from=$modules
	case $1 in "$gcov$FERROTRACE_KDIR/lib/"*) from=$FERROTRACE_KDIR ;; *) ;; esac
	if is_llvm; then
		rm -rf "$work/llvm"
		mkdir "$work/llvm"
		cp "$1" "${1%.gcda}.gcno" "$work/llvm" && (cd "$from" && "$llvm_cov" gcov -t "$work/llvm/$(basename "$1")")
	else
		(cd "$from" && gcov -t -o "$(dirname "$1")" "$2")
	fi
}

# count_of MARK FILE.gcda: how often the line of same.c with a mark was executed.
count_of() { report "$2" same.c | sed -n "s/^ *\([^ :]*\)\*\{0,1\}: *[0-9]*:.*\/\* $1 \*\/.*/\1/p"; }

# counts FILE.gcda ODD EVEN: so often were they.
counts() {
	local odd even
	odd=$(count_of ODD "$1") even=$(count_of EVEN "$1")
	echo "odd $odd even $even, want $2 $3"
	[ "$odd" = "$2" ] && [ "$even" = "$3" ] && [ "$(count_of NEVER "$1")" = "#####" ]
}

# Of a file of the kernel.
kernel_lines() {
	local dir=$gcov$FERROTRACE_KDIR/lib
	report "$dir/sort.gcda" sort.c >"$work/sort" || return 1
	head -n 20 "$work/sort"
	[ "$(grep -c '^ *[1-9][0-9]*\*\{0,1\}: *[1-9]' "$work/sort")" -gt 20 ] && grep -q '^ *#####: *[1-9]' "$work/sort"
}

# gcov of this kernel's compiler says the same of the dump.
kernel_dump() {
	not_llvm || return 0
	gcov-dump -l "$gcov$FERROTRACE_KDIR/lib/sort.gcda" >"$work/dump" || return 1
	head "$work/dump"
	grep -q 'COUNTERS arcs' "$work/dump" && ! grep -q 'unknown\|truncated\|overflowed' "$work/dump"
}

lcov_works() {
	not_llvm || return 0
	if ! command -v lcov >/dev/null; then
		skip="no lcov"
		return 0
	fi
	load gcov_one && run gcov_one 10 && lcov -q -c -d "$gcov$modules" -o "$work/info" -b "$modules" || return 1
	grep -q '^SF:.*/same.c' "$work/info" && [ "$(grep -c '^DA:[0-9]*,5$' "$work/info")" -ge 2 ]
}

module_lines() {
	load gcov_one && run gcov_one 10 && counts "$(of same)" 5 5 && run gcov_one 3 && counts "$(of same)" 6 7
}

# Of objects of the kernel, and of modules.
links() {
	load gcov_one || return 1
	cmp "$gcov$FERROTRACE_KDIR/lib/sort.gcno" "$FERROTRACE_KDIR/lib/sort.gcno" || return 1
	cmp "$gcov$modules/same.gcno" "$modules/same.gcno"
}

reset_all() {
	load gcov_one && run gcov_one 10 && counts "$(of same)" 5 5 || return 1
	echo 0 >$gcov/reset && counts "$(of same)" "#####" "#####" || return 1
	run gcov_one 1 && [ "$(count_of EVEN "$(of same)")" = 1 ]
}

reset_one() {
	local other
	load gcov_one && run gcov_one 10 || return 1
	other=$(files values "$gcov$FERROTRACE_KDIR/lib/sort.gcda" | sort -n | tail -n 1)
	echo 0 >"$(of same)" && counts "$(of same)" "#####" "#####" || return 1
	[ "$(files values "$gcov$FERROTRACE_KDIR/lib/sort.gcda" | sort -n | tail -n 1)" -ge "$other" ] && [ "$other" -gt 0 ]
}

# Counters that were read before are not changed.
reset_while_read() {
	load gcov_fake counts=100000 && files gcda "$gcov/gcov_fake/fake.gcda" >"$work/want" || return 1
	{
		head -c 64 && echo 0 >$gcov/reset && cat
	} <"$gcov/gcov_fake/fake.gcda" >"$work/read"
	files gcda "$work/read" | cmp - "$work/want" || return 1
	! files values "$gcov/gcov_fake/fake.gcda" | grep -q '[1-9]'
}

# The open file is read again from the start.
reset_through_reader() {
	load gcov_fake || return 1
	exec 9<>"$gcov/gcov_fake/fake.gcda"
	cat <&9 >"$work/first"
	echo 0 >&9
	exec 9>&-
	files values "$work/first" | grep -q '[1-9]' || return 1
	! files values "$gcov/gcov_fake/fake.gcda" | grep -q '[1-9]'
}

persist() {
	load gcov_one && run gcov_one 10 && unload gcov_one && counts "$(of same)" 5 5 || return 1
	# and the lines that its exit has executed
	report "$(of one)" one.c | grep -q '1: .*EXIT' || return 1
	load gcov_one && counts "$(of same)" 5 5 && run gcov_one 4 && counts "$(of same)" 7 7 || return 1
	unload gcov_one && load gcov_one && run gcov_one 1 && counts "$(of same)" 7 8
}

persist_reset() {
	load gcov_one && run gcov_one 10 && unload gcov_one && [ -e "$(of same)" ] || return 1
	echo 0 >$gcov/reset
	[ ! -e "$(of same)" ] && [ ! -e "$(dirname "$(of same)")" ]
}

# persist_reset_one: in the background, as mainline waits for itself.
persist_reset_one() {
	local i
	load gcov_one && run gcov_one 10 && unload gcov_one && [ -e "$(of same)" ] || return 1
	echo 0 >"$(of same)" && [ ! -e "$(of same)" ] && [ -e "$(of one)" ]
}

# Of another build.
persist_other_build() {
	load gcov_fake && unload gcov_fake && load gcov_fake version=0x4233312a || return 1
	files gcda "$gcov/gcov_fake/fake.gcda" | head -n 1
	files gcda "$gcov/gcov_fake/fake.gcda" | grep -q "version 4233312a"
}

# The same build, by its stamp, with other functions: the kept counters are dropped, and all others
# can be read.
persist_other_functions() {
	load gcov_fake && unload gcov_fake && load gcov_fake counts=10 || return 1
	files gcda "$gcov/gcov_fake/fake.gcda" && cat $gcov/vmlinux >"$work/dump" && files names "$work/dump" | grep -q fake.gcda || return 1
	dmesg | grep 'another build: kept counters are dropped' && unload gcov_fake
}

two_modules() {
	load gcov_one && load gcov_two && run gcov_one 10 && run gcov_two 20 && counts "$(of same)" 15 15 || return 1
	unload gcov_one && counts "$(of same)" 15 15 && run gcov_two 2 && counts "$(of same)" 16 16 || return 1
	unload gcov_two && counts "$(of same)" 16 16
}

# Two different builds: the first is shown, and the other after the first is unloaded.
two_builds() {
	load gcov_fake objects=2 wrong=stamp || return 1
	files gcda "$gcov/gcov_fake/fake.gcda"
	[ "$(files values "$gcov/gcov_fake/fake.gcda" | head -n 1)" = 10 ]
}

names() {
	local name at
	for name in "/gcov fake/a b.gcda" "/gcov_fake/#%;&'.gcda" "/gcov_fake/./x//../y/z.gcda" "/gcov_fake/ü.gcda" "/gcov_fake/.tmp_t.gcda" /gcov_fake/a-v4.0.gcda \
		"/gcov_fake/$(printf 'n%.0s' {1..200}).gcda" "gcov_fake/relative.gcda" "/gcov_fake/no_extension" '/gcov_fake/a=b,c.gcda'; do
		load gcov_fake "name=\"$name\"" || return 1
		at=$(realpath -ms "$gcov/$name")
		at=${at/.tmp_/}
		[ -f "$at" ] || { echo "no $at"; find $gcov; return 1; }
		[ "$(files values "$at" | head -n 1)" = 10 ] || return 1
		[ -h "${at%.gcda}.gcno" ] || { echo "no link for $at"; return 1; }
		unload gcov_fake && echo 0 >$gcov/reset && [ ! -e "$at" ] || return 1
	done
}

# Reading a directory continues where it stopped, and its entries exist.
listed() {
	load gcov_one && load gcov_two || return 1
	files seeks $gcov && files seeks "$gcov$modules" && find $gcov -exec stat -c %n {} + >/dev/null
}

# Entries that the kernel may drop return unchanged, also while they are in use.
dropped() {
	local dir=$gcov$modules
	load gcov_one && run gcov_one 10 && chmod 0640 "$(of same)" && chown 1:2 "$(of same)" && chmod 0700 "$dir" || return 1
	(
		cd "$dir" && exec 9<same.gcda || exit 1
		sync && echo 3 >/proc/sys/vm/drop_caches
		[ "$(ls)" = "$(ls "$dir")" ] && cmp same.gcda - <&9 && cmp same.gcda "$(of same)"
	) || return 1
	sync && echo 3 >/proc/sys/vm/drop_caches
	stat -c '%a %u %g %F' "$(of same)" "$(of one)" "$dir" "${dir}/same.gcno" | tee "$work/stat"
	printf '%s\n' "640 1 2 regular empty file" "600 0 0 regular empty file" "700 0 0 directory" "777 0 0 symbolic link" | cmp - "$work/stat" && counts "$(of same)" 5 5
}

# A directory that a process is in, and an open file: the module is unloaded and loaded, and the
# engine is unloaded.
gone_while_in_use() {
	local dir=$gcov$modules
	load gcov_one && run gcov_one 10 || return 1
	(
		cd "$dir" && exec 9<same.gcda || exit 1
		unload gcov_one && echo 0 >$gcov/reset && ! cat same.gcda && ! [ -e "$(of same)" ] && [ -z "$(ls)" ] || exit 1
		load gcov_one && run gcov_one 4 && counts "$(of same)" 2 2 && ! cat <&9
	) && counts "$(of same)" 2 2 || return 1
	# A directory that stays, as another module has files there.
	load gcov_two && (
		cd "$dir" && cat same.gcda two.gcda >/dev/null && unload gcov_one && echo 0 >$gcov/reset || exit 1
		for _ in 1 2; do
			load gcov_one && cat one.gcda >/dev/null && unload gcov_one && echo 0 >$gcov/reset && ! cat one.gcda || exit 1
		done
	)
}

# A mount on a directory of another object stays when an object is removed, and is unmounted when
# its own directory is.
mounted() {
	local there=$gcov$FERROTRACE_KDIR/lib gone=$gcov/gcov_fake status=1
	load gcov_fake && stat "$there/sort.gcda" >/dev/null && mount -t tmpfs none "$there" && touch "$there/mark" &&
		mount -t tmpfs none "$gone" && touch "$gone/mark" || return 1
	unload gcov_fake && echo 0 >$gcov/reset && [ -e "$there/mark" ] && ! grep -q " $gone " /proc/mounts && load gcov_fake &&
		[ -e "$gone/fake.gcda" ] && status=0
	umount "$there" && [ $status = 0 ] && [ -e "$there/sort.gcda" ]
}

# The root has no parent.
names_above() {
	load gcov_fake name=../../above.gcda && [ -f "$gcov/above.gcda" ]
}

# Counters that are all zero are left out.
zeros() {
	local all
	not_llvm || return 0
	load gcov_one || return 1
	echo 0 >"$(of same)"
	cat "$(of same)" >"$work/file"
	all=$(files values "$work/file" | wc -l)
	echo "$(stat -c %s "$work/file") bytes, $all counters, $(files omitted "$work/file") sets left out"
	[ "$(stat -c %s "$work/file")" -lt $((all * 8 + 100)) ] && [ "$(files omitted "$work/file")" -gt 2 ] && gcov-dump -l "$(of same)" >"$work/dump" && cat "$work/dump" &&
		grep -q 'COUNTERS arcs' "$work/dump"
}

# Bits are merged by OR, of times the first counts: 5 and 3, 9 and 7.
merge_kinds() {
	load gcov_fake objects=2 other_kinds=1 || return 1
	files gcda "$gcov/gcov_fake/fake.gcda" | tee "$work/gcda"
	grep -qx '1 0 21 40 0 2199023255552' "$work/gcda" && grep -qx '1 6 7' "$work/gcda" && grep -qx '1 7 7' "$work/gcda"
}

null_function() {
	load gcov_fake wrong=null || return 1
	files gcda "$gcov/gcov_fake/fake.gcda" | tee "$work/gcda"
	grep -q '^1 0 10' "$work/gcda" && grep -q '^3 0' "$work/gcda" && ! grep -q '^2 0' "$work/gcda" && unload gcov_fake &&
		grep -q . "$gcov/gcov_fake/fake.gcda"
}

# The linker keeps one copy of a function in several objects.
function_of_another() {
	load gcov_fake objects=2 wrong=other || return 1
	files gcda "$gcov/gcov_fake/fake.gcda" | tee "$work/gcda"
	! grep -q '^2 0' "$work/gcda" && grep -q '^1 0 21' "$work/gcda"
}

# Objects of all compilers.
versions() {
	local version
	for version in A83 A93 B02 B12 B22 B32 B42 B51 B61; do
		load gcov_fake "version=0x$(printf '%s*' $version | od -A n -t x1 | tr -d ' ')" || return 1
		files gcda "$gcov/gcov_fake/fake.gcda" | tee "$work/gcda"
		grep -qx '1 0 10 20 0 1099511627776' "$work/gcda" && [ "$(wc -l <"$work/gcda")" = 4 ] || return 1
		unload gcov_fake && echo 0 >$gcov/reset || return 1
	done
}

# refuses WHAT TEXT [PARAMETERS...]: a malformed object is not followed, and the log has the reason.
refuses() {
	local text=$1 left
	shift
	dmesg -C
	load gcov_fake "$@" || return 1
	left=$(find $gcov -name 'fake.*')
	dmesg | tee "$work/said"
	# as expected: nothing else is in the log
	dmesg -C
	unload gcov_fake && [ -z "$left" ] && grep -q "rust_gcov: .*is refused: .*$text" "$work/said"
}

refused_objects() {
	refuses "unknown version" version=0x43392a2a && refuses "unknown version" version=0 &&
		refuses "the counters of function 1" wrong=counters && refuses "the counters of function 1" wrong=readonly && refuses "function 1" wrong=count && refuses "key" wrong=key &&
		refuses "merge function" wrong=merge && refuses "functions" wrong=functions && refuses "functions" wrong=table &&
		refuses "name" wrong=name
}

# 40 times 1.6 MB, twice, if it does.
open_copies_nothing() {
	local grown
	load gcov_fake counts=200000 && grown=$(files open "$gcov/gcov_fake/fake.gcda" 40) || return 1
	echo "$grown KB"
	[ "$grown" -lt 10000 ]
}

# Read while they grow: as it would be if each had been read by itself.
grows_while_read() {
	local file=$gcov/gcov_fake/fake.gcda
	load gcov_fake counts=20000 grow=1 || return 1
	files grown "$file" "$file" "$file" "$file" "$file" "$file"
}

# A file that is open while its module is unloaded.
unload_while_open() {
	load gcov_one && run gcov_one 10 || return 1
	exec 9<"$(of same)"
	exec 8<"$(of same)"
	head -c 16 <&8 >"$work/begun"
	unload gcov_one && cat <&9 >"$work/read" && cat <&8 >>"$work/begun"
	exec 8<&- 9<&-
	cmp "$work/read" "$work/begun" && [ "$(files values "$work/read" | sort -n | tail -n 1)" -ge 5 ]
}

# in_background CMD...: again and again, until settle.
in_background() {
	touch "$work/busy"
	while [ -e "$work/busy" ]; do "$@"; done >/dev/null 2>&1 &
}

settle() {
	rm -f "$work/busy"
	wait
}

read_all() { find $gcov -name '*.gcda' -exec cat {} +; }
reset_often() { echo 0 >$gcov/reset; }

# under_load ROUNDS: modules are loaded and unloaded while files are read and reset.
under_load() {
	local i rounds
	rounds=$(storm_rounds "$1")
	in_background read_all
	in_background cat "$(of same)"
	in_background reset_often
	if ours; then in_background cat $gcov/vmlinux; fi
	for ((i = 0; i < rounds; i++)); do
		if ! { load gcov_one && load gcov_two && run gcov_one 10 && unload gcov_one && load gcov_one; }; then break; fi
		unload gcov_two gcov_one || break
	done
	settle
	# It still works.
	[ "$i" = "$rounds" ] && reset_often && module_lines
}

# The dump has the same counters as the files.
dump_is_the_files() {
	local name
	load gcov_one && run gcov_one 10 && load gcov_fake other_kinds=1 || return 1
	cat $gcov/vmlinux >"$work/dump" && files names "$work/dump" | tee "$work/names"
	[ "$(sort "$work/names" | uniq -d | wc -l)" = 0 ] || return 1
	[ "$(wc -l <"$work/names")" = "$(find $gcov -name '*.gcda' -o -name '*.profraw' | wc -l)" ] || return 1
	for name in "$modules/same.gcda" "$modules/one.gcda" /gcov_fake/fake.gcda; do
		files counters "$work/dump" "$name" >"$work/counters" || return 1
		files values "$gcov$name" | cmp - "$work/counters" || return 1
	done
	# from any place, and in small pieces
	dd if=$gcov/vmlinux bs=7 status=none | wc -c | grep -qx "$(stat -c %s "$work/dump")" || return 1
	unload gcov_one && cat $gcov/vmlinux >"$work/dump" && files counters "$work/dump" "$modules/same.gcda" >"$work/counters" &&
		files values "$(of same)" | cmp - "$work/counters"
}

dump_resets() {
	load gcov_one && run gcov_one 10 && echo 0 >$gcov/vmlinux && counts "$(of same)" "#####" "#####"
}

# The command: code executed since a dump, and no other; files for gcov; a reset of one object.
tool_works() {
	not_llvm || return 0
	if [ -z "${FERROTRACE:-}" ]; then
		skip="no ferrotrace command"
		return 0
	fi
	load gcov_one && run gcov_one 4 && "$FERROTRACE" cov dump -f -o "$work/before" && run gcov_one 10 || return 1
	"$FERROTRACE" cov report --since "$work/before" --only "$modules/same" --force --lcov "$work/info" || return 1
	cat "$work/info"
	[ "$(grep -c '^DA:[0-9]*,5$' "$work/info")" -ge 2 ] && grep -q '^SF:.*/same.c' "$work/info" || return 1
	"$FERROTRACE" cov dump --gcda "$work/tree" --only "$modules/same" || return 1
	files values "$(find "$work/tree" -name same.gcda)" >"$work/values" && files values "$(of same)" | cmp - "$work/values" || return 1
	"$FERROTRACE" cov report --only "$FERROTRACE_KDIR/lib/sort" --json | tee "$work/json" | grep -q '"objects": *1\b' || return 1
	"$FERROTRACE" cov reset "$modules/same" && counts "$(of same)" "#####" "#####"
}

# Objects of LLVM.
llvm() {
	if ! [ -e "$modules/gcov_llvm.ko" ] || [ -z "$llvm_cov" ]; then
		skip="no clang or llvm-cov"
		return 0
	fi
	load gcov_llvm && run gcov_llvm 10 || return 1
	find $gcov -name 'llvm*'
	llvm_counts 5 5 && run gcov_llvm 1 && llvm_counts 5 6 || return 1
	unload gcov_llvm && llvm_counts 5 6 && load gcov_llvm && run gcov_llvm 2 && llvm_counts 6 7 || return 1
	echo 0 >"$(of llvm)" && run gcov_llvm 1 && llvm_counts "#####" 1
}

# An object of LLVM that is loaded while the engine is unloaded is the next engine's.
llvm_while_leaving() {
	local i
	[ -e "$modules/gcov_llvm.ko" ] || { skip="no clang" && return 0; }
	for ((i = 0; i < 12; i++)); do
		rmmod rust_gcov &
		sleep "0.00$((i % 6))"
		load gcov_llvm && wait $! || return 1
		load_ours rust_gcov
		[ -e "$(of llvm)" ] || { echo "no file in round $i" && return 1; }
		unload gcov_llvm && echo 0 >$gcov/reset || return 1
	done
}

# llvm_counts ODD EVEN: by llvm-cov.
llvm_counts() {
	local lines
	cp "$(of llvm)" "$work/llvm.gcda" && cp "$gcov$modules/llvm.gcno" "$work/llvm.gcno" || return 1
	lines=$(cd "$work" && "$llvm_cov" gcov -t llvm.gcda) || return 1
	echo "$lines" | grep 'ODD\|EVEN'
	echo "$lines" | grep -q "^ *$1: .*/\* ODD" && echo "$lines" | grep -q "^ *$2: .*/\* EVEN"
}

# Rust code: LLVM counts its regions.
counts_rust() { has_option RUST_COVERAGE && ! has_option KPROBES_ENGINE_C; }
# rust_tools: sets $skip if this kernel counts none, or without a tool that reads the counters.
rust_tools() {
	if ! counts_rust; then
		skip="no counters in Rust code"
	elif ! [ -x "$(dirname "$modules")/llvm-profdata" ]; then
		skip="no llvm-profdata"
	fi
	[ -z "$skip" ]
}
# rust_lines PROFILE OBJECT FILE: llvm-cov's report.
rust_lines() {
	cat "$1" >"$work/rust.profraw" &&
		"$(dirname "$modules")/llvm-profdata" merge "$work/rust.profraw" -o "$work/rust.profdata" &&
		"$(dirname "$modules")/llvm-cov" show --use-color=0 -instr-profile "$work/rust.profdata" "$2" "$3"
}
# rust_counts ODD EVEN
rust_counts() {
	local lines mark want
	rust_lines $gcov/gcov_rust.profraw "$modules/gcov_rust.ko" "$here/module/regions.rs" >"$work/lines" || return 1
	for want in "ODD $1" "EVEN $2" "NEVER 0"; do
		read -r mark want <<<"$want"
		grep -E "^ *[0-9]+\\| *$want\\|.*// $mark" "$work/lines" || { cat "$work/lines" && return 1; }
	done
}

rust_module() {
	rust_tools || return 0
	load gcov_rust && find $gcov -exec stat -c %n {} + >/dev/null && [ ! -h $gcov/gcov_rust.gcno ] || return 1
	run gcov_rust 11 && rust_counts 5 6 && run gcov_rust 1 && rust_counts 5 7 || return 1
	# writing resets it
	echo 0 >$gcov/gcov_rust.profraw && rust_counts 0 0 && run gcov_rust 3 && rust_counts 1 2 || return 1
	echo 0 >$gcov/reset && rust_counts 0 0
}

# Also the counters of its exit.
rust_kept() {
	rust_tools || return 0
	load gcov_rust && run gcov_rust 10 && unload gcov_rust && rust_counts 6 6 || return 1
	load gcov_rust && rust_counts 6 6 && run gcov_rust 1 && rust_counts 6 7 && unload gcov_rust && rust_counts 7 8 || return 1
	echo 0 >$gcov/gcov_rust.profraw && ! [ -e $gcov/gcov_rust.profraw ]
}

rust_dump() {
	rust_tools || return 0
	load gcov_rust && run gcov_rust 1000 && cat $gcov/vmlinux >"$work/dump" || return 1
	files counters "$work/dump" gcov_rust.profraw >"$work/counters" || return 1
	cat "$work/counters"
	# Of the file, in order: after a header of 128 bytes and the records of 64.
	cat $gcov/gcov_rust.profraw >"$work/rust.profraw"
	local -i records counters
	read -r records <<<"$(od -An -t u8 -j 24 -N 8 "$work/rust.profraw")"
	counters=$(wc -l <"$work/counters")
	od -An -v -w8 -t u8 -j $((128 + records * 64)) -N $((counters * 8)) "$work/rust.profraw" | tr -d ' ' | cmp - "$work/counters" &&
		grep -qx 500 "$work/counters"
}

# Code compiled by GCC, clang and rustc, in one kernel: its own tool reads each.
mixed() {
	rust_tools && not_llvm || return 0
	[ -e "$modules/gcov_llvm.ko" ] || { skip="no clang" && return 0; }
	load gcov_one && load gcov_llvm && load gcov_rust || return 1
	run gcov_one 10 && run gcov_llvm 20 && run gcov_rust 30 || return 1
	counts "$(of same)" 5 5 && llvm_counts 10 10 && rust_counts 15 15 || return 1
	report "$(of rust_module)" rust_module.c | grep -E '^ *1\*?: .*/\* RUN' || return 1
	unload gcov_llvm gcov_rust && counts "$(of same)" 5 5 && llvm_counts 10 10 && rust_counts 16 16
}

# The command: code executed since a dump.
rust_tool() {
	local line tools
	rust_tools || return 0
	[ -n "${FERROTRACE:-}" ] || { skip="no ferrotrace command" && return 0; }
	tools=$(dirname "$modules")
	load gcov_rust && run gcov_rust 3 && "$FERROTRACE" cov dump -f -o "$work/before" && run gcov_rust 10 || return 1
	"$FERROTRACE" cov report --since "$work/before" --only gcov_rust --objdir "$tools" --gcov "$tools/llvm-cov" --force --lcov "$work/info" ||
		return 1
	cat "$work/info"
	for line in ODD EVEN; do
		grep -qx "DA:$(grep -n "// $line" "$here/module/regions.rs" | cut -d : -f 1),5" "$work/info" || return 1
	done
	grep -q '^FN:[0-9]*,regions::odd$' "$work/info" && grep -qx 'FNDA:5,regions::odd' "$work/info" || return 1
	"$FERROTRACE" cov dump --gcda "$work/files" --only gcov_rust --objdir "$tools" &&
		"$tools/llvm-profdata" merge "$work/files/gcov_rust.profraw" -o "$work/rust.profdata" || return 1
	"$FERROTRACE" cov reset gcov_rust && rust_counts 0 0
}

# resets_opened: how often a function of the exporter was called.
resets_opened() {
	cat $gcov/vmlinux.profraw >"$work/image.profraw" &&
		"$(dirname "$modules")/llvm-profdata" merge "$work/image.profraw" -o "$work/image.profdata" &&
		"$(dirname "$modules")/llvm-cov" export -format=lcov -instr-profile "$work/image.profdata" "$FERROTRACE_KDIR/vmlinux" 2>"$work/said" |
		sed -n 's/^FNDA:\([0-9]*\),.*5nodes.*4Open5reset$/\1/p'
}
# Counters in the image.
rust_image() {
	rust_tools || return 0
	if ! has_option RUST_COVERAGE_KERNEL; then
		skip="no counters in the image"
		return 0
	fi
	local before after
	before=$(resets_opened) && cat $gcov/reset $gcov/reset $gcov/reset && after=$(resets_opened) || return 1
	echo "$before $after"
	[ "$after" = $((before + 3)) ]
}

# The engine is unloaded and loaded: counters stay.
engine_goes() {
	load gcov_one && run gcov_one 10 && counts "$(of same)" 5 5 && rmmod rust_gcov || return 1
	! ours && counts "$(of same)" 5 5 && run gcov_one 2 && load gcov_two && run gcov_two 2 && counts "$(of same)" 7 7 || return 1
	load_ours rust_gcov
	ours && counts "$(of same)" 7 7 && unload gcov_one && rmmod rust_gcov || return 1
	# Counters that the engine kept are dropped with it.
	! ours && counts "$(of same)" 1 1 && unload gcov_two && counts "$(of same)" 1 1 || return 1
	load_ours rust_gcov
	# but mainline's kept counters are not
	ours && counts "$(of same)" 1 1 && load gcov_two && run gcov_two 2 && counts "$(of same)" 2 2
}

modules_come_and_go() {
	load gcov_one
	load gcov_two
	unload gcov_one gcov_two
}

read_everything() {
	read_all
	cat $gcov/vmlinux
}

# It is loaded and unloaded while modules are, and files are read.
engine_storm() {
	local i rounds
	rounds=$(storm_rounds 15)
	in_background modules_come_and_go
	in_background read_everything
	for ((i = 0; i < rounds; i++)); do
		# An open file keeps it loaded.
		until rmmod rust_gcov 2>/dev/null; do :; done
		load_ours rust_gcov
	done
	settle
	echo 0 >$gcov/reset
	module_lines
}

# The kernel's command line, or the engine's parameter, says that nothing is kept.
no_persist() {
	load gcov_one && run gcov_one 10 && counts "$(of same)" 5 5 || return 1
	exec 9<"$(of same)"
	exec 8<"$(of same)"
	head -c 16 <&8 >"$work/begun"
	unload gcov_one || return 1
	[ ! -e "$(of same)" ] && [ ! -e "$gcov$modules" ] || return 1
	if ours; then
		# A file that was read before continues; one that was not is empty.
		cat <&8 >>"$work/begun" && [ "$(files values "$work/begun" | sort -n | tail -n 1)" -ge 5 ] || return 1
		! cat <&9 || return 1
	fi
	exec 8<&- 9<&-
	load gcov_one && run gcov_one 2 && counts "$(of same)" 1 1
}

persist_parameter() {
	rmmod rust_gcov && insmod "$MODULE_DIR/rust_gcov.ko" persist=0 && no_persist && rmmod gcov_one && rmmod rust_gcov || return 1
	load_ours rust_gcov
}

# selected NAME: succeeds if the case was asked for.
selected() {
	local want
	[ ${#wanted[@]} != 0 ] || return 0
	for want in "${wanted[@]}"; do
		case $1 in "$want"*) return 0 ;; *) ;; esac
	done
	return 1
}

# some NAME CMD...: a check, if it was asked for.
some() {
	if selected "$1"; then check "$@"; fi
}

# better NAME REASON CMD...: a check of ours, which mainline does not pass.
better() {
	if ! selected "$1"; then return; fi
	if ours; then check "$1" "${@:3}"; else skipped "$1" "mainline: $2"; fi
}

wanted=("$@")
echo "TAP version 13"
if modular; then load_ours rust_gcov; fi
[ -e $gcov/reset ] || bail "no exporter"
if grep -q gcov_persist=0 /proc/cmdline; then
	some persist.not_kept no_persist
	finish
	exit
fi
some lines.kernel kernel_lines
some lines.dump kernel_dump
some lines.lcov lcov_works
some lines.module module_lines
some reports.modules reports_of_modules
some reports.gather_on_test gathers
some tree.links links
some tree.names names
some tree.dropped dropped
better tree.gone_while_in_use "goes on with what it copied" gone_while_in_use
some tree.listed listed
some tree.mounted mounted
better tree.names_above "has no file for it" names_above
some reset.all reset_all
some reset.one reset_one
some reset.while_read reset_while_read
some reset.through_reader reset_through_reader
some persist.kept persist
some persist.reset persist_reset
better persist.reset_one "waits for itself" persist_reset_one
better persist.other_build "reads it as its own" persist_other_build
better persist.other_functions "reads past them" persist_other_functions
some same.two_modules two_modules
some same.two_builds two_builds
better format.zeros "writes all zeros" zeros
better format.kinds "adds them up" merge_kinds
better format.null_function "follows it" null_function
better format.function_of_another "takes its counters" function_of_another
better format.versions "knows one" versions
better format.llvm "cannot load it" llvm
better refuse.objects "follows them" refused_objects
better open.copies_nothing "copies all of it twice" open_copies_nothing
some open.grows_while_read grows_while_read
some open.unload_while_open unload_while_open
some load.under_load under_load 10
# Takes minutes: only if asked for.
if [ ${#wanted[@]} != 0 ]; then some load.hundred_rounds under_load 100; fi
better dump.is_the_files "has none" dump_is_the_files
better dump.resets "has none" dump_resets
better dump.tool "has none" tool_works
better rust.module "knows none" rust_module
better rust.kept "knows none" rust_kept
better rust.dump "has none" rust_dump
better rust.tool "has none" rust_tool
better rust.image "knows none" rust_image
better format.mixed "knows one" mixed
if modular; then
	some reports.same_of_modules same_reports_of_modules
	some reports.same_of_kernel same_reports_of_kernel
	some engine.goes engine_goes
	some engine.storm engine_storm
	some engine.llvm_while_leaving llvm_while_leaving
	some engine.persist_parameter persist_parameter
fi
finish
