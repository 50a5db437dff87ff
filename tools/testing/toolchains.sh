#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# "make check-toolchains": builds the variant tiny with other compilers than the machine's, as far
# as Debian's suites have them, boots each kernel, reads the results of its KUnit tests, and prints
# a line for each compiler. TOOLS="gcc-16 rust-trixie" tries only these; RESULTS=1 writes the lines
# to Documentation/results/check-toolchains.txt. Fails if one of them does not build or does not
# pass.
#
#   here         the tools that build all variants
#   gcc-N        C by that compiler
#   clang-N      the same, with the bindgen of its suite and its libclang; the oldest is the
#                kernel's minimum
#   rust-SUITE   rustc and bindgen of that suite; trixie's are the kernel's minimum
set -euo pipefail
LOGS=${LOGS:-build/check-toolchains}
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/suites/lib.sh"
# shellcheck source=tools/testing/results.sh
. "$(dirname "$0")/results.sh"
[ -z "${RESULTS:-}" ] || [ -z "${TOOLS:-}" ] || die "RESULTS=1 takes all tools"

ALL="here rust-trixie rust-unstable gcc-12 gcc-13 gcc-14 gcc-15 gcc-16 clang-17 clang-19 clang-23"
VARIANT=tiny
# All of ours but samples, and the kernel's own tests of kprobes.
MODULES=(kernel/ferrotrace/{rust_relay,ferrotrace_relay,ferrotrace_fast_relay,clients/klog_relay,rust_kprobes,ferrotrace_kprobe}
	kernel/ferrotrace/{ferrotrace_kprobe_events,ferrotrace_jprobe,rust_ftrace_tramp,ferrotrace_ftrace,ferrotrace_ftrace_functions}
	kernel/ferrotrace/{rust_gcov,rust_dprobes} lib/tests/test_kprobes)

# choose NAME: has the tools in the cache, and kernel.sh use them.
choose() {
	local dir=$CACHE/gcov compilers=$REPO/tools/testing/host/gcov/compilers.sh usr clang=()
	export FERROTRACE_TOOLS=$1
	unset FERROTRACE_CC RUSTC BINDGEN LIBCLANG_PATH
	if [ "$1" = here ]; then return; fi
	"$compilers" "$1" >&2 || return
	case $1 in
	rust-*)
		dir=$dir/${1#rust-}/usr
		# The libclang of its bindgen: the newest there.
		mapfile -t clang < <(compgen -G "$dir/lib/llvm-*/lib/libclang.so" | sort -V)
		export RUSTC=$dir/bin/rustc BINDGEN=$dir/bin/bindgen LIBCLANG_PATH=${clang[-1]%/*}
		;;
	clang-*)
		# bindgen gets its flags, some of which an older libclang does not know.
		usr=$(readlink -e "$dir/bin/$1")
		usr=${usr%/lib/llvm-*}
		"$compilers" "rust-$(basename "${usr%/usr}")" >&2 || return
		export FERROTRACE_CC=$dir/bin/$1 BINDGEN=$usr/bin/bindgen LIBCLANG_PATH=$usr/lib/llvm-${1#clang-}/lib
		;;
	*) export FERROTRACE_CC=$dir/bin/$1 ;;
	esac
}

# initramfs KDIR FILE: a root that loads our modules and prints KUnit's results.
initramfs() {
	local root module
	root=$(mktemp -d)
	mkdir -p "$root"/{bin,dev,lib,proc,sys}
	cp "$(command -v busybox)" "$root/bin/busybox"
	for module in "${MODULES[@]}"; do cp "$1/$module.ko" "$root/lib/" || return 1; done
	cat >"$root/init" <<-EOF
	#!/bin/busybox sh
	/bin/busybox mount -t sysfs sysfs /sys
	/bin/busybox mount -t debugfs debugfs /sys/kernel/debug
	for module in ${MODULES[*]##*/}; do
		/bin/busybox insmod "/lib/\$module.ko" || echo "Bail out! \$module"
	done
	/bin/busybox cat /sys/kernel/debug/kunit/*/results
	echo "that was all"
	/bin/busybox reboot -f
	EOF
	chmod +x "$root/init"
	(cd "$root" && find . | cpio --quiet -o -H newc) | gzip -1 >"$2"
	rm -rf "$root"
}

# boot NAME: runs the kernel; its output is in a file of the logs.
boot() {
	local kdir image
	kdir=$("$REPO/integration/kernel.sh" kdir "$VARIANT") && image=$("$REPO/integration/kernel.sh" image "$VARIANT") || return 1
	initramfs "$kdir" "$LOGS/$1.cpio.gz" || return 1
	timeout "${TIMEOUT:-900}" "$(find_qemu)" -accel tcg,thread=single -cpu max,la57=off -M q35 -m 1G -smp 2 -nodefaults -display none \
		-no-reboot -kernel "$image" -initrd "$LOGS/$1.cpio.gz" -serial "file:$LOGS/$1.console" \
		-append "console=ttyS0 tsc=reliable no_timer_check panic=-1 oops=panic reboot=t loglevel=5" || return 1
	rm "$LOGS/$1.cpio.gz"
	tr -d '\r' <"$LOGS/$1.console" >"$LOGS/$1.results"
}

# judge NAME: prints the tests' results; fails if not all ran and passed.
judge() {
	local results=$LOGS/$1.results suite passed failed missing=""
	passed=$(grep -cE '^    ok [0-9]+ ' "$results") || true
	failed=$(grep -cE '^ *not ok [0-9]+ ' "$results") || true
	for suite in $(kunit_suites) kprobes_test; do
		grep -qx " *# Subtest: $suite" "$results" || missing="$missing $suite"
	done
	grep -qx 'that was all' "$results" || missing="$missing (the end)"
	line 'KUnit: %s passed, %s failed%s\n' "$passed" "$failed" "${missing:+, without$missing}"
	[ "$failed" = 0 ] && [ -z "$missing" ] && [ "$passed" != 0 ] &&
		! grep -E 'WARNING: |BUG: |Oops: |Bail out!|Kernel panic' "$results" >&2
}

# line FORMAT...: prints a part of the results, and keeps it for Documentation/results/.
line() {
	# shellcheck disable=SC2059
	printf "$@" | tee -a "$LOGS/lines"
}

status=0 tried=''
rm -f "$LOGS/lines"
for name in ${TOOLS:-$ALL}; do
	start=$SECONDS
	rm -f "$LOGS/$name".*
	chosen=0
	choose "$name" || chosen=$?
	if [ $chosen = 3 ]; then
		line '%-14s not tried: no suite here has it\n' "$name"
		continue
	elif [ $chosen != 0 ]; then
		line '%-14s not tried: it cannot be unpacked\n' "$name"
		status=1
		continue
	fi
	tried=1
	line '%-14s %s: ' "$name" "$(versions "$VARIANT")"
	if ! "$REPO/integration/kernel.sh" build "$VARIANT" >"$LOGS/$name.build" 2>&1; then
		line 'not built, see %s\n' "$LOGS/$name.build"
		status=1
		continue
	fi
	line 'built, '
	boot "$name" || { line 'not booted (exit status %s), ' $? && status=1; }
	judge "$name" || status=1
	say "$name took $((SECONDS - start)) s"
	# A kernel takes 300 MB.
	[ "${KEEP:-}" ] || rm -rf "$("$REPO/integration/kernel.sh" kdir "$VARIANT")"
done
[ "$tried" ] || die "nothing was tried"
results check-toolchains "$LOGS/lines" "make check-toolchains"
exit $status
