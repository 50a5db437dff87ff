#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs objtool on functions in Rust for ftrace, in forms that no variant has: with padding before
# functions, with landing pads, in one object with functions in C whose sites the compiler has
# recorded or objtool records.
#
#	patchable.sh VARIANT	the variant has been built
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"

kdir=$("$REPO/integration/kernel.sh" kdir "${1:?usage: patchable.sh VARIANT}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -f "$kdir/.config" ] || die "no kernel $1 here"
if ! grep -qx CONFIG_FUNCTION_TRACER_RUST=y "$kdir/.config"; then
	echo "no functions in Rust are traced in this variant"
	exit
fi
cd "$work"
cat >rust.rs <<'EOF'
#![no_std]
#[no_mangle] #[inline(never)] pub fn rust_a(x: i32) -> i32 { x ^ 1 }
#[no_mangle] #[inline(never)] pub fn rust_b(x: i32) -> i32 { rust_a(x) ^ 2 }
#[no_mangle] #[inline(never)] #[link_section = ".noinstr.text"] pub fn rust_noinstr(x: i32) -> i32 { x ^ 4 }
EOF
cat >c.c <<'EOF'
int c_a(int x) { return x ^ 1; }
int __attribute__((no_instrument_function)) c_notrace(int x) { return x ^ 2; }
EOF

# The kernel's own nop of 5 bytes, and LLVM's.
NOP="0f 1f 44 00 00" LLVM_NOP="0f 1f 44 00 08"

# entry FUNCTION: the 5 bytes at its entry, after the landing pad.
entry() {
	objdump -d out.o | awk -F '\t' -v f="<$1>:" '
		index($0, f) { inside = 1; next }
		inside && $3 !~ /^endbr64/ { sub(/ +$/, "", $2); print $2; exit }'
}

# sites: where __mcount_loc says that sites are.
sites() {
	readelf -rW out.o | awk '/^Relocation section/ { inside = /\.rela__mcount_loc/ }
		inside && $3 == "R_X86_64_64" { print $5 $6 $7 }' | sort | tr '\n' ' '
}

# form NAME PADDING LANDING_PAD COMPILER OBJTOOL_OPTIONS...
form() {
	local name=$1 padding=$2 pad=$3 compiler=$4 rust c flags
	shift 4
	rust="-Zpatchable-function-entry=$((padding + 5)),$padding"
	c="" flags=()
	if [ "$padding" != 0 ]; then
		# as the kernel gives it to all functions
		rust="-Zpatchable-function-entry=$padding,$padding $rust"
		c="-fpatchable-function-entry=$padding,$padding"
		flags+=("--prefix=$padding")
	fi
	if [ "$pad" != 0 ]; then
		rust="$rust -Zcf-protection=branch"
		c="$c -fcf-protection=branch"
		flags+=(--ibt)
	else
		c="$c -fcf-protection=none"
	fi
	# shellcheck disable=SC2086
	RUSTC_BOOTSTRAP=1 "$(find_rustc)" --edition=2021 --crate-type rlib --emit=obj -Copt-level=2 -Crelocation-model=static \
		-Ccode-model=kernel -Cpanic=abort $rust -o rust.o rust.rs
	# shellcheck disable=SC2086
	$compiler -O2 -pg -mfentry -mcmodel=kernel -fno-pic -fno-asynchronous-unwind-tables $c -c -o c.o c.c
	ld -r -z noexecstack -o out.o c.o rust.o
	"$kdir/tools/objtool/objtool" --patchable --orc --uaccess --link --module --werror "${flags[@]}" "$@" out.o
	local got want at
	at=$(printf %x $((padding + pad)))
	# each function is the first in its section
	want=".text+$at .text.rust_a+$at .text.rust_b+$at $NOP, $NOP, $LLVM_NOP"
	got="$(sites)$(entry rust_a), $(entry rust_b), $(entry rust_noinstr)"
	if [ "$got" != "$want" ]; then
		echo "$name: $got, not $want" >&2
		return 1
	fi
	echo "$name: as expected"
}

for padding in 0 16; do
	for pad in 0 4; do
		form "gcc, padding $padding, landing pad $pad" $padding $pad "gcc -mrecord-mcount"
		form "objtool records all, padding $padding, landing pad $pad" $padding $pad gcc --mcount --mnop
	done
done
if clang=$(find_clang); then form "clang" 16 4 "$clang" --mcount --mnop; fi
