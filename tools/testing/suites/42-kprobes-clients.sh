#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Clients of kprobes: the kernel's samples, its KUnit suite and our samples on every variant; an
# event on the command line where the engine is built in; and the kprobe cases of the kernel's
# ftrace selftests on mainline and builtin: their results on ours must be mainline's, or better.
# Seconds: 200
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# Results that are known to differ from mainline's, with the reason.
# shellcheck disable=SC2034 # of compare_ftracetest
declare -A known=()

# both: succeeds if ftracetest's results can be compared.
both() { under_test mainline && under_test builtin; }

# clients VARIANT
clients() {
	local tests='' append=''
	case $1 in
	# As a module the engine is not there yet.
	modular | debug | coverage) ;;
	*) append='kprobe_event=p:at_boot,vfs_read' ;;
	esac
	case $1 in
	mainline | builtin)
		if both; then tests=$(ftracetest_of "$1"); fi
		;;
	*) ;;
	esac
	KUNIT=kunit.filter_glob=kprobes_test CPUS=2 TIMEOUT=${TIMEOUT:-1800} APPEND=$append OUT=$LOGS/clients-$1 \
		run_vm "$1" "tools/testing/selftests/kprobes/clients.sh $tests"
}

for variant in $VARIANTS; do
	tap_nest "kprobes: $variant" clients "$variant"
done
if both; then
	compare_ftracetest "$LOGS/clients-mainline" "$LOGS/clients-builtin"
else
	tap_skip "ftracetest: builtin as mainline" "not under test"
fi
tap_plan
