# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the benchmarks: sourced by each DIR/run.sh here. BENCH_VARIANTS= measures only some of the
# kernel variants, which leaves figures out; BENCH_RAW=1 shows all measurements; RESULTS=1 writes
# the figures to Documentation/results/bench-DIR.txt. Sets $here, the directory of the benchmark,
# and $kdir, the directory of the last built kernel.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../suites/lib.sh"
# shellcheck source=tools/testing/results.sh
. "$(dirname "${BASH_SOURCE[0]}")/../results.sh"
[ -z "${RESULTS:-}" ] || [ -z "${BENCH_VARIANTS:-}" ] || die "RESULTS=1 takes all variants"

here=$(cd "$(dirname "$0")" && pwd)
figures=$(mktemp -d)
trap 'rm -rf "$figures"' EXIT

# Debian's own kernel, where the chroot with its compilers can be made; RESULTS=1 needs it.
# shellcheck disable=SC2034
STOCK=$(if [ "${RESULTS:-}" ] || unshare --mount --propagation private true 2>/dev/null; then echo stock; fi)

# built VARIANT: the kernel, and the benchmark's modules in $modules.
built() {
	local kernel=$REPO/integration/kernel.sh
	"$kernel" build "$1" >/dev/null
	kdir=$("$kernel" kdir "$1")
	modules=$kdir/bench-$(basename "$here")
	mkdir -p "$modules"
	if [ -d "$here/module" ]; then "$kernel" make "$1" -s M="$here/module" MO="$modules" modules >&2; fi
}

# take VARIANT LAST [FILTER...]: the lines NAME VALUE of a guest, which a filter may change, are VARIANT's figures; LAST is the
# beginning of one that must be among them, as a pattern.
take() {
	local variant=$1 last=$2
	shift 2
	tr -d '\r' | if [ $# = 0 ]; then cat; else "$@"; fi >>"$figures/$variant"
	if [ "${BENCH_RAW:-}" ]; then sed "s/^/# $variant: /" "$figures/$variant"; fi
	grep -q "^$last" "$figures/$variant" || die "not all figures from $variant"
}

# table: prints the figures that the benchmark names; fails if a goal is missed without a reason.
table() {
	local limits=$here/known_limits name status=0
	name=$(basename "$here")
	if [ ! -e "$limits" ]; then limits=; fi
	awk -f "$here/../table.awk" -v dir="$figures" "$here/figures" ${limits:+"$limits"} >"$figures/table" || status=$?
	cat "$figures/table"
	results "bench-$name" "$figures/table" "make bench SUITE=$name" modular
	return $status
}
