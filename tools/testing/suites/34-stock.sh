#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Debian's own kernel, without our patches: its modules, the package for modules in Rust, and the core of the suites that work
# there. "make check-long" runs these suites whole.
# Seconds: 90
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

stock=$REPO/integration/stock.sh
if ! { release=$("$stock" release) && "$stock" root "$release"; } >&2; then
	tap_skip "Debian's own kernel" "no root directory with its compilers can be made here"
	tap_plan
	exit
fi
FERROTRACE=$(tool)

# matches EDIT FILE: succeeds if the crates are accepted for headers in which sed has edited a file.
matches() {
	local headers status=0
	headers=$(mktemp -d)
	cp "$CACHE/stock/$release/headers"/{.config,Module.symvers} "$headers/"
	sed -i "$1" "$headers/$2"
	"$stock" check "$headers" "$CACHE/stock/$release/build" 2>"$LOGS/$SUITE-refusal" || status=$?
	cat "$LOGS/$SUITE-refusal" >&2
	rm -rf "$headers"
	return $status
}

# refused TEXT EDIT FILE: succeeds if they are refused with a message that has TEXT.
refused() { ! matches "$2" "$3" && grep -q -- "$1" "$LOGS/$SUITE-refusal"; }

# foreign_module: a module of somebody else, which knows nothing of Ferrotrace, is built and loaded.
foreign_module() {
	local dir=$CACHE/stock/$release/foreign
	mkdir -p "$dir"
	echo 'obj-m := hello_rust.o' >"$dir/Kbuild"
	cat >"$dir/hello_rust.rs" <<-'EOF'
	//! Prints a vector.
	use kernel::prelude::*;
	module! { type: Hello, name: "hello_rust", authors: ["nobody"], description: "A vector", license: "GPL", }
	struct Hello;
	impl kernel::Module for Hello {
	    fn init(_module: &'static ThisModule) -> Result<Self> {
	        let mut numbers = KVec::new();
	        numbers.push(72, GFP_KERNEL)?;
	        pr_info!("numbers: {:?}\n", numbers);
	        Ok(Self)
	    }
	}
	EOF
	"$stock" kbuild "$release" M="$dir" modules >&2 && run_vm stock "insmod $dir/hello_rust.ko && dmesg | grep 'hello_rust: numbers: \[72\]'"
}

if ! "$REPO/integration/kernel.sh" build stock >&2; then
	tap_not_ok "the modules build"
	tap_plan
	exit
fi
tap_ok "the modules build"
tap_run "crates are accepted for the kernel's headers" matches '' .config
tap_run "another configuration is refused" refused '^< CONFIG_HZ=1234$' 's/^CONFIG_HZ=.*/CONFIG_HZ=1234/' .config
tap_run "another compiler is refused" refused '^< CONFIG_RUSTC_VERSION=108400$' 's/^CONFIG_RUSTC_VERSION=.*/CONFIG_RUSTC_VERSION=108400/' .config
tap_run "another kernel is refused" refused '^_RNvCsgone' '1i 0x00000000\t_RNvCsgone\tvmlinux\tEXPORT_SYMBOL_GPL\t' Module.symvers
tap_run "a module of somebody else in Rust" foreign_module
tap_run "loading and unloading leaves nothing" run_vm stock "tools/testing/selftests/stock/unload.sh"
tap_run "another kernel of this name is refused" run_vm stock "tools/testing/selftests/stock/other_kernel.sh"
tap_run "a probe by one command" run_vm stock "$FERROTRACE probe watch --count 3 'do_sys_openat2 filename how->flags:x' | grep -c 'do_sys_openat2 filename=\"/.* flags=0x' | grep -x 3"
tap_plan
