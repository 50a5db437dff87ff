#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the kernel variants, without a warning, asks objtool for what it would say of our assembly under IBT, and of functions in Rust
# elsewhere, and looks at what the kprobes engine defines, and at what it does on kernels that no variant is.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# quiet VARIANT: nobody warned of anything when it was last built: compilers, objtool (of the whole image each time), modpost.
quiet() {
	local log
	log=$("$REPO/integration/kernel.sh" kdir "$1")/build.log
	[ -s "$log" ] && ! grep -E -A8 '(warning|WARNING): ' "$log"
}

for variant in $VARIANTS; do
	tap_run "build: kernel $variant" "$REPO/integration/kernel.sh" build "$variant"
	tap_run "build: kernel $variant: no warning" quiet "$variant"
	tap_run "build: assembly under IBT: $variant" "$REPO/tools/testing/ibt.sh" "$variant"
	tap_run "build: functions in Rust, as objtool sees them: $variant" "$REPO/tools/testing/patchable.sh" "$variant"
	tap_run "build: kprobes as declared: $variant" "$REPO/tools/testing/declared.py" "$variant"
	tap_run "build: kprobes as configured elsewhere: $variant" "$REPO/tools/testing/unconfigured.sh" "$variant"
	if [ "$variant" = cfi ]; then
		tap_run "build: types of what is called through pointers: $variant" "$REPO/tools/testing/cfi.py" "$("$REPO/integration/kernel.sh" kdir "$variant")"
	fi
done
tap_plan
