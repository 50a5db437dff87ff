#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Debian's own kernels, without our patches: builds, loads and unloads our modules, checks which kernels linux-rust-dev accepts,
# and builds a Rust module that does not use Ferrotrace. The variant is stock, or those of $VARIANTS that begin so. "make
# check-long" runs other suites on stock and stock-sid.
# Seconds: 160
set -euo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

stock=$REPO/integration/stock.sh

# matches HEADERS BUILD: succeeds if stock.sh accepts the crates of BUILD for the kernel of HEADERS.
matches() {
	local status=0
	"$stock" check "$1" "$2" 2>"$LOGS/$SUITE-refusal" || status=$?
	cat "$LOGS/$SUITE-refusal" >&2
	return $status
}

# refused TEXT EDIT FILE: succeeds if stock.sh refuses the crates for headers whose FILE sed has changed by EDIT, with a message
# that contains TEXT.
refused() {
	local changed
	changed=$(mktemp -d)
	cp "$of/headers"/{.config,Module.symvers} "$changed/"
	sed -i "$2" "$changed/$3"
	! matches "$changed" "$of/build" && rm -r "$changed" && grep -q -- "$1" "$LOGS/$SUITE-refusal"
}

# refused_build: succeeds if stock.sh refuses crates that lack a symbol of the kernel.
refused_build() {
	local changed symbol
	changed=$(mktemp -d)
	mkdir "$changed/rust"
	cp "$of/build/.config" "$changed/"
	ln -s "$of/build/rust"/*.o "$changed/rust/"
	symbol=$(LC_ALL=C comm -12 <(nm -p --defined-only "$of/build/rust/kernel.o" | awk '{ print $3 }' | LC_ALL=C sort) \
		<(awk '$2 ~ /^_R/ { print $2 }' "$of/headers/Module.symvers" | LC_ALL=C sort) | sed -n 1p)
	rm "$changed/rust/kernel.o"
	objcopy --redefine-sym "$symbol=gone" "$of/build/rust/kernel.o" "$changed/rust/kernel.o"
	! matches "$of/headers" "$changed" && rm -r "$changed" && grep -qx "$symbol" "$LOGS/$SUITE-refusal"
}

# foreign_module: builds and loads a Rust module that does not use Ferrotrace.
foreign_module() {
	mkdir -p "$of/foreign"
	echo 'obj-m := hello_rust.o' >"$of/foreign/Kbuild"
	cat >"$of/foreign/hello_rust.rs" <<-'EOF'
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
	"$stock" kbuild "$release" M="$of/foreign" modules >&2 && run_vm "$variant" "insmod $of/foreign/hello_rust.ko && dmesg | grep 'hello_rust: numbers: \[72\]'"
}

# crate_checks: checks that stock.sh accepts matching crates and refuses others.
crate_checks() {
	tap_run "$variant: crates are accepted for the kernel's headers" matches "$of/headers" "$of/build"
	tap_run "$variant: another configuration is refused" refused '^< CONFIG_HZ=1234$' 's/^CONFIG_HZ=.*/CONFIG_HZ=1234/' .config
	tap_run "$variant: the crates of another compiler are refused" refused '^< CONFIG_RUSTC_VERSION=108400$' 's/^CONFIG_RUSTC_VERSION=.*/CONFIG_RUSTC_VERSION=108400/' .config
	tap_run "$variant: another kernel is refused" refused '^_RNvCsgone' '1i 0x00000000\t_RNvCsgone\tvmlinux\tEXPORT_SYMBOL_GPL\t' Module.symvers
	tap_run "$variant: crates without a symbol of the kernel are refused" refused_build
}

FERROTRACE=$(tool)
tested=$(tr ' ' '\n' <<<"$VARIANTS" | grep '^stock' || echo stock)
for variant in $tested; do
	if ! { release=$("$stock" release "$variant") && "$stock" root "$release"; } >&2; then
		tap_skip "$variant: Debian's own kernel" "the chroot with its compilers cannot be made here"
		continue
	fi
	of=$CACHE/stock/$release
	if ! "$REPO/integration/kernel.sh" build "$variant" >&2; then
		tap_not_ok "$variant: the modules build"
		continue
	fi
	tap_ok "$variant: the modules build"
	crate_checks
	tap_run "$variant: a Rust module that does not use Ferrotrace builds and loads" foreign_module
	tap_run "$variant: unloading the modules leaves nothing behind" run_vm "$variant" "tools/testing/selftests/stock/unload.sh"
	tap_run "$variant: modules for another build of the same release are refused" run_vm "$variant" "tools/testing/selftests/stock/other_kernel.sh"
	tap_run "$variant: ferrotrace doctor and lockdown" run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/stock/lockdown.sh"
	tap_run "$variant: ferrotrace probe watch prints three hits" run_vm "$variant" "$FERROTRACE probe watch --count 3 'do_sys_openat2 filename how->flags:x' | grep -c 'do_sys_openat2 filename=\"/.* flags=0x' | grep -x 3"
	tap_run "$variant: the verbs of ferrotrace on tracepoints and system calls" run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/stock/verbs.sh"
	tap_run "$variant: live coverage" run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/stock/coverage.sh"
	# The guest panics, and boots again.
	REBOOT=1 APPEND="reserve_mem=4M:4096:relay_sched reserve_mem=4M:4096:ferrotrace" tap_nest "cookbook: $variant" \
		run_vm "$variant" "FERROTRACE=$FERROTRACE tools/testing/selftests/stock/cookbook.sh $([ "${FERROTRACE_STORM:-}" != long ] || echo --all)"
	tap_nest "permissions: $variant" run_vm "$variant" "tools/testing/selftests/permissions/run.sh mainline"
done
tap_plan
