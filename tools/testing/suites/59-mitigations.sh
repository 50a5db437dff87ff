#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The engines on kernels that work around flaws of their CPU, which QEMU's default CPU lacks: thunks
# for returns, and calls with a counted depth. Each guest of "distro", the only variant here (make
# check-distro), is also at another address; one is preempted.
# Seconds: 800
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# CPU, flaw, its kernel's text about the flaw, and further parameters of its command line.
cpus() {
	cat <<-END
		Skylake-Client|retbleed|Mitigation: Stuffing|retbleed=stuff
		Cascadelake-Server|indirect_target_selection|Mitigation: Aligned branch/return thunks|
		EPYC-Rome|retbleed|Mitigation: untrained return thunk|preempt=full
		EPYC-Milan|spec_rstack_overflow|Safe RET|
	END
}

# on CPU FLAW TEXT PARAMETERS
on() {
	local out=$LOGS/mitigations-$1
	rm -rf "$out"
	mkdir -p "$out"
	OUT=$out CPUS=2 TIMEOUT=${TIMEOUT:-1800} APPEND="${APPEND:-} $4" QEMU_OPTS="-cpu $1,erms=off,fsrm=off" \
		run_vm distro "tools/testing/selftests/mitigations/run.sh distro $2 '$3'"
}

# moved: where the guests' kernels were was not the same each time.
moved() { sort -u "$LOGS"/mitigations-*/text && [ "$(sort -u "$LOGS"/mitigations-*/text | wc -l)" -gt 1 ]; }

if ! under_test distro; then
	tap_skip "mitigations" "distro is not under test"
elif ! { selftests_build distro kprobes && selftests_build distro ftrace_tramp; } >&2; then
	tap_not_ok "mitigations (the selftests do not build)"
else
	while IFS='|' read -r cpu flaw text parameters; do
		tap_nest "mitigations: $cpu${parameters:+ $parameters}" on "$cpu" "$flaw" "$text" "$parameters" </dev/null
	done < <(cpus)
	tap_run "mitigations: the kernel's address is random" moved
fi
tap_plan
