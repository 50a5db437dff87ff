#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Debian's own kernel, without our patches: builds, loads and unloads our modules, checks which kernels linux-rust-dev accepts, and
# builds a Rust module that does not use Ferrotrace. "make check-long" runs other suites on the variant stock.
# Seconds: 90
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

stock=$REPO/integration/stock.sh
if ! { release=$("$stock" release) && "$stock" root "$release"; } >&2; then
	tap_skip "Debian's own kernel" "the chroot with its compilers cannot be made here"
	tap_plan
	exit
fi
FERROTRACE=$(tool)

# matches EDIT FILE: succeeds if stock.sh accepts the crates for headers whose FILE sed has changed by EDIT.
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

# refused TEXT EDIT FILE: succeeds if stock.sh refuses the crates for such headers, with a message that contains TEXT.
refused() { ! matches "$2" "$3" && grep -q -- "$1" "$LOGS/$SUITE-refusal"; }

# foreign_module: builds and loads a Rust module that does not use Ferrotrace.
foreign_module() {
	local dir=$CACHE/stock/$release/foreign
	mkdir -p "$dir"
	echo 'obj-m := hello_rust.o' >"$dir/Kbuild"
	cat >"$dir/hello_rust.rs" <<-'EOF'
	//! Prints a vector.
	use kernel::prelude::*;
	module! { type: Hello, name: "hello_rust", authors: ["A test"], description: "A vector", license: "GPL", }
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
tap_run "a Rust module that does not use Ferrotrace builds and loads" foreign_module
tap_run "unloading the modules leaves nothing behind" run_vm stock "tools/testing/selftests/stock/unload.sh"
tap_run "modules for another build of the same release are refused" run_vm stock "tools/testing/selftests/stock/other_kernel.sh"
tap_run "ferrotrace probe watch prints three hits" run_vm stock "$FERROTRACE probe watch --count 3 'do_sys_openat2 filename how->flags:x' | grep -c 'do_sys_openat2 filename=\"/.* flags=0x' | grep -x 3"
tap_plan
