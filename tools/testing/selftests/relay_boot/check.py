#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the records of samples/relay_boot.c of this boot: check.py RECORDING, a directory of
"ferrotrace relay record".

Prints KTAP. FERROTRACE names the command.
"""

import json
import os
import subprocess
import sys

recording = sys.argv[1]
ferrotrace = os.environ.get("FERROTRACE", "ferrotrace")
merged = subprocess.run([ferrotrace, "relay", "merge", recording, "--format", "json"], stdout=subprocess.PIPE, check=True)
lines = [json.loads(line) for line in merged.stdout.splitlines()]
records = [line for line in lines if "fields" in line]
functions = [record["fields"]["func"] for record in records]
times = [record["time"] for record in records]
symbols = {}
with open("/proc/kallsyms", encoding="ascii") as lines:
    for line in lines:
        address, _, name = line.split()[:3]
        symbols.setdefault(name, int(address, 16))

# The first initcall that can have files is debugfs's own.
debugfs = functions.index(symbols["debugfs_init"]) if symbols["debugfs_init"] in functions else -1
checks = {
    "initcalls_are_recorded": len(records) > 50,
    "from_before_there_is_debugfs": debugfs > 0,
    "in_the_order_of_time": times == sorted(times) and times[0] > 0,
    "to_the_end_of_the_boot": debugfs + 50 < len(functions),
}
print("TAP version 13")
for number, (name, ok) in enumerate(checks.items(), 1):
    print(f"{'ok' if ok else 'not ok'} {number} relay_boot.{name}")
print(f"1..{len(checks)}")
print(f"# {len(records)} initcalls, debugfs_init is number {debugfs}")
sys.exit(0 if all(checks.values()) else 1)
