# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# A reader that is asleep has to be woken, which the client probes. It reads all, and counts the bytes.
cat >reader.py <<'PYTHON'
import glob, os, select, sys, time

name = sys.argv[1]
# The last file that is made.
while not os.path.exists(f"/sys/kernel/debug/{name}/dropped"):
    time.sleep(0.01)
files = [open(f, "rb", buffering=0) for f in glob.glob(f"/sys/kernel/debug/{name}/cpu[0-9]")]
poll = select.poll()
for f in files:
    poll.register(f, select.POLLIN)
total = 0
while True:
    poll.poll(100)
    done = os.path.exists("finished")
    got = sum(len(f.read(4096) or b"") for f in files)
    total += got
    if done and not got:
        break
print(total)
PYTHON
for channel in relay_within relay_within_global; do python3 reader.py "$channel" >"$channel.bytes" & done
load
touch finished
wait
for channel in relay_within relay_within_global; do
	line=$(dmesg | sed -n "s/.*: $channel: \(.*\)/\1/p")
	read -r written _ _ refused _ _ counted _ <<<"$line"
	echo "$channel: $line; read $(cat "$channel.bytes")"
	[ "$written" -gt 0 ] && [ "$written" = "$(cat "$channel.bytes")" ] && [ "$refused" -ge 10 ] && [ "$refused" = "$counted" ]
done
unload
