# SPDX-License-Identifier: GPL-2.0
#
# Hundreds of probes and more, at once and under load. Part of run.sh.
# shellcheck shell=bash disable=SC2016,SC2154

# Hundreds of probes, of both kinds.
many() {
	local start=${EPOCHREALTIME/./} symbol n=0 added removed
	for symbol in $(awk '$3 ~ /^__x64_sys_/ { print $3 }' /proc/kallsyms | sort -u | head -n 160); do
		put "p $symbol $symbol" && put "r $symbol.ret $symbol" || return 1
		n=$((n + 2))
	done
	added=${EPOCHREALTIME/./}
	is count $n "$(wc -l <"$PROBES")" || return 1
	is "in the table" $((n + 1)) "$(probe list | wc -l)" || return 1
	[ "$(awk -F 'hits=' '{ sum += $2 } END { print sum }' "$PROBES")" -gt 10 ] || return 1
	removed=${EPOCHREALTIME/./}
	put '-*'
	echo "# $n probes: added in $(((added - start) / 1000)) ms, removed in $(((${EPOCHREALTIME/./} - removed) / 1000)) ms" >&3
}

# A pattern with a thousand functions is added, and removed, with a few calls of the kernel. One by one each probe takes a synchronisation
# of the CPUs; so it does with the C engine in any case, which changes the code of one function after the other: fewer there.
thousand() {
	local n begun added syncs least=1000
	local patterns=('__x64_sys_*' '*_show' '*_store' '*_open' '*_release' '*_get' '*_put' '*_probe' '*_remove' '*_ioctl')
	if on_mainline; then patterns=('__x64_sys_[a-m]*') least=100; fi
	put "p sync smp_text_poke_sync_each_cpu" || return 1
	# Not unasked.
	on_mainline || refused "--yes adds them" probe add "${patterns[@]}" || return 1
	begun=${EPOCHREALTIME/./}
	probe add --yes "${patterns[@]}" >"$work/names" 2>"$work/err" || {
		cat "$work/err"
		return 1
	}
	added=${EPOCHREALTIME/./}
	syncs=$(field sync hits)
	cat "$work/err"
	put -sync
	n=$(wc -l <"$work/names")
	is probes "$n" "$(wc -l <"$PROBES")" || return 1
	[ "$n" -gt $least ] || { echo "$n probes"; return 1; }
	echo "# $n probes: added in $(((added - begun) / 1000)) ms, with $syncs synchronisations" >&3
	# Syncs for jumps, which are placed soon, are among them.
	on_mainline || [ "$syncs" -lt $((n / 2)) ] || return 1
	begun=${EPOCHREALTIME/./}
	xargs -a "$work/names" "$FERROTRACE" probe remove && none_left || return 1
	echo "# removed in $(((${EPOCHREALTIME/./} - begun) / 1000)) ms" >&3
	# As temporary ones.
	begin_tool watching probe count -d 0.5 '__x64_sys_*' && wait "$tool_pid" && grep -q 'in all, .* hits' "$work/out"
}

# Probes are added and removed under load, while others are watched.
storm() {
	local end rounds=0
	put 'r stays do_sys_openat2' || return 1
	watching --json || return 1
	load_up
	end=$((SECONDS + $(storm_rounds 5)))
	# As long as it takes until there was load enough.
	while [ $SECONDS -lt $end ] || [ $rounds -lt 3 ] || [ "$(grep -c '"probe":"stays"' "$work/out")" -le 100 ]; do
		put 'p a do_sys_openat2' && put 'r b do_sys_openat2' && put 'p c kernel_clone' && put 'r d vfs_open' &&
			put '-b' && put '-a' && put 'p a vfs_open' && put '-d' && put '-a' && put '-c' || return 1
		rounds=$((rounds + 1))
	done
	watched >"$work/summary" || return 1
	load_down
	cut -c 1-300 "$work/summary"
	echo "# $rounds rounds, $(wc -l <"$work/out") lines" >&3
	# Every line is whole.
	! grep -qv '^{.*}$' "$work/out" && put '-*'
}
