#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Turns kbuild's output on stdin into a line every few seconds; the caller's log keeps everything.
# Steps ("  CC      kernel/fork.o") are counted, warnings are passed on.
set -u

count=0 last=$SECONDS start=$SECONDS
step='^  [A-Z][A-Z0-9_ ]*[[:space:]]+[^[:space:]]'
while IFS= read -r line; do
	if [[ $line =~ $step ]]; then
		count=$((count + 1))
		if [ $((SECONDS - last)) -ge 10 ]; then
			printf '  %4d steps, %d:%02d  %s\n' $count $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)) "${line##* }"
			last=$SECONDS
		fi
	elif [[ $line == *warning:* || $line == *WARNING:* ]]; then
		printf '%s\n' "$line"
	fi
done
