#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
#   lint.sh fmt     format every Rust source
#   lint.sh fast    rustfmt, places of unsafe, style, checkpatch, MAINTAINERS, shellcheck: all checks
#                   of less than a minute
#   lint.sh lint    these, and clippy (the kernel's flags in the kernel, cargo's for the host)
set -uo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/lib.sh"

# The variant with the configuration that compiles the most of our code.
VARIANT=${LINT_VARIANT:-modular}

cd "$REPO" || exit 1
failed=""

# step NAME CMD...: run a check and remember its name if it fails.
step() {
	local name=$1
	shift
	say "lint: $name"
	"$@" || failed="$failed $name"
}

sources() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ -e "$f" ] && printf '%s\n' "$f"; done; }

# Kernel code is formatted by the kernel's rules, a Cargo package of the host by its own.
kernel_rust() { sources '*.rs' | grep -v '^tools/'; }
host_packages() { sources 'tools/*Cargo.toml' | xargs -r -n 1 dirname; }

# rustfmt_run [ARGS]: each file on its own, so that no crate root is needed to find it.
rustfmt_run() {
	local tree rustfmt status=0 p
	tree=$("$REPO/integration/source.sh") || return 1
	rustfmt=$(rust_tool "$(find_rustc)" rustfmt) || die "no rustfmt; run 'make setup'"
	kernel_rust | xargs -r "$rustfmt" --config-path "$tree/.rustfmt.toml" "$@" || status=1
	for p in $(host_packages); do
		(cd "$p" && "$(find_cargo)" fmt -- "$@") || status=1
	done
	return $status
}

clippy_host() {
	CARGO_TARGET_DIR=$CACHE/target "$(locked_cargo)" clippy --locked -q --workspace --all-targets --manifest-path "$REPO/Cargo.toml" -- -D warnings
}

# Clippy in the kernel: only our objects are recompiled, with CLIPPY=1, in a separate build
# directory.
clippy_kernel() { "$REPO/integration/kernel.sh" clippy "$VARIANT"; }

# The kernel's code has unsafe in two kinds of places only. An `unsafe impl` of these traits may also stand next to its type: it
# promises something about the type, and does nothing.
unsafe_places() {
	local found
	# shellcheck disable=SC2016
	found=$(kernel_rust | grep -v -E '(^rust/sys/|/raw/|/exports\.rs$)' | xargs -r grep -nE '(^|[^_])unsafe[^_]' | grep -vE ':[0-9]+: *//|`unsafe`|:[0-9]+:unsafe impl (Counted|CBuf|ChannelCallbacks|TrapHandler) for')
	[ -z "$found" ] || { printf '%s\n' "$found" >&2; return 1; }
}

# Not judged: EXPORT_SYMBOL, since symbols that our C files export are defined in Rust;
# EMBEDDED_FUNCTION_NAME and EMBEDDED_FILENAME, which take the short words of the tests for names;
# the next two, since a test program has functions in macros (its harness's) and no kernel headers;
# CONST_STRUCT, which takes offsetof() of a structure for a variable; the next two, since a hook of
# the _RET form returns from the function that it is in, and without CONFIG_FERROTRACE uses none of
# its arguments; IN_ATOMIC, since hook.c uses in_atomic() as far as it goes, and refuses by other
# signs, too; AVOID_EXTERNS, since assembly in the same file defines functions that tests declare.
# In patches OPEN_BRACE: a function with a parameter of a function's type (0024) is taken for a
# statement.
CHECKPATCH="--no-tree -q --show-types --no-summary --ignore
	EXPORT_SYMBOL,EMBEDDED_FUNCTION_NAME,EMBEDDED_FILENAME,MULTISTATEMENT_MACRO_USE_DO_WHILE,PREFER_DEFINED_ATTRIBUTE_MACRO,CONST_STRUCT,MACRO_WITH_FLOW_CONTROL,MACRO_ARG_UNUSED,IN_ATOMIC,AVOID_EXTERNS"

checkpatch() {
	local tree f status=0
	tree=$("$REPO/integration/source.sh") || return 1
	# By stdin: a file that git knows is taken for a source, not for a patch.
	# shellcheck disable=SC2016
	sources 'integration/patches/*.patch' | xargs -r -n 1 -P "$(nproc)" sh -c \
		'perl "$0" $1,OPEN_BRACE - <"$2" || { echo "in $2"; exit 1; }' "$tree/scripts/checkpatch.pl" "$CHECKPATCH" || status=1
	# An operand of assembly, such as %0, outside of a string is taken for an operator in this file.
	f=dprobes/raw/helpers.c
	# shellcheck disable=SC2086
	perl "$tree/scripts/checkpatch.pl" $CHECKPATCH,SPACING -f $f || status=1
	# shellcheck disable=SC2086
	sources '*.c' '*.h' MAINTAINERS | grep -vx $f |
		xargs -r -n 30 -P "$(nproc)" perl "$tree/scripts/checkpatch.pl" $CHECKPATCH -f || status=1
	return $status
}

# Each pattern of MAINTAINERS names something that is there.
maintainers() {
	local pattern status=0
	while read -r _ pattern; do
		compgen -G "$pattern" >/dev/null || { say "MAINTAINERS: nothing is called $pattern"; status=1; }
	done < <(grep '^F:' MAINTAINERS)
	return $status
}

shell_scripts() { { sources '*.sh'; grep -rlE '^#!.*\b(ba)?sh$' .ci integration tools 2>/dev/null; } | sort -u; }
shellcheck_run() { shell_scripts | xargs -r -n 8 -P "$(nproc)" shellcheck -x -P "$REPO"; }

case ${1:-} in
fmt) rustfmt_run --quiet ;;
fast | lint)
	step rustfmt rustfmt_run --check
	step unsafe-places unsafe_places
	step style integration/style.py
	step checkpatch checkpatch
	step maintainers maintainers
	if have shellcheck; then step shellcheck shellcheck_run; fi
	if [ "$1" = lint ]; then
		step clippy-host clippy_host
		step clippy-kernel clippy_kernel
	fi
	[ -z "$failed" ] || die "lint failed:$failed"
	say "lint: clean"
	;;
*) die "usage: lint.sh fmt|fast|lint" ;;
esac
