#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare the compiler's errors with those that the clients announce; print a TAP result for each
client.

    compile_fail.py DIRECTORY BUILD_LOG

BUILD_LOG has an error a line, "path/NAME.rs:LINE:COLUMN: error[CODE]: MESSAGE"
(--error-format=short). A client's source has "//~ CODE" or "//~ CODE TEXT" at the end of each line
that must be refused; CODE is "error" where there is no code.
"""

import pathlib
import re
import sys

ERROR = re.compile(r"([^/\s:]+)\.rs:(\d+):\d+: error(?:\[(\w+)\])?: (.*)")
EXPECTED = re.compile(r"//~ (\w+) ?(.*)$")


def reported(log):
    """Returns NAME -> set of (line, code, message)."""
    errors = {}
    for text in log.read_text(errors="replace").splitlines():
        if m := ERROR.search(text):
            errors.setdefault(m[1], set()).add((int(m[2]), m[3] or "error", m[4]))
    return errors


def announced(source):
    """Returns a list of (line, code, text)."""
    lines = enumerate(source.read_text().splitlines(), 1)
    return [(n, m[1], m[2].strip()) for n, line in lines if (m := EXPECTED.search(line))]


def compare(want, have):
    """Returns the differences, a line each."""
    wrong = [] if want else ["announces no error"]
    for line, code, text in want:
        if not any(l == line and c == code and text in m for l, c, m in have):
            wrong.append(f"line {line}: no {code} {text}".rstrip())
    for line, code, message in sorted(have):
        if not any(l == line and c == code for l, c, _ in want):
            wrong.append(f"line {line}: unexpected {code}: {message}")
    return wrong


def main():
    sources = sorted(pathlib.Path(sys.argv[1]).glob("*.rs"))
    errors = reported(pathlib.Path(sys.argv[2]))
    failed = False
    print(f"1..{len(sources)}")
    for number, source in enumerate(sources, 1):
        wrong = compare(announced(source), errors.get(source.stem, set()))
        for line in wrong:
            print(f"# {line}")
        print(f"{'not ok' if wrong else 'ok'} {number} compile_fail.{source.stem}")
        failed = failed or bool(wrong)
    return 1 if failed or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
