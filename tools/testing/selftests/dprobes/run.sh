#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Probe programs on the running kernel: the module rust_dprobes. Run as root in a guest; arguments choose cases by the start of their
# names. Prints KTAP.
# Functions are called by check().
# shellcheck disable=SC2317,SC2329
set -u

# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"

load_ours ferrotrace_fast_relay rust_kprobes ferrotrace_kprobe rust_dprobes
# At an entry, the cost of a hit includes ftrace's trampoline.
if [ "${1:-}" = bench ]; then load_ours rust_ftrace_tramp; fi
exec "${FERROTRACE_KDIR:?set in the guest}/selftests-dprobes/dprobes_test" "$@"
