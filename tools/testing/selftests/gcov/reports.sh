# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For run.sh: the reports of gcov, lcov, genhtml and gcovr, all unmodified, of the same counters
# when they are read through kernel/gcov/ and through ours.
#
# Functions are called by check().
# shellcheck disable=SC2154,SC2317,SC2329

# missing_tool: sets $skip if a tool is not installed.
missing_tool() {
	local tool
	for tool in lcov genhtml gcovr; do
		command -v $tool >/dev/null || skip="no $tool"
	done
	[ -n "$skip" ]
}

# counters DIR: the counters of all files there.
counters() {
	local file
	for file in "$gcov$1"/*.gcda; do
		echo "${file##*/}"
		files values "$file"
	done
}

# reports DIR OUT: writes the tools' reports of the files in a directory of the kernel's build to
# OUT; and the counters, read before and after. $from is the directory in which the compiler ran.
reports() {
	local dir=$gcov$1 out=$2 file
	mkdir -p "$out" && counters "$1" >"$out/counters" || return 1
	(
		cd "$from" || exit 1
		for file in "$dir"/*.gcda; do
			gcov -b -c -t -o "$dir" "${file##*/}" >"$out/${file##*/}.gcov" || exit 1
		done
		# Records in the order of the directory, and equal rows in the order of a hash: make
		# both the same each time.
		export PERL_HASH_SEED=0
		lcov -q -c --rc lcov_branch_coverage=1 -d "$dir" -b "$from" -o "$out/lcov" || exit 1
		tr '\n' '\t' <"$out/lcov" | sed 's/end_of_record\t/&\n/g' | sort | tr -d '\n' | tr '\t' '\n' >"$out/info"
		rm "$out/lcov"
		genhtml -q --branch-coverage -o "$out/html" "$out/info" || exit 1
		for format in txt json-pretty csv; do
			gcovr -r "$from" -f '.*' --object-directory "$dir" "$dir" --$format -o "$out/gcovr.$format" || exit 1
		done
	) || return 1
	# When it was made.
	sed -i 's/20[0-9-]* [0-9:]\{8\}//' "$out"/html/*.html "$out"/html/*/*.html
	counters "$1" | cmp - "$out/counters"
}

# show: prints one report, to check that it is not empty.
show() {
	cat "$1/info" "$1/gcovr.txt"
	grep -q '^DA:[0-9]*,[1-9]' "$1/info" && grep -q '^BRDA:.*,[1-9]' "$1/info" && grep -q '"count": [1-9]' "$1/gcovr.json-pretty" &&
		grep -q '^ *[1-9][0-9]*: ' "$1"/*.gcov && grep -q 'lineCov' -r "$1/html"
}

# count_in_modules: counters of modules: kept and loaded ones, of one module and of two.
count_in_modules() {
	load gcov_one && run gcov_one 10 && unload gcov_one && load gcov_one && run gcov_one 3 && load gcov_two && run gcov_two 4
}

# Of modules. The suite also compares them with the reports of another kernel.
reports_of_modules() {
	local from=$modules
	not_llvm && ! missing_tool || return 0
	count_in_modules && reports "$modules" "$work/reports" && show "$work/reports" || return 1
	if [ -n "${FERROTRACE_OUT:-}" ]; then
		cp -r "$work/reports" "$FERROTRACE_OUT/reports" &&
			find "$FERROTRACE_OUT/reports" -type f -exec sed -i "s#$FERROTRACE_KDIR#KDIR#g; s#${FERROTRACE_KDIR##*/}#KDIR#g" {} +
	fi
}

# The same of both exporters in one kernel.
same_reports_of_modules() {
	local from=$modules
	not_llvm && ! missing_tool || return 0
	rmmod rust_gcov && count_in_modules && reports "$modules" "$work/theirs" && show "$work/theirs" || return 1
	load_ours rust_gcov
	ours && reports "$modules" "$work/ours" && diff -r "$work/theirs" "$work/ours" || return 1
	# They would differ.
	run gcov_one 1 && reports "$modules" "$work/more" && ! diff -r "$work/theirs" "$work/more" >/dev/null
}

# Of the kernel's own files: their counters may change at any time, so it repeats until they have
# not. A loaded module has tables sorted.
same_reports_of_kernel() {
	local from=$FERROTRACE_KDIR try ours theirs
	not_llvm && ! missing_tool || return 0
	load gcov_one || return 1
	for try in 1 2 3 4 5; do
		ours=$work/ours.$try theirs=$work/theirs.$try
		reports "$from/lib" "$ours"
		rmmod rust_gcov && ! ours || return 1
		reports "$from/lib" "$theirs"
		load_ours rust_gcov
		cmp "$ours/counters" "$theirs/counters" && break
	done
	show "$ours" && diff -r "$theirs" "$ours"
}

# gather_on_test.sh, as the kernel's documentation has it.
gathers() {
	local rst=$FERROTRACE_KDIR/source/Documentation/dev-tools/gcov.rst file
	not_llvm || return 0
	sed -n '/^Appendix B: gather_on_test.sh/,$ s/^    //p' "$rst" >"$work/gather_on_test.sh"
	grep -q '^GCDA=/sys/kernel/debug/gcov' "$work/gather_on_test.sh" || return 1
	count_in_modules && bash -e "$work/gather_on_test.sh" "$work/gathered.tar.gz" && mkdir "$work/gathered" &&
		tar xzf "$work/gathered.tar.gz" -C "$work/gathered" || return 1
	# There is all of it, and gcov says the same.
	[ "$(cd "$work/gathered$gcov" && find . -name '*.gcda' -o -name '*.gcno' | sort)" = "$(cd "$gcov" && find . -name '*.gcda' -o -name '*.gcno' | sort)" ] || return 1
	for file in one two same; do
		cmp "$(of $file)" "$work/gathered$(of $file)" && cmp "$modules/$file.gcno" "$work/gathered$gcov$modules/$file.gcno" || return 1
	done
	(cd "$modules" && gcov -t -o "$work/gathered$gcov$modules" same.gcda) >"$work/gathered.gcov" && report "$(of same)" same.c >"$work/read.gcov" || return 1
	grep -v '0:\(Graph\|Data\):' "$work/read.gcov" >"$work/want.gcov"
	grep -v '0:\(Graph\|Data\):' "$work/gathered.gcov" | diff "$work/want.gcov" - && grep -q '^ *[1-9]' "$work/want.gcov"
}
