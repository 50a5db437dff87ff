#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the kernel variants, without a warning, and runs objtool on our assembly for IBT, and on
# functions in Rust in other forms. Checks the stack frames of hit paths, the symbols of the kprobes
# engine, and its behaviour on kernels that no variant is.
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

# quiet VARIANT: the last build had no warning: of compilers, objtool (of the whole image each
# time), modpost.
quiet() {
	local log
	log=$("$REPO/integration/kernel.sh" kdir "$1")/build.log
	[ -s "$log" ] && ! grep -E -A8 '(warning|WARNING): ' "$log"
}

# beside VARIANT: kbuild in its directory does not wait for the build of another variant, which
# reads the same tree.
beside() {
	local tree other status
	tree=$(dirname "$("$REPO/integration/kernel.sh" kdir "$1")")
	flock -s --no-fork "$CACHE/locks/$(basename "$tree")" sleep 100 &
	other=$!
	timeout 60 "$REPO/integration/kernel.sh" make "$1" -s kernelversion
	status=$?
	kill "$other"
	return $status
}

# outside VARIANT: "make -C KDIR" builds a module in Rust with the tools that built the kernel,
# regardless of PATH.
outside() {
	local dir
	dir=$(mktemp -d) && mkdir "$dir/bin" && printf '#!/bin/sh\nexit 1\n' >"$dir/bin/rustc" && chmod +x "$dir/bin/rustc" || return 1
	echo 'obj-m := outside.o' >"$dir/Kbuild"
	cat >"$dir/outside.rs" <<-'END'
		//! A module that does nothing.
		use kernel::prelude::*;
		module! { type: Outside, name: "outside", authors: ["a"], description: "d", license: "GPL", }
		struct Outside;
		impl kernel::Module for Outside {
		    fn init(_module: &'static ThisModule) -> Result<Self> { Ok(Self) }
		}
	END
	PATH=$dir/bin:$PATH make -C "$("$REPO/integration/kernel.sh" kdir "$1")" M="$dir" modules && [ -e "$dir/outside.ko" ] && rm -rf "$dir"
}

for variant in $VARIANTS; do
	tap_run "build: kernel $variant" "$REPO/integration/kernel.sh" build "$variant"
	tap_run "build: kernel $variant: no warning" quiet "$variant"
	tap_run "build: assembly under IBT: $variant" "$REPO/tools/testing/ibt.sh" "$variant"
	tap_run "build: functions in Rust, as objtool sees them: $variant" "$REPO/tools/testing/patchable.sh" "$variant"
	tap_run "build: frames of hit paths: $variant" "$REPO/tools/testing/frames.py" "$variant"
	tap_run "build: kprobes as declared: $variant" "$REPO/tools/testing/check_exports.py" "$variant"
	tap_run "build: kprobes as configured elsewhere: $variant" "$REPO/tools/testing/unconfigured.sh" "$variant"
	if [ "$variant" = modular ]; then
		tap_run "build: beside another variant: $variant" beside "$variant"
		tap_run "build: a module by make -C: $variant" outside "$variant"
		# rustup's proxy is there without the program.
		if rust-analyzer --version >/dev/null 2>&1; then
			tap_run "build: rust-analyzer finds definitions: $variant" make -C "$REPO" rust-analyzer VARIANT="$variant" CHECK=1
		else
			tap_skip "build: rust-analyzer finds definitions: $variant" "no rust-analyzer"
		fi
	fi
	if [ "$variant" = cfi ]; then
		tap_run "build: types of what is called through pointers: $variant" "$REPO/tools/testing/cfi.py" "$("$REPO/integration/kernel.sh" kdir "$variant")"
	fi
done
tap_plan
