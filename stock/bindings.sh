#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Generates bindings for C items that our Rust code uses and that the kernel's bindings crate lacks. An item that the
# crate has must not be generated again: Rust would take it for another type.
#
#   bindings.sh OUT HEADER SOURCES RMETA -- FLAGS
#     OUT       file of Rust to write
#     HEADER    C header that declares the items
#     SOURCES   directory with the Rust code
#     RMETA     metadata of the kernel's bindings crate
#     FLAGS     of the C compiler
#
# Takes RUSTC and BINDGEN from the environment, as Kbuild exports them.
set -eu
out=$1 header=$2 sources=$3 rmeta=$4
shift 5

# The names in the kernel's crate, and those that our code uses. The constant A of an enum e is e_A in Rust.
RUSTC_BOOTSTRAP=1 "$RUSTC" -Zls=items "$rmeta" | sed -n 's/^ *Public .* \([A-Za-z_][A-Za-z0-9_]*\) {.*/\1/p' | LC_ALL=C sort -u >"$out.kernel"
find "$sources" -name '*.rs' -exec grep -ohE 'bindings::[A-Za-z_][A-Za-z0-9_]*' {} + | sed 's/.*:://' | LC_ALL=C sort -u |
	LC_ALL=C comm -23 - "$out.kernel" | sed -E 'p; s/^([a-z0-9_]*[a-z0-9])_[A-Z][A-Z0-9_]*$/\1/' >"$out.used"

# generate KNOWN FLAGS: prints bindings for all items of our headers and for the kernel's items that our code uses, except the
# names in the file KNOWN.
generate() {
	known=$1
	shift
	# shellcheck disable=SC2046
	"$BINDGEN" "$header" --allowlist-file "$sources/.*" --allowlist-function 'ferro_stock_.*' $(sed 's/^/--allowlist-item /' "$out.used") \
		$(sed 's/^/--blocklist-item /' "$known") \
		--rust-target 1.85 --use-core --with-derive-default --ctypes-prefix ffi --no-layout-tests --no-debug '.*' \
		--raw-line '#![no_std]' --raw-line '#![allow(clippy::all, unsafe_op_in_unsafe_fn, warnings)]' \
		--raw-line 'pub use kernel::bindings::*;' --raw-line 'use kernel::ffi;' \
		--raw-line 'use pin_init::{MaybeZeroable, Zeroable};' \
		--with-derive-custom-struct '.*=MaybeZeroable' --with-derive-custom-union '.*=MaybeZeroable' \
		--no-doc-comments --formatter none --enable-function-attribute-detection \
		--blocklist-type '__kernel_s?size_t' --blocklist-type __kernel_ptrdiff_t -- "$@"
}
names() { grep -oE 'pub (const|static|static mut|fn|type|struct|union|mod) [A-Za-z_][A-Za-z0-9_]*' "$1" | sed 's/.* //'; }

generate /dev/null "$@" >"$out.all"
names "$out.all" | LC_ALL=C sort -u | grep -v "^_bindgen_ty_" | LC_ALL=C comm -12 - "$out.kernel" >"$out.known"
# In Rust, a replacement ferro_stock_NAME has the name of the function that the kernel does not export.
generate "$out.known" "$@" | sed -E 's/pub fn ferro_stock_([A-Za-z_0-9]+)/#[link_name = "ferro_stock_\1"] pub fn \1/g' >"$out.new"
mv "$out.new" "$out"
