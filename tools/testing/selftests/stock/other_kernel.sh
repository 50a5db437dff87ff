#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# As root: the kernel refuses a ferrotrace_core that was built for another build of the same release.
set -euo pipefail
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "$(readlink -f "$0")")/../lib/testlib.sh"

version=$(uname -v)
rmmod ferrotrace_core
LC_ALL=C sed "s/${version:0:24}/#2${version:2:22}/g" "$MODULE_DIR/ferrotrace_core.ko" >"$work/core.ko"
cmp -s "$work/core.ko" "$MODULE_DIR/ferrotrace_core.ko" && bail "the module does not contain the kernel's version"
if insmod "$work/core.ko" 2>"$work/err"; then bail "a module for another build was loaded"; fi
grep -q 'Exec format error\|Invalid module format' "$work/err"
dmesg | grep "ferrotrace: built for the kernel \"#2"
