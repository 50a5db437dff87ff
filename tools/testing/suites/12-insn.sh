#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The instruction decoder, as far as tests need a kernel: its own decoder, and the text of built
# kernels; places for jumps in them; and the long run of random bytes.
# Seconds: 80
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

cargo=$(locked_cargo) || die "no cargo; run 'make setup'"
INSN_KSRC=$("$REPO/integration/source.sh") || die "no kernel source"
export INSN_KSRC INSN_IMAGES=
# A failure shows the end of the log: the findings, not a backtrace of the test.
export RUST_BACKTRACE=0

for variant in $VARIANTS; do
	kdir=$("$REPO/integration/kernel.sh" kdir "$variant") || die "no build directory"
	if [ -f "$kdir/vmlinux" ]; then INSN_IMAGES=$INSN_IMAGES${INSN_IMAGES:+:}$kdir; fi
done

if [ -n "$INSN_IMAGES" ]; then
	tap_nest "insn: kernels" cargo_tests "insn" \
		"$cargo" test --locked --manifest-path "$REPO/tools/testing/host/Cargo.toml" -- --ignored
else
	tap_skip "insn: kernels" "none of $VARIANTS was built"
fi

# jumps_as_mainline SEED: random places, for which the C engine in a guest decides if it optimises a
# probe there. Where it does and ours does not, a branch enters the jump; where only ours does, a
# known rule of the C engine refuses. The last lines of the output are the errors.
jumps_as_mainline() {
	local kdir places=$LOGS/jump-places-$1 status
	kdir=$("$REPO/integration/kernel.sh" kdir mainline) || return 1
	"$cargo" run --locked -q --release --manifest-path "$REPO/tools/testing/host/Cargo.toml" --bin jump-places -- \
		600 "$1" "$kdir/vmlinux" >"$places" || return 1
	run_vm mainline "tools/testing/host/jump-places.sh $places" >"$places.answers"
	status=$?
	awk '$1 == "PLACE" { count++; why = $6 }
		$1 == "PLACE" && ($2 == "yes" && $3 == "no" && (why == "" || why == "Same") ||
			$2 == "no" && $3 == "yes" && why !~ /^(Entered|Part|NotPadding)/) {
			printf "not explained: %s: ours %s, the C engine %s, offset %s, reason %s\n", $5, $2, $3, $4, why == "" ? "none" : why
			wrong++
		}
		END { print count + 0 " places, " wrong + 0 " not explained"; exit wrong || count < 300 }' "$places.answers" || return 1
	[ $status = 0 ] && return
	echo "the guest ended with status $status; the end of what it said:"
	grep -v '^PLACE' "$places.answers" | tail -n 20
	return 1
}

# jumps_everywhere N: the same for each N-th instruction of every function, by the jump that the C
# engine prepares when it registers a probe. The numbers of both answers, with the reason, are in
# the log. Ours may be too careful with an indirect jump at a few places: insn.rst.
jumps_everywhere() {
	local kdir places=$LOGS/jump-places-each out=$LOGS/jump-places-each.out
	kdir=$("$REPO/integration/kernel.sh" kdir mainline) && selftests_build mainline all_functions || return 1
	"$cargo" run --locked -q --release --manifest-path "$REPO/tools/testing/host/Cargo.toml" --bin jump-places -- \
		each "$1" "$kdir/vmlinux" >"$places" || return 1
	rm -rf "$out"
	mkdir -p "$out"
	OUT=$out TIMEOUT=${TIMEOUT:-7200} run_vm mainline "tools/testing/selftests/all_functions/jumps.sh $places" || return 1
	paste -d ' ' "$out/jumps" "$places" | awk '
		$1 != $4 { print "not the same place: " $0; wrong++ }
		$2 != 0 { refused++; next }
		{
			count++
			mainline += $3
			ours += $5 == "yes"
			answers[$5 " " ($3 ? "yes" : "no") " " ($7 == "" ? "-" : $7)]++
		}
		$5 == "no" && $3 && $7 == "IndirectJump" {
			print "too careful: " $6
			careful++
			next
		}
		$5 == "yes" && !$3 && ($7 == "" || $7 == "Same") || $5 == "no" && $3 && $7 !~ /^(Entered|Part|NotPadding)/ {
			print "not explained: " $6 ": ours " $5 ", the C engine " ($3 ? "yes" : "no") ", reason " $7
			wrong++
		}
		END {
			for (answer in answers) print "ours, the C engine, why: " answer ": " answers[answer]
			print count " places, " refused + 0 " refused; the C engine " mainline ", ours " ours "; " wrong + 0 " not explained"
			exit wrong || careful * 10000 > count || count < 10000
		}'
}

seeds=16
if [ "${FERROTRACE_STORM:-}" = long ]; then seeds="16 17 18"; fi
if under_test mainline; then
	for seed in $seeds; do
		tap_run "insn: where mainline optimises, seed $seed" jumps_as_mainline "$seed"
	done
	# EACH=1 is all of them, which takes more than an hour.
	if [ "${FERROTRACE_STORM:-}" = long ] || [ "${EACH:-}" ]; then
		tap_run "insn: where mainline optimises, each ${EACH:-40}th" jumps_everywhere "${EACH:-40}"
	fi
fi
tap_plan
