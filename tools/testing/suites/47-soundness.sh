#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Clients in safe Rust that try to break the kernel: what must not compile, and what must do no harm. Arguments are names of clients in
# run_pass.
# Seconds: 54
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

HERE=$REPO/tools/testing/soundness

# build VARIANT FOLDER [ARGS...]: the clients of a folder, in the variant's build directory.
build() {
	local kdir out
	kdir=$("$REPO/integration/kernel.sh" kdir "$1") && out=$kdir/soundness/${2##*/} && mkdir -p "$out" &&
		"$REPO/integration/kernel.sh" make "$1" "${@:3}" M="$2" MO="$out" modules
}

# compile_fail VARIANT: compiles all of them, also after a failure.
compile_fail() {
	local log=$LOGS/soundness-compile_fail-$1.log
	build "$1" "$HERE/compile_fail" -k >"$log" 2>&1
	"$HERE/compile_fail.py" "$HERE/compile_fail" "$log"
}

if [ $# = 0 ]; then tap_run "soundness: public: each item is used outside of the tree" "$HERE/public.py"; fi

for variant in $VARIANTS; do
	# Where the engines leave, too.
	case $variant in
	modular | debug | coverage | stock) ;;
	*)
		tap_skip "soundness: $variant" "the engines are no modules"
		continue
		;;
	esac
	# The errors are those of our kernels' compiler and configuration.
	if [ $# = 0 ] && [ "$variant" != stock ]; then tap_nest "soundness: compile_fail: $variant" compile_fail "$variant"; fi
	if build "$variant" "$HERE/run_pass" >&2 && build "$variant" "$REPO/samples/outside" >&2; then
		# Clients may be meant to panic: run.sh judges the log.
		STRICT=0 CPUS=2 TIMEOUT=${TIMEOUT:-300} tap_nest "soundness: run_pass: $variant" \
			run_vm "$variant" "tools/testing/soundness/run.sh $*"
	else
		tap_not_ok "soundness: run_pass: $variant (does not build)"
	fi
done
tap_plan
