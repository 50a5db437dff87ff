#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the relay selftests on the running kernel, as root, and prints KTAP.
#
#	run.sh VARIANT [TEST...]	TEST: read, mmap, poll, ...; without one all except reload;
#				TEST/FIXTURE.CASE and TEST/FIXTURE are a part of it
#
# VARIANT mainline is judged by the list "expected-failures": the tests that it names must fail, and
# no others. The programs and relay_selftest.ko are in $RELAY_SELFTESTS, the engine's module (if it
# is one) is in $FERROTRACE_KDIR. Other selftests with their own client and engine give the names in
# $RELAY_CLIENT and $RELAY_ENGINE.
set -uo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$here/../lib/testlib.sh"
variant=${1:?usage: run.sh VARIANT [TEST...]}
shift
tests=${*:-"read splice mmap poll write global open early hotplug life storm"}
bin=${RELAY_SELFTESTS:-$FERROTRACE_KDIR/selftests-relay}
client=${RELAY_CLIENT:-relay_selftest}
engine=${RELAY_ENGINE:-rust_relay}

export RELAY_VARIANT=$variant

# results: NAME ok|not|skip; complaints: NAME text of the kernel's log
touch "$work/results" "$work/complaints" "$work/expected"
if [ "$variant $client" = "mainline relay_selftest" ]; then
	grep -v -e '^#' -e '^$' "$here/expected-failures" >"$work/expected"
fi

# in memory, as they are loaded many times
export RELAY_SELFTEST_KO=$work/$client.ko
cp "$bin/module/$client.ko" "$work" || bail "no $client.ko"
if [ -e "$MODULE_DIR/$engine.ko" ]; then
	export RELAY_ENGINE_KO=$work/$engine.ko
	cp "$MODULE_DIR/$engine.ko" "$work" || bail "no engine"
fi
# The client's module has a probe.
load_ours "$engine" rust_kprobes
[ -e "/sys/module/$client" ] || load_file "$RELAY_SELFTEST_KO"

# not_here TEST: the harness's options for the tests of TEST that must not run here
not_here() {
	awk -v test="$1" '$2 == "norun" && index($1, test ".") == 1 { printf "-T %s ", substr($1, length(test) + 2) }' \
		"$work/expected"
}

echo "TAP version 13"
for t in $tests; do
	only=
	case $t in */*) only=${t#*/} t=${t%%/*} ;; *) whole="${whole:-} $t" ;; esac
	log=$work/$t.log
	dmesg -C
	# shellcheck disable=SC2046
	"$bin/${t}_test" $(not_here "$t") $(harness_only "$only") >"$log" 2>&1
	status=$?
	dmesg >"$work/dmesg"
	took_in_log "$work/dmesg"
	# the harness's messages about failures, without its results: judge.awk prints those
	echo "# $t: $(tail -n 1 "$log" | sed 's/^# //')"
	# Messages during a test are about that test.
	awk '/^#  RUN/ { name = $3 ": " }
	     !/^((not )?ok |1\.\.|TAP |# *(RUN|OK) |# (Starting|Totals|FAILED|PASSED))/ { sub(/^[# ]*/, "# " name); print }
	     /^(not )?ok / { name = "" }' "$log"

	awk '/^(not )?ok [0-9]+ / {
		ok = $1; i = ok == "ok" ? 3 : 4
		print $i, /# SKIP/ ? "skip" : ok
	}' "$log" >"$work/this"
	planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$log")
	if [ "${planned:-0}" = 0 ] || [ "$(wc -l <"$work/this")" != "$planned" ]; then
		echo "$t.ended_early_with_status_$status not" >>"$work/this"
	fi
	cat "$work/this" >>"$work/results"

	# a complaint of the kernel belongs to the test that ran
	awk '/relay(_fast)?_selftest: RUN / { name = $NF }
	     /WARNING: |BUG: |Oops|INFO: (task|rcu|possible)|refcount_t:|general protection|kmemleak:/ {
		print name ? name : "'"$t"'.log", $0
	     }' "$work/dmesg" >"$work/bad"
	if [ -s "$work/bad" ]; then
		cat "$work/bad" >>"$work/complaints"
		grep -v drop_caches "$work/dmesg" | tail -n 60 | sed 's/^/# dmesg: /'
	fi
done

awk -v tests="${whole:-}" -f "$here/judge.awk" "$work/expected" "$work/complaints" "$work/results"
