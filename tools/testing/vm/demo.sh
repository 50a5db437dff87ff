#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The demo: boots the modular kernel, loads the Rust relay engine and the Rust client that records
# scheduler switches, runs a workload, drains it through mmap, and shows what was recorded. Then it probes the kernel,
# and compares the hits with what was done, and has ftrace trace a driver in Rust. The KUnit tests of the
# modules are left to "make check".
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/../suites/lib.sh"

"$REPO/integration/kernel.sh" build modular >/dev/null
FERROTRACE=$(tool)
CPUS=${CPUS:-2} run_vm modular "FERROTRACE=$FERROTRACE tools/testing/vm/demo-guest.sh"
