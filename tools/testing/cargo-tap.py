#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn "cargo test" output on stdin into TAP lines; everything else goes to stderr.

    cargo test 2>&1 | cargo-tap.py PREFIX
"""

import re
import sys

TEST = re.compile(r"^test (.+?) \.\.\. (ok|FAILED|ignored)(?:, (.*))?$")


OUTPUT = re.compile(r"^---- (.+?) stdout ----$")
# Kept lines of a test's output: enough for the message of a panic, and for the failing case of a
# property.
KEPT = 12


def main():
    prefix, number = sys.argv[1], 0
    # The tests that failed, with their output: Cargo shows it after the last test.
    failed, reading = {}, None

    def report():
        nonlocal number
        for name, lines in failed.items():
            number += 1
            for line in lines:
                print(f"# {line}")
            print(f"not ok {number} {prefix}: {name}", flush=True)
        failed.clear()

    for line in sys.stdin:
        found, output = TEST.match(line.rstrip()), OUTPUT.match(line.rstrip())
        if not found:
            sys.stderr.write(line)
            if line.startswith("test result:"):
                reading = None
                report()
            elif output:
                reading = failed.get(output.group(1))
            elif line.startswith("stack backtrace:"):
                reading = None
            elif reading is not None and line.strip() and len(reading) < KEPT:
                reading.append(line.rstrip())
            continue
        name, result, reason = found.groups()
        if result == "FAILED":
            failed[name] = []
            continue
        number += 1
        skip = f" # SKIP {reason or 'ignored'}" if result == "ignored" else ""
        print(f"ok {number} {prefix}: {name}{skip}", flush=True)
    report()
    print(f"1..{number}")


if __name__ == "__main__":
    main()
