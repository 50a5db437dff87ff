# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the clients' own scripts, run_pass/NAME.sh. run.sh sources this file and then the script, with
# "set -e", in the script's own directory, with
#
#   NAME        the client
#   MODULES     the directory of the clients' modules
#
# so the first command that fails fails the client. The script removes its own modules and jobs.

# load [NAME [PARAMETERS...]]: loads a client, this one without NAME.
load() {
	local name=${1:-$NAME}
	shift || :
	insmod "$MODULES/$name.ko" "$@"
}

# unload [NAME]
unload() { rmmod "${1:-$NAME}"; }

# refused CMD...: CMD fails.
refused() {
	if "$@"; then
		echo "not refused: $*"
		return 1
	fi
}

# says TEXT: the log has TEXT since the client began.
says() {
	dmesg | grep -F -e "$1" >/dev/null && return
	echo "the log does not say: $1"
	return 1
}

# complains TEXT: the log has TEXT, and this client causes that line and its report on purpose (its
# own panic, for example). Other complaints remain failures.
complains() {
	says "$1" && echo "$1" >>"$ALLOWED"
}
