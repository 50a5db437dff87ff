# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For tests of the command on a kernel without our patches: $tool is a copy of $FERROTRACE, $work a directory.
# testlib.sh removes the installed modules, so it is not for these.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bail() { echo "Bail out! $*" && exit 1; }

# A guest reads the command slowly from its host.
cp "$FERROTRACE" "$work/ferrotrace"
tool=$work/ferrotrace

# run STATUS ARGS...: runs the command, which must end with that status; its output is in $work/out and $work/err.
run() {
	local expected=$1 status=0
	shift
	"$tool" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
	[ "$status" = "$expected" ] || { cat "$work/out" "$work/err" && bail "ferrotrace $*: status $status"; }
}

# has PATTERN FILE: fails, and prints FILE, unless a line matches.
has() { grep -qE -- "$1" "$work/$2" || { cat "$work/$2" && bail "no: $1"; }; }
