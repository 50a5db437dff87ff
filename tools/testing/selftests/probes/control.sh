# SPDX-License-Identifier: GPL-2.0
#
# The module's files: probes that are added and removed by them, with the module, with the probed
# code, and with a CPU. Part of run.sh.
# shellcheck shell=bash disable=SC2086,SC2154
# shellcheck shell=bash disable=SC2086,SC2154

# The line written for each command; a refused one changes nothing.
lines() {
	local line errno
	put 'p a kernel_clone' && put 'r b do_sys_openat2' && put 'p c kernel_clone' || return 1
	cut -d ' ' -f 1-4 "$PROBES" | sed 's/id=[0-9]* //' >"$work/list"
	cat "$work/list"
	diff - "$work/list" <<-END || return 1
		name=a kind=probe place=kernel_clone
		name=b kind=return place=do_sys_openat2
		name=c kind=probe place=kernel_clone
	END
	while IFS=: read -r errno line; do
		refused "$errno" put "$line" || { echo "'$line'"; return 1; }
		cut -d ' ' -f 1-4 "$PROBES" | sed 's/id=[0-9]* //' | diff "$work/list" - || return 1
	done <<-END
		Invalid argument:
		Invalid argument:p
		Invalid argument:p x
		Invalid argument:p x kernel_clone and more
		Invalid argument:p x kernel_clone a=%zz
		Invalid argument:p x kernel_clone a=\$retval
		Invalid argument:p x kernel_clone a=%di a=%si
		Invalid argument:p x kernel_clone if b==1
		Invalid argument:q x kernel_clone
		Invalid argument:p x/y kernel_clone
		Invalid argument:p x kernel_clone+
		Invalid argument:p x kernel_clone+0xg
		Invalid argument:p x kernel_clone+-1
		Invalid argument:r x kernel_clone+4
		Invalid argument:-
		Invalid argument:- a
		Invalid argument:p $(printf 'x%.0s' {1..64}) kernel_clone
		Invalid argument:p x $(printf 'x%.0s' {1..2000})
		File exists:p a do_exit
		File exists:r a do_exit
		No such file:-x
		No such file:p x there_is_no_such_function
		No such file:r x there_is_no_such_function
		Invalid argument:p x exc_int3
		Invalid or incomplete:p x kernel_clone+1
	END
	put '-b' && is names "a c" "$(sed 's/.*name=\([^ ]*\).*/\1/' "$PROBES" | xargs)" || return 1
	put 'p b do_exit' && put '-*'
}

# Several lines in a write: those up to the first that fails are done, and the write returns how many bytes these are.
batches() {
	local many=150
	if on_mainline; then many=30; fi
	python3 - "$PROBES" $many <<-'END'
		import errno, os, sys
		many = int(sys.argv[2])
		def write(text):
		    fd = os.open(sys.argv[1], os.O_WRONLY)
		    try:
		        return os.write(fd, text.encode())
		    except OSError as error:
		        return errno.errorcode[error.errno]
		    finally:
		        os.close(fd)
		def names():
		    with open(sys.argv[1]) as probes:
		        return [line.split(" name=")[1].split(" ")[0] for line in probes]
		def same(what, got, want):
		    if got != want:
		        sys.exit("%s: %r, not %r" % (what, got, want))
		with open("/proc/kallsyms") as kallsyms:
		    words = [line.split() for line in kallsyms]
		all_calls = sorted({w[2] for w in words if w[1] in "tT" and w[2].startswith("__x64_sys_")})
		calls = all_calls[:many]
		lines = ["p e.%s %s\n" % (call, call) for call in calls] + ["r r.%s %s\n" % (call, call) for call in calls]
		lines += ["p a.%s %s n=%%di\n" % (call, call) for call in calls] + ["r b.%s %s n=$arg1 v=$retval\n" % (call, call) for call in calls]
		lines += ["r c.%s %s v=$retval if v==-2\n" % (call, call) for call in calls]
		same("all", write("".join(lines)), len("".join(lines)))
		same("names", names(), [line.split()[1] for line in lines])
		gone = "".join("-%s\n" % name for name in names()[:4 * many])
		same("removed", write(gone), len(gone))
		same("left", len(names()), many)
		same("no more", write("-*"), 2)
		same("none", names(), [])
		# At any position of the refused one, for any reason.
		good = ["p g%d %s\n" % (n, call) for n, call in enumerate(all_calls[:37])]
		for bad, why in [("p x no_such_function", "ENOENT"), ("p x kernel_clone+1", "EILSEQ"), ("p x exc_int3", "EINVAL"),
		                 ("p g0 do_exit", "EEXIST"), ("r x exc_int3", "EINVAL"), ("-no", "ENOENT"), ("what", "EINVAL"),
		                 ("p x " + "y" * 600, "EINVAL")]:
		    for at in (1, 2, 18, 36, 37):
		        before, after = "".join(good[:at]), "".join(good[at:])
		        same("%s at %d" % (bad, at), write(before + bad + "\n" + after), len(before))
		        same("%s at %d" % (bad, at), names(), ["g%d" % n for n in range(at)])
		        same("%s alone" % bad, write(bad + "\n" + after), why)
		        same("removed", write("-*\n" + before), 3 + len(before))
		        same("again", names(), ["g%d" % n for n in range(at)])
		        same("removed", write("\n -* \n\n"), 7)
		same("too much", write("p x f\n" * 20000), "EINVAL")
	END
}

for_root_only() {
	is mode 600 "$(stat -c %a "$PROBES")" && is mode 600 "$(stat -c %a $DIR/cpu0)" && is mode 400 "$(stat -c %a $DIR/format)" || return 1
	refused "only root may probe" setpriv --reuid 65534 --clear-groups "$FERROTRACE" probe list
}

# add, list and remove of the command.
commands() {
	is added "kernel_clone.ret do_sys_openat2.ret" "$(probe add -r kernel_clone do_sys_openat2 | xargs)" || return 1
	is added mine "$(probe add --name mine kernel_clone)" || return 1
	(:)
	probe list
	is rows "kernel_clone.ret do_sys_openat2.ret mine" "$(probe list | awk 'NR > 1 { print $1 }' | xargs)" || return 1
	probe list | grep -q '^mine  *probe  *kernel_clone  *[1-9][0-9]*  *0  on$' || return 1
	probe list --json | grep -q '"place": "do_sys_openat2"' || return 1
	refused "did you mean kernel_clone?" probe add kernel_clome || return 1
	refused "there is a probe mine already" probe add --name mine do_exit || return 1
	refused "no probe at kernel_clone+0x1: not the start of an instruction (EILSEQ)" probe add kernel_clone+1 || return 1
	refused "(EINVAL)" probe add -r exc_int3 || return 1
	refused "there is no probe no; probes: kernel_clone.ret, do_sys_openat2.ret, mine" probe remove no || return 1
	# All or none.
	refused "the kernel has no function" probe add do_exit there_is_no_such_function || return 1
	is count 3 "$(wc -l <"$PROBES")" || return 1
	probe remove mine kernel_clone.ret && is rest do_sys_openat2.ret "$(probe list | awk 'NR > 1 { print $1 }')" &&
		probe remove --all
}

# The module is unloaded with its probes.
unload() {
	load_up
	for _ in 1 2; do
		put 'p a do_sys_openat2' && put 'r b do_sys_openat2' && put 'r c kernel_clone' && sleep 0.2 || return 1
		rmmod ferrotrace_kprobe_events || return 1
		[ ! -e $DIR ] || return 1
		# Where tracefs has kprobe_events the command uses those instead.
		[ -e /sys/kernel/tracing/kprobe_events ] || refused "modprobe ferrotrace_kprobe_events" probe add kernel_clone || return 1
		load || return 1
	done
	load_down
}

# A probe in a module that is unloaded.
gone() {
	local symbol
	insmod "$KO/samples/relay_c_client.ko" || return 1
	symbol=$(awk '$2 == "t" && $4 == "[relay_c_client]" && $3 !~ /init|exit|cleanup|__|\./ { print $3; exit }' /proc/kallsyms)
	echo "symbol: $symbol"
	probe add --name a "$symbol" && is state on "$(field a state)" && rmmod relay_c_client || return 1
	is state gone "$(field a state)" && probe list && probe remove a
}

# A CPU that is started while its hits are watched.
hotplug() {
	local online=/sys/devices/system/cpu/cpu1/online
	[ -w $online ] || bail "no CPU to take down"
	echo 0 >$online && rmmod ferrotrace_kprobe_events && load && [ ! -e $DIR/cpu1 ] || return 1
	watching --json kernel_clone || return 1
	echo 1 >$online || return 1
	# shellcheck disable=SC2016
	taskset -c 1 bash -c 'for ((i = 0; i < 30; i++)); do (:); done' || return 1
	watched && [ "$(grep -c '"cpu":1,' "$work/out")" -ge 30 ]
}
