#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Instructions per operation of the relay interface on each variant (BENCH_VARIANTS), one column each.
# The module is the same source for all; the guests count instructions as time.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../suites/lib.sh"

BENCH_VARIANTS=${BENCH_VARIANTS:-mainline modular builtin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2016
in_guest='
	engine=$FERROTRACE_KDIR/kernel/ferrotrace/rust_relay.ko
	if [ -e "$engine" ]; then insmod "$engine" || exit 1; fi
	insmod "$FERROTRACE_KDIR/bench/relay_bench.ko" 2>/dev/null
	dmesg | sed -n "s/.*relay_bench: \([^ ]*\) \([0-9]*\)$/\1 \2/p"
'

for variant in $BENCH_VARIANTS; do
	kernel=$REPO/integration/kernel.sh
	"$kernel" build "$variant" >/dev/null
	"$kernel" make "$variant" -s M="$REPO/tools/testing/bench" MO="$("$kernel" kdir "$variant")/bench" modules >&2
	ICOUNT=1 CPUS=2 run_vm "$variant" "$in_guest" | tr -d '\r' | sort >"$work/$variant"
	[ -s "$work/$variant" ] || die "no figures from $variant"
done

# A table: operations down, variants across; the ratio is the last variant's to the first's.
awk -v variants="$BENCH_VARIANTS" -v dir="$work" '
	BEGIN {
		n = split(variants, v, " ")
		for (k = 1; k <= n; k++)
			while ((getline line < (dir "/" v[k])) > 0) {
				split(line, w, " ")
				if (!(w[1] in seen)) { seen[w[1]] = 1; order[++count] = w[1] }
				cost[w[1], k] = w[2]
			}
		printf "%-22s", "instructions"
		for (k = 1; k <= n; k++) printf "%14s", v[k]
		printf "%10s\n", (n > 1 ? "ratio" : "")
		for (i = 1; i <= count; i++) {
			printf "%-22s", order[i]
			for (k = 1; k <= n; k++) printf "%14s", cost[order[i], k]
			if (n > 1 && cost[order[i], 1] > 0) printf "%10.2f", cost[order[i], n] / cost[order[i], 1]
			printf "\n"
		}
	}'
