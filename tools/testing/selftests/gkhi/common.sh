# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the tests of this folder: the registry's files, gkhi_selftest's commands.
#
# Not pipefail: a failing command's output is searched for the refusal.
set -u

GKHI=/sys/kernel/debug/gkhi
SELF=/sys/kernel/debug/gkhi_selftest
# shellcheck source=tools/testing/selftests/lib/testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/testlib.sh"

# The registered hooks and exits are the same after a check as before, except for the counts; and
# before it as after the last one, unless $was has been emptied.
was=
before() { was=${was:-$(state)}; }
after() {
	local is
	is=$(state)
	[ "$is" = "$was" ] && return
	echo "$was" >"$work/was"
	echo "$is" | diff "$work/was" -
	was=
	return 1
}
clean_up() { was=; }

# state: hooks and exits, and armed ones; without counts.
state() { sed -E 's/ (hits|stops)=[0-9]+//g' $GKHI/hooks; }

# ctl WORDS...: a command of gkhi_selftest.
ctl() { printf '%s' "$*" >$SELF/ctl; }

# reg HOOK NAME [FLAGS [PARAMS [ANSWER]]]
reg() { ctl register "$1" "$2" "${3:-0}" "${4:-0}" "${5:-0}"; }

# fires HOOK WANT: a dispatch, and its expected result: the calls, and the answer.
fires() {
	local fired
	ctl fire "$1" && read -r fired <$SELF/ctl || return 1
	[ "$fired" = "$2" ] && return
	echo "$1: $fired, not $2"
	return 1
}

# calls NAME: the exit's own count.
calls() { sed -n "s/^$1 calls=//p" $SELF/ctl; }

# field HOOK KEY [EXIT]: of the hook, or of the exit on it.
field() {
	if [ $# = 2 ]; then
		sed -n "s/^hook=$1 .*\b$2=\([^ ]*\).*/\1/p" $GKHI/hooks
	else
		sed -n "/^hook=$1 /,/^hook=/s/^ *exit=$3 .*\b$2=\([^ ]*\).*/\1/p" $GKHI/hooks
	fi
}

# exits HOOK: the names, in the order that is listed, each with its number.
exits() {
	sed -n "/^hook=$1 /,/^hook=/s/^ *exit=\([^ ]*\) order=\([0-9]*\) .*/\2:\1/p" $GKHI/hooks | xargs
}

# put FILE LINE: one write; put_text FILE TEXT: the same of more than a line.
put() { printf '%s' "$2" >"$GKHI/$1"; }
put_text() { printf '%s' "$2" | dd of="$GKHI/$1" bs=1M iflag=fullblock status=none; }
