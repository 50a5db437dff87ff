#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the selftests of fast relay channels on the running kernel, as root, and prints KTAP.
#
#	run.sh VARIANT [TEST...]	TEST: storm, poll, ...; all without one; or TEST/FIXTURE.CASE
#
# The programs and relay_fast_selftest.ko are in $RELAY_SELFTESTS, the engine's module (if it is one) is in $FERROTRACE_KDIR.
set -uo pipefail

variant=${1:?usage: run.sh VARIANT [TEST...]}
shift
[ $# -gt 0 ] || set -- open nest mmap poll hotplug storm
export RELAY_SELFTESTS=${RELAY_SELFTESTS:-$FERROTRACE_KDIR/selftests-relay_fast}
export RELAY_CLIENT=relay_fast_selftest RELAY_ENGINE=ferrotrace_fast_relay
exec "$(dirname "$(readlink -f "$0")")/../relay/run.sh" "$variant" "$@"
