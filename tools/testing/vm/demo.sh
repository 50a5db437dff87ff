#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The demo: boots the modular kernel, loads the Rust relay engine and the Rust client that records
# scheduler switches, runs a workload, drains the channel through mmap, and shows the records. Then
# it probes the kernel, compares the hits with the workload, traces a driver in Rust with ftrace, and
# shows which blocks of the kernel and of the driver were executed. The page of the recording is
# build/demo/report.html (OUT=). "make check" runs the KUnit tests of the modules.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../suites/lib.sh"

"$REPO/integration/kernel.sh" build modular >/dev/null
FERROTRACE=$(tool)
# The guest names it: its output ends with "demo: ok".
export OUT=${OUT:-$REPO/build/demo}
CPUS=${CPUS:-2} run_vm modular "FERROTRACE=$FERROTRACE DEMO_OUT=${OUT@Q} tools/testing/vm/demo-guest.sh"
