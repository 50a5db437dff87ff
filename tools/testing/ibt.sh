#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs objtool on our assembly for a kernel with indirect branch tracking, which no variant has:
# each function either is a landing pad or is marked as none. Otherwise a module or vmlinux does not
# build there.
#
#	ibt.sh VARIANT	the variant has been built
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"

kdir=$("$REPO/integration/kernel.sh" kdir "${1:?usage: ibt.sh VARIANT}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$kdir"

# compile OBJECT: compiles it with the flags of the kernel and those of IBT. Prints its path.
compile() {
	local object=$1 command
	command=$(sed -n 's/^savedcmd_[^ ]* := //p' "$(dirname "$object")/.$(basename "$object").cmd")
	# Without the commands after the compiler: objtool gets all objects together.
	command=${command%% ; *}
	object=$work/$(basename "$object")
	command=$(sed -E "s# -o [^ ]+# -o $object#; s# -fcf-protection=none##" <<<"$command")
	eval "$command -fcf-protection=branch -DCONFIG_X86_KERNEL_IBT=1"
	printf '%s\n' "$object"
}

objects=()
for source in "$REPO"/kprobes/builtin/*.S "$REPO"/kprobes/raw/*.S "$REPO"/kprobes/jprobe/raw/*.S; do
	[ -e "$source" ] || { echo "no $source" >&2; exit 1; }
	object=kernel/ferrotrace/${source#"$REPO/"}
	object=${object%.S}.o
	# As far as this variant has them.
	if [ -e "$object" ]; then objects+=("$(compile "$object")"); fi
done
if [ ${#objects[@]} = 0 ]; then
	echo "no assembly in this variant"
	exit
fi
# Functions whose address other code of ours takes, and does not call. Debugging information has all
# addresses.
nm "${objects[@]}" | awk '$2 == "T" { print $3 }' | sort >"$work/functions"
find kernel/ferrotrace -name '*.o' -exec readelf -rW {} + 2>/dev/null |
	awk '/^Relocation section/ { debug = /\.rela\.debug_/ } !debug && $3 ~ /^R_X86_64_(64|32S?|PC32|GOTPCREL.*)$/ { print $5 }' | sort -u >"$work/taken"
{
	echo '.section .data, "aw"'
	comm -12 "$work/functions" "$work/taken" | sed 's/^/.quad /'
	echo '.section .note.GNU-stack, "", @progbits'
} >"$work/taken.s"
as -o "$work/taken.o" "$work/taken.s"
ld -r -z noexecstack -o "$work/all.o" "${objects[@]}" "$work/taken.o"
./tools/objtool/objtool --ibt --orc --stackval --uaccess --link --module --werror "$work/all.o"
sed -n 's/^.quad /looked at: /p' "$work/taken.s"
