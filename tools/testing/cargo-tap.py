#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn "cargo test" output on stdin into TAP lines; everything else goes to stderr.

    cargo test 2>&1 | cargo-tap.py PREFIX
"""

import re
import sys

TEST = re.compile(r"^test (.+?) \.\.\. (ok|FAILED|ignored)(?:, (.*))?$")


def main():
    prefix, number = sys.argv[1], 0
    for line in sys.stdin:
        found = TEST.match(line.rstrip())
        if not found:
            sys.stderr.write(line)
            continue
        number += 1
        name, result, reason = found.groups()
        verdict = "not ok" if result == "FAILED" else "ok"
        skip = f" # SKIP {reason or 'ignored'}" if result == "ignored" else ""
        print(f"{verdict} {number} {prefix}: {name}{skip}", flush=True)
    print(f"1..{number}")


if __name__ == "__main__":
    main()
