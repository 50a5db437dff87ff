#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests the kprobes engine for kernels that no variant is: compiles it with their options, and
# checks that it makes certain calls there, and not here.
#
#	unconfigured.sh VARIANT	the variant has been built
set -euo pipefail
# shellcheck source=integration/lib.sh
. "$(dirname "$0")/../../integration/lib.sh"

kdir=$("$REPO/integration/kernel.sh" kdir "${1:?usage: unconfigured.sh VARIANT}")
module=$REPO/tools/testing/selftests/kprobes/module
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$kdir"
if ! grep -qx CONFIG_KPROBES_ENGINE_RUST=y .config; then
	echo "the C engine"
	exit
fi
failed=0

# say TEXT CMD...: prints a result, from the command's status.
say() {
	local text=$1
	shift
	if "$@"; then
		echo "$text"
	else
		echo "NOT: $text"
		failed=1
	fi
}
not() { ! "$@"; }

# command_of OBJECT: the kernel's command for it, up to the compiler's end, and without side effects
# there.
command_of() {
	local command
	command=$(sed -n '1s/^savedcmd_[^ ]* := //p' "$(dirname "$1")/.$(basename "$1").cmd")
	sed -E 's# -Wp,-MMD,[^ ]+##; s# --emit=(metadata|dep-info)=[^ ]+##g' <<<"${command%% ; *}"
}

# compile OBJECT NAME OPTIONS: in the work directory, with some more options.
compile() {
	eval "RUSTC_BOOTSTRAP=1 $(command_of "$1" | sed -E "s# -o [^ ]+# -o $work/$2#; s#--emit=obj=[^ ]+#--emit=obj=$work/$2#") $3"
}

# calls OBJECT SECTION FUNCTION SYMBOL: in this section, a function with FUNCTION in its name refers
# to the symbol.
calls() {
	objdump -dr -j "$2" "$1" | awk -v function_="$3" -v symbol="$4" '
		/^[0-9a-f]+ <.*>:$/ { inside = index($2, function_) }
		inside && $2 ~ /^R_X86_64_/ && $3 ~ "^" symbol "([-+]|$)" { found = 1 }
		END { exit !found }'
}

text=kernel/ferrotrace/rust/sys/code/text.o
sys=kernel/ferrotrace/rust/sys/ferro_sys.o
builtin=kernel/ferrotrace/kprobes/builtin/ferro_kprobes_builtin.o
engine=kernel/ferrotrace/kprobes/kprobes_engine.o

# A breakpoint of kgdb in a function that is decoded: only kgdb knows the original byte.
compile $text kgdb.o -DCONFIG_KGDB=1
say "kgdb: its breakpoints are asked for" calls "$work/kgdb.o" .text ferro_is_kgdb_breakpoint kgdb_has_hit_break
if ! grep -qx CONFIG_KGDB=y .config; then
	say "no kgdb: they are not" not calls $text .text ferro_is_kgdb_breakpoint kgdb_has_hit_break
fi

# The trap of kCFI decodes the bytes before it.
compile $text cfi.o -DCONFIG_ARCH_USES_CFI_TRAPS=1
say "kCFI: its traps are asked for" calls "$work/cfi.o" .text ferro_is_cfi_check is_cfi_trap
if ! grep -qx CONFIG_ARCH_USES_CFI_TRAPS=y .config; then
	say "no kCFI: they are not" not calls $text .text ferro_is_cfi_check is_cfi_trap
fi
for ask in ferro_is_kgdb_breakpoint ferro_is_cfi_check; do
	say "the engine asks $ask()" grep -q "U $ask\$" <(nm $engine $sys)
done

# Calls that RCU does not watch are not followed to their returns.
for option in FTRACE_VALIDATE_RCU_IS_WATCHING KPROBE_EVENTS_ON_NOTRACE; do
	compile $builtin $option.o "--cfg CONFIG_$option"
	for function in Kretprobe5enter rethook_try_get; do
		say "$option: $function() asks RCU" calls "$work/$option.o" .kprobes.text $function rcu_is_watching
	done
done
say "neither: nobody does" not calls $builtin .kprobes.text "" rcu_is_watching

# Thunks for returns and indirect branches, with all mitigations, have the names that the selftests
# expect to be refused.
mitigations=
for option in RETPOLINE RETHUNK UNRET_ENTRY SRSO CALL_DEPTH_TRACKING ITS; do
	mitigations+=" -DCONFIG_MITIGATION_$option=1"
done
assemble=$(command_of kernel/ferrotrace/kprobes/builtin/return_trampoline.o | sed "s# -c -o .*##")
eval "$assemble $mitigations -c -o $work/thunks.o ../arch/x86/lib/retpoline.S"
# One register for all, and each function once.
nm --defined-only "$work/thunks.o" | awk '$2 ~ /^[tT]$/ && $3 !~ /_array$/ { print $3 }' |
	sed -E 's/^__pi_//; s/_thunk_(r[a-ds][xip]|r[bd][pi]|r[0-9]+)$/_thunk_rax/' | sort -u >"$work/thunks"
sed -n 's/^\tRESERVED //p' "$module/reserved.S" | sed 's/^__pi_//' | sort -u >"$work/reserved"
# By name, if the kernel has them.
sed -nE 's/^\t\{ "([^"]+)", IS_ENABLED\(CONFIG_MITIGATION_.*/\1/p' "$module/refuse.c" | sort -u >"$work/tried"
missing=$(comm -23 "$work/thunks" "$work/reserved" | awk '{ printf "%s ", $0 }')
say "mitigations have no other names than the selftests ${missing:+($missing)}" test -z "$missing"
# warn_thunk_thunk is of another file.
unknown=$(comm -13 "$work/thunks" "$work/reserved" |
	awk '/^__x86|thunk|_ret$/ && !/^warn_thunk_thunk$/ { printf "%s ", $0 }')
say "and the selftests no others than mitigations ${unknown:+($unknown)}" test -z "$unknown"
say "nor do they try others" test -s "$work/tried" -a -z "$(comm -13 "$work/thunks" "$work/tried")"
say "warn_thunk_thunk is there" grep -q '^THUNK warn_thunk_thunk' ../arch/x86/entry/entry.S

# The target of a jump is compared with them; they must exist by these names.
compile kernel/ferrotrace/rust/sys/code/text_tables.o around.o "$mitigations"
unknown=$(comm -23 <(nm -u "$work/around.o" | awk '$2 ~ /_thunk_/ { print $2 }' | sort) \
	<(nm --defined-only "$work/thunks.o" | awk '{ print $3 }' | sort) | awk '{ printf "%s ", $0 }')
say "thunks that jumps may lead to are there ${unknown:+($unknown)}" test -z "$unknown"
say "all arrays of them are asked for" test "$(nm -u "$work/around.o" | grep -c '_thunk_array$')" = 4

[ $failed = 0 ]
