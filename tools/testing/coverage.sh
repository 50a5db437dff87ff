#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make coverage": runs KUnit and the selftests on the variant coverage, where all of Ferrotrace
# counts executed lines. Reports the lines executed by all its guests together, and by the tests of
# the pure logic on the host. Writes to build/coverage:
#
#   coverage.info   an lcov tracefile
#   html/           genhtml's pages of it
#   summary         lines by directory, worst first, which are printed as well
#
# RESULTS=1 writes the summary to Documentation/results/coverage.txt as well. SUITES="..." runs only
# some suites. Counts of a guest before a panic or a reset of its counters are lost. Reports even if
# a test fails, and then fails.
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"
# shellcheck source=tools/testing/results.sh
. "$(dirname "$0")/results.sh"

OUT=$REPO/build/coverage
SUITES=${SUITES:-kunit selftests kprobes-clients probes functions soundness ferrotrace}
VARIANT=coverage

# rust: LLVM's counts, of the image and all our modules.
rust() {
	local objects=() object
	# Of tests and samples as well.
	"$profdata" merge -sparse "$OUT"/guests/*/*.profraw -o "$OUT/rust.profdata"
	for object in "$KDIR"/kernel/ferrotrace/*.ko "$KDIR"/kernel/ferrotrace/*/*.ko; do
		# Modules that no guest has loaded have no line executed, and count.
		if readelf -SW "$object" | grep -q ' __llvm_covmap '; then objects+=(-object "$object"); fi
	done
	"$cov" export -format=lcov -instr-profile "$OUT/rust.profdata" "$KDIR/vmlinux" "${objects[@]}" >"$OUT/rust.all.info"
}

# core: lines that the tests of the pure logic execute on the host, with counters of the same rustc.
core() {
	local package program packages=() sources=() objects=()
	for package in $(pure_packages); do
		packages+=(--package "$(package_name "$package")")
		sources+=("$REPO/$package/*")
	done
	CARGO_TARGET_DIR=$CACHE/target-coverage RUSTFLAGS=-Cinstrument-coverage LLVM_PROFILE_FILE=$OUT/core/%p-%m.profraw \
		RUSTC=$(find_rustc) "$(locked_cargo)" test --locked --lib --manifest-path "$REPO/Cargo.toml" "${packages[@]}" --message-format=json >"$OUT/core.json" || status=$?
	while read -r program; do objects+=(-object "$program"); done < <(
		sed -n 's/.*"reason":"compiler-artifact".*"executable":"\([^"]*\)".*/\1/p' "$OUT/core.json"
	)
	"$profdata" merge -sparse "$OUT"/core/*.profraw -o "$OUT/core.profdata"
	"$cov" export -format=lcov -instr-profile "$OUT/core.profdata" "${objects[@]}" >"$OUT/core.all.info"
	# Not of the tests themselves.
	lcov -q -e "$OUT/core.all.info" "${sources[@]}" -o "$OUT/core.tests.info"
	lcov -q -r "$OUT/core.tests.info" '*/tests/*' '*/tests.rs' -o "$OUT/core.info"
	sed -i "s,^SF:$REPO/,SF:," "$OUT/core.info"
}

# c: GCC's counts in our own files, all guests' together.
c() {
	local guest part sum=$OUT/c next=$OUT/c.next
	rm -rf "$sum"
	for guest in "$OUT"/guests/*; do
		guest=$guest$KDIR/kernel/ferrotrace
		[ -d "$guest" ] || continue
		if ! [ -d "$sum" ]; then
			cp -r "$guest" "$sum"
			continue
		fi
		rm -rf "$next"
		gcov-tool merge "$sum" "$guest" -o "$next" >/dev/null
		for part in "$sum" "$guest"; do (cd "$part" && find . -name '*.gcno' -exec cp -P --parents {} "$next" \;); done
		rm -rf "$sum"
		mv "$next" "$sum"
	done
	lcov -q -c -d "$sum" -b "$KDIR" -o "$OUT/c.all.info"
}

# summary: a line for each directory that has code: covered, of, share.
summary() {
	awk -F '[:,]' '
		/^SF:/ { dir = $2; sub(/\/[^\/]*$/, "", dir); split(dir, part, "/") ; top = part[1]
			if (top == "rust" || top == "kprobes" || top == "ftrace_tramp" || top == "relay" || top == "clients" || part[2] == "core") top = top "/" (part[2] == "" ? "." : part[2])
		}
		/^DA:/ { of[top]++; of["all"]++; if ($3 > 0) { covered[top]++; covered["all"]++ } }
		END { for (d in of) printf "%5.1f %%  %6d of %6d lines  %s\n", 100 * covered[d] / of[d], covered[d], of[d], d }
	' "$OUT/coverage.info" | sort -n
}

if ! have lcov || ! have gcov-tool; then die "this needs lcov (a package of that name), and gcov-tool, which comes with gcc"; fi
rm -rf "$OUT"
mkdir -p "$OUT/guests"
status=0
# Of the version that rustc has inside.
version=$("$(find_rustc)" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
"$REPO/tools/testing/host/gcov/compilers.sh" "llvm-$version" >&2
profdata=$CACHE/gcov/bin/llvm-profdata-$version cov=$CACHE/gcov/bin/llvm-cov-$version
KDIR=$("$REPO/integration/kernel.sh" kdir $VARIANT)
RESULTS="" FERROTRACE_TOOL_VARIANTS=$VARIANT VARIANTS=$VARIANT COVERAGE=$OUT/guests LOGS=build/check-coverage SUITES="10-build $SUITES" \
	"$REPO/tools/testing/check.sh" || status=$?
core
rust
c
# Named as in the repository; files outside of it are left out.
for info in rust c; do
	lcov -q -e "$OUT/$info.all.info" '*/kernel/ferrotrace/*' -o "$OUT/$info.info"
	sed -E -i -e 's,^SF:.*/kernel/ferrotrace/,SF:,' -e ':a; s,(^SF:|/)[^/.][^/]*/\.\./,\1,; ta' "$OUT/$info.info"
done
lcov -q -a "$OUT/rust.info" -a "$OUT/c.info" -a "$OUT/core.info" -o "$OUT/all.info"
sed -E "s,^SF:$REPO/,SF:," "$OUT/all.info" >"$OUT/coverage.info"
(cd "$REPO" && genhtml -q --title Ferrotrace "$OUT/coverage.info" -o "$OUT/html")
summary | tee "$OUT/summary"
results coverage "$OUT/summary" "make coverage" "$VARIANT"
say "the pages: $OUT/html/index.html"
exit $status
