# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the suites. A suite is a script NN-NAME.sh beside this file, or a line of the table, which run.sh runs. It prints (K)TAP on
# stdout and all else on stderr, and fails if it could not run to its end. Arguments name cases. check.sh runs several
# suites at once, the longest first: a line "# Seconds: N" in the script, or the table, has the time on an idle machine. It sets
#   REPO       the repository
#   CACHE      the cache directory
#   VARIANTS   the kernel variants under test
#   LOGS       a directory for the suite's logs, which are kept
#
# A suite that is not meant for a variant skips it with a reason.

# shellcheck source=integration/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../../integration/lib.sh"
VARIANTS=${VARIANTS:-$DEFAULT_VARIANTS}
LOGS=${LOGS:-$REPO/build/check}
mkdir -p "$LOGS"
SUITE=${SUITE:-$(basename "$0" .sh)}
# Tests that have old spellings are not disturbed by notes.
export FERROTRACE_NO_NOTES=1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}

tap_count=0

# tap_ok NAME, tap_not_ok NAME, tap_skip NAME REASON: a result.
tap_ok() { printf 'ok %d %s\n' $((++tap_count)) "$1"; }
tap_not_ok() { printf 'not ok %d %s\n' $((++tap_count)) "$1"; }
tap_skip() { printf 'ok %d %s # SKIP %s\n' $((++tap_count)) "$1" "$2"; }

# tap_plan: the plan, at the end.
tap_plan() { printf '1..%d\n' "$tap_count"; }

# tap_run NAME CMD...: a result from CMD's exit status; its output goes to stderr.
tap_run() {
	local name=$1
	shift
	if "$@" >&2; then tap_ok "$name"; else tap_not_ok "$name (exit status $?)"; fi
}

# tap_nest NAME CMD...: CMD prints (K)TAP; its lines become the subtests of the result NAME.
tap_nest() {
	local name=$1 status
	shift
	"$@" | sed -u 's/^/    /'
	status=${PIPESTATUS[0]}
	if [ "$status" = 0 ]; then tap_ok "$name"; else tap_not_ok "$name (exit status $status)"; fi
}

# cargo_tests NAME CMD...: run a cargo test command; its tests are the results.
cargo_tests() {
	local name=$1
	shift
	# Cargo's exit status decides, so that a package that does not compile fails.
	"$@" 2>&1 | "$REPO/tools/testing/cargo-tap.py" "$name"
}

# under_test VARIANT: succeeds if it is one of $VARIANTS.
under_test() { [[ " $VARIANTS " == *" $1 "* ]]; }

# run_vm VARIANT CMD: runs CMD in the guest. A warning or an error of the kernel in its log is a
# failure (126). CPUS=, MEM=, TIMEOUT=, ICOUNT=1, APPEND=, OUT= are taken from the environment;
# STRICT=0 leaves the log to CMD. Stress tests run a fifth of their rounds, unless
# FERROTRACE_STORM=long (make check-long). The timeout is for a guest that hangs: ten times the
# duration on an idle machine, as others may use the host's time. The kernel's KUnit tests take half
# of the time to boot: they do not run, unless KUNIT= has parameters of the command line for them.
run_vm() {
	local variant=$1 name console mem=${MEM:-} timeout=${TIMEOUT:-900}
	name=$SUITE-$variant
	console=$LOGS/$name.console
	# Its checkers take memory and time.
	if [ "$variant" = debug ]; then mem=${mem:-3G} timeout=$((timeout * 6)); fi
	MEM=$mem TIMEOUT=$timeout CONSOLE=$console STRICT=${STRICT:-1} FERROTRACE_STORM=${FERROTRACE_STORM:-short} \
		APPEND="${KUNIT-kunit.enable=0} ${APPEND:-}" \
		"$REPO/tools/testing/vm/run.py" "$variant" "$2"
}

# in_part VARIANT: succeeds if only a part runs there, unless storms are long: on builtin the tests
# that depend on the engines being in the image, which otherwise are modular's.
in_part() { [ "$1" = builtin ] && [ "${FERROTRACE_STORM:-}" != long ]; }

# kunit_suites: the names of the suites of KUnit tests that the sources have.
kunit_suites() {
	grep -rhoE 'kunit_tests\([a-z_]+' --include='*.rs' "$REPO"/{rust,gkhi,relay,fast_relay,klog,kprobes,ftrace_tramp} | cut -d '(' -f 2
}

# tool NAME: builds the user-space command and prints its path.
tool() {
	"$(locked_cargo)" build --locked -q --release --manifest-path "$REPO/tools/ferrotrace/Cargo.toml" >&2 &&
		printf '%s\n' "$CARGO_TARGET_DIR/release/ferrotrace"
}

# tool_variants: where the suites of the command run: one variant, for time, modular if it is under test; distro where that is.
# FERROTRACE_TOOL_VARIANTS= names others.
tool_variants() {
	local one=modular
	if under_test distro && ! under_test modular; then one=distro; fi
	printf '%s\n' "${FERROTRACE_TOOL_VARIANTS:-$one}"
}

# selftests_build VARIANT NAME: builds the programs and modules of tools/testing/selftests/NAME in the variant's build
# directory, where their run.sh looks. Suites that run at the same time may want the same.
selftests_build() {
	local kdir
	kdir=$("$REPO/integration/kernel.sh" kdir "$1") || return 1
	if ! [ -f "$kdir/Module.symvers" ]; then
		echo "no kernel $1 here; run 'make kernel VARIANT=$1'"
		return 1
	fi
	with_lock "selftests-$2-$1" make -C "$REPO/tools/testing/selftests/$2" KDIR="$kdir" OUT="$kdir/selftests-$2" \
		MAKE_MODULE="$REPO/integration/kernel.sh make $1" CARGO="$(locked_cargo)"
}

# row SUITE: sets the variables below to the suite's line of the table; fails if it has none.
row() {
	local name
	# shellcheck disable=SC2034 # variants is for run.sh
	while read -r name seconds variants cpus limit builds part title command; do
		if [ "$name" = "$1" ]; then return; fi
	done <"$REPO/tools/testing/suites/table"
	return 1
}

# result_of VARIANT: the name of the row's result there.
result_of() {
	local name=${title//_/ }
	if [ "$title" = - ]; then name="selftests/${command%%/*}: VARIANT"; fi
	printf '%s\n' "${name//VARIANT/$1}"
}

# expected VARIANT CMD...: runs CMD, which prints KTAP. On stock the cases of stock-differences must fail, and are skipped.
expected() {
	local variant=$1
	shift
	if [ "${variant%%-*}" != stock ]; then
		"$@"
		return
	fi
	{ "$@" || echo "# status $?"; } | SUITE=$SUITE awk -W interactive '
		FNR == NR { if ($1 == ENVIRON["SUITE"]) { name = $2; $1 = $2 = ""; reason[name] = substr($0, 3) } next }
		/^# status [0-9]+$/ { status = $3; next }
		$1 == "not" && ($4 in reason) { name = $4; sub(/not ok/, "ok"); print $0 " # SKIP " reason[name]; excused++; next }
		$1 == "ok" && ($3 in reason) && !/# SKIP/ { sub(/ok/, "not ok"); print $0 " (stock-differences has it)"; failed++; next }
		$1 == "not" { failed++ }
		{ print; fflush() }
		END { exit status == 1 && excused && !failed ? 0 : status ? status : failed > 0 }' \
		"$REPO/tools/testing/suites/stock-differences" -
}

# suite_on VARIANT [CASE...]: builds what the suite's line of the table needs, and runs its command in a guest. Fails if
# something does not build.
suite_on() {
	local variant=$1 name what
	shift
	row "$SUITE"
	name=$(result_of "$variant")
	for what in ${builds//,/ }; do
		if [ "$what" = tool ]; then FERROTRACE=$(tool); else selftests_build "$variant" "$what" >&2; fi && continue
		tap_not_ok "$name ($what does not build)"
		return 1
	done
	# shellcheck disable=SC2086
	if [ $# = 0 ] && [ "$part" != - ] && in_part "$variant"; then set -- ${part//,/ }; fi
	if [ "${cpus#*/}" != "$cpus" ]; then local APPEND="${APPEND:-} maxcpus=${cpus#*/}"; fi
	CPUS=${cpus%/*} TIMEOUT=${TIMEOUT:-$limit} APPEND=${APPEND:-} tap_nest "$name" \
		expected "$variant" run_vm "$variant" \
		"${FERROTRACE:+FERROTRACE=$FERROTRACE }tools/testing/selftests/${command//VARIANT/$variant} $*"
}

# ftracetest_of VARIANT: where the kernel's ftrace selftests are; builds the samples that all of them load.
ftracetest_of() {
	local kdir source sample
	kdir=$("$REPO/integration/kernel.sh" kdir "$1") || return 1
	source=$(dirname "$kdir")
	if [ "${FERROTRACE_STORM:-}" = long ]; then
		for sample in trace_events trace_printk; do
			"$REPO/integration/kernel.sh" make "$1" -s CONFIG_SAMPLE_TRACE_EVENTS=m CONFIG_SAMPLE_TRACE_PRINTK=m \
				"M=$source/samples/$sample" "MO=$kdir/selftests-ftracetest/$sample" modules >&2 || return 1
		done
	fi
	printf '%s\n' "$source/tools/testing/selftests/ftrace"
}

# compare_ftracetest MAINLINE OURS: compares the results of ftracetest (selftests/lib/testlib.sh)
# there: a result for each of its cases on mainline, which ours passes, or which is the same on
# both, except those in $known, with the reason.
declare -A known
compare_ftracetest() {
	local name result ours
	while IFS='|' read -r name result; do
		ours=$(NAME=$name awk -F'|' '$1 == ENVIRON["NAME"] { print $2; exit }' "$2/ftracetest")
		if [ "$ours" = PASS ]; then
			tap_ok "ftracetest: $name: $ours"
		elif [ "${known[$name]:-}" ]; then
			tap_skip "ftracetest: $name" "${ours:-nothing}: ${known[$name]}"
		elif [ "$ours" = "$result" ] && [ "$ours" != FAIL ]; then
			# It needs something that this kernel or this machine lacks.
			tap_skip "ftracetest: $name" "$ours, as on mainline"
		else
			tap_not_ok "ftracetest: $name: ${ours:-nothing}, on mainline $result"
		fi
	done <"$1/ftracetest"
}
