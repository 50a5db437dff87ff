#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The kselftests of ftrace's trampolines: mainline's and ours. And clients of ftrace: samples, and
# the kernel's own livepatch and ftrace selftests: their results with our engine must be mainline's,
# or better: all of them with FERROTRACE_STORM=long, otherwise some. Mainline's guest has once hung
# in the last of the samples.
set -uo pipefail
# shellcheck source=tools/testing/suites/lib.sh
. "$(dirname "$0")/lib.sh"

samples="ftrace-direct ftrace-direct-too"
patches="ftrace kprobe"
tests="test.d/ftrace/func-filter-glob.tc test.d/ftrace/func_set_ftrace_file.tc test.d/ftrace/fgraph-filter.tc"
if [ "${FERROTRACE_STORM:-}" = long ]; then
	patches="livepatch callbacks shadow-vars state ftrace sysfs syscall kprobe"
	samples="$samples ftrace-direct-modify ftrace-direct-multi ftrace-direct-multi-modify"
	tests=test.d
fi

# livepatch_of VARIANT: prints the directory of the kernel's livepatch selftests; builds the
# programs and modules that they use.
livepatch_of() {
	local kdir from
	kdir=$("$REPO/integration/kernel.sh" kdir "$1") || return 1
	from=$(dirname "$kdir")/tools/testing/selftests/livepatch
	"$REPO/integration/kernel.sh" make "$1" -s "M=$from/test_modules" "MO=$kdir/selftests-livepatch" modules >&2 &&
		gcc -O2 -o "$kdir/selftests-livepatch/test_klp-call_getpid" "$from/test_klp-call_getpid.c" >&2 &&
		printf '%s\n' "$from"
}

for variant in $VARIANTS; do
	case $variant in mainline | modular | builtin | debug | size | coverage | distro*) ;; *) continue ;; esac
	if [ $# != 0 ]; then
		suite_on "$variant" "$@"
		continue
	fi
	short=
	if [ "$variant" = size ] || in_part "$variant"; then short=1; fi
	# shellcheck disable=SC2046
	suite_on "$variant" $(if [ $short ]; then echo one sets.changes batch data; fi)
	if [ "$variant" = modular ] && [ "${FERROTRACE_STORM:-}" = long ]; then
		TIMEOUT=${TIMEOUT:-1800} suite_on modular renew.1_begin renew.hundred_rounds renew.2_end
	fi
	if [ "$variant" = modular ] || [ "${FERROTRACE_STORM:-}" = long ]; then
		tap_nest "ftrace gives up: $variant" run_vm "$variant" tools/testing/selftests/ftrace_tramp/killed.sh
		# Before it changes sites, instead, and when an ops is registered.
		for how in "early at=__unregister_ftrace_function" "going skip=1" "coming coming=1 at=ftrace_modify_all_code"; do
			tap_nest "ftrace gives up, ${how%% *}: $variant" \
				run_vm "$variant" "tools/testing/selftests/ftrace_tramp/ftrace_bug.sh $how"
		done
	fi
	if [ "$variant" != modular ] && [ "$variant" != debug ] && [ "$variant" != coverage ]; then
		APPEND="ftrace=function ftrace_filter=do_one_initcall initcall_debug log_buf_len=4M" tap_nest "ftrace at boot: $variant" \
			run_vm "$variant" "tools/testing/selftests/ftrace_tramp/boot.sh $variant"
	fi
	if [ "$variant" = size ]; then tap_nest "ftrace's tests at boot: size" run_vm size tools/testing/selftests/ftrace_tramp/startup.sh; fi
	if [ $short ]; then continue; fi
	# The debug kernel takes minutes for each.
	some=
	if [ "$variant" != debug ]; then some="$(ftracetest_of "$variant") $tests"; fi
	livepatch=$(livepatch_of "$variant") || tap_not_ok "selftests/livepatch: $variant (do not build)"
	# A guest that hangs is not to cost the whole check.
	limit=600
	if [ "${FERROTRACE_STORM:-}" = long ]; then limit=3600; fi
	CPUS=2 TIMEOUT=${TIMEOUT:-$limit} OUT=$LOGS/ftrace-clients-$variant tap_nest "clients of ftrace: $variant" \
		run_vm "$variant" "LIVEPATCH=$livepatch tools/testing/selftests/ftrace_tramp/clients.sh '$samples' '$patches' $some"
done
# needs_kprobe_events: prints the descriptions of the kernel's ftrace selftests that need
# kprobe_events in tracefs.
needs_kprobe_events() {
	grep -rlE '^# requires:.*kprobe_events' "$(FERROTRACE_STORM='' ftracetest_of mainline)/test.d" |
		xargs sed -n 's/^# description: *//p'
}

# results: prints the results in LOGS, as the list in the tree.
results() {
	echo "# Results of the kernel's ftrace and livepatch selftests, on the variants mainline|modular|builtin: 39-selftests-ftrace-tramp.sh"
	awk -F'|' '
		FNR == 1 { file++ }
		file == 1 { names[++count] = $1 }
		{ result[file, $1] = $2 }
		END { for (i = 1; i <= count; i++) print names[i] "|" result[1, names[i]] "|" result[2, names[i]] "|" result[3, names[i]] }' \
		"$LOGS/ftrace-clients-"{mainline,modular,builtin}/ftracetest
}

if [ $# != 0 ]; then
	tap_plan
	exit
fi
compared=0
for variant in modular builtin; do
	if under_test mainline && under_test $variant && [ -e "$LOGS/ftrace-clients-$variant" ]; then
		# shellcheck disable=SC2034 # of compare_ftracetest
		declare -A known=()
		if [ $variant = modular ]; then
			while IFS= read -r name; do known[$name]="kprobe_events is there where the engine is built in"; done < <(needs_kprobe_events)
		fi
		compare_ftracetest "$LOGS/ftrace-clients-mainline" "$LOGS/ftrace-clients-$variant"
		compared=$((compared + 1))
	else
		tap_skip "ftracetest: $variant as mainline" "not under test"
	fi
done
list=$REPO/tools/testing/selftests/ftrace_tramp/results
if [ "${FERROTRACE_STORM:-}" != long ] || [ $compared != 2 ]; then
	tap_skip "ftracetest: the list" "not all were run"
elif results | diff "$list" - >&2; then
	tap_ok "ftracetest: the list"
else
	tap_not_ok "ftracetest: the list: not as in $list"
fi
tap_plan
