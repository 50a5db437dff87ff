#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of ktap.py; prints TAP."""

import ktap

CASES = {
    "flat": ("TAP version 13\n1..3\nok 1 a\nnot ok 2 b\nok 3 c # SKIP no\n", (1, 1, 1)),
    "leaves only": ("1..1\n    1..2\n    ok 1 a\n    ok 2 b\nok 1 suite\n", (2, 0, 0)),
    "failed leaf counts once": ("1..1\n  1..2\n  ok 1 a\n  not ok 2 b\nnot ok 1 suite\n", (1, 1, 0)),
    "parent fails alone": ("1..1\n  1..1\n  ok 1 a\nnot ok 1 suite # crashed\n", (1, 1, 0)),
    "two parents": ("1..2\n  1..1\n  ok 1 a\nok 1 s\n  1..1\n  ok 1 b\nok 2 t\n", (2, 0, 0)),
    "three levels": ("1..1\n  1..1\n    1..2\n    ok 1 a\n    ok 2 b\n  ok 1 t\nok 1 s\n", (2, 0, 0)),
    "short plan": ("1..3\nok 1 a\n", (1, 1, 0)),
    "short inner plan": ("1..1\n  1..2\n  ok 1 a\nok 1 s\n", (1, 1, 0)),
    "plan at the end": ("ok 1 a\nok 2 b\n1..2\n", (2, 0, 0)),
    "bail out": ("1..2\nok 1 a\nBail out! no device\n", (1, 2, 0)),
    "kernel log": ("[    1.25] KTAP version 1\n[    1.25] 1..1\n[    1.26] ok 1 a\n", (1, 0, 0)),
    "nested log": ("[    1.25] 1..1\n[    1.25]     1..1\n[    1.26]     ok 1 a\n[    1.27] ok 1 s\n", (1, 0, 0)),
    "kselftest runner": ("1..1\n# TAP version 13\n# 1..2\n# ok 1 a\n# ok 2 b\nok 1 selftests: x\n", (2, 0, 0)),
    "comment is no result": ("1..1\n# ok so far\nok 1 a\n", (1, 0, 0)),
    "expected failure": ("1..2\nnot ok 1 a # TODO later\nok 2 b # XFAIL\n", (1, 0, 1)),
    "prose": ("okay then\nnot okay\n", (0, 0, 0)),
    "two documents": ("KTAP version 1\n1..1\nok 1 a\nKTAP version 1\n1..1\nok 1 b\n", (2, 0, 0)),
    "short first document": ("KTAP version 1\n1..2\nok 1 a\nKTAP version 1\n1..1\nok 1 b\n", (2, 1, 0)),
    "kunit": ("KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: s\n    1..2\n    ok 1 a\n"
              "    ok 2 b # SKIP no\n# s: pass:1 fail:0\nok 1 s\n", (1, 0, 1)),
    "nothing": ("", (0, 0, 0)),
}

SAYING = """# b: long before
# about nobody
ok 1 a
# a.c:12: of the next one
    # x: deeper
    not ok 1 x
not ok 2 b # crashed
# c: said
not ok 3 - c
"""
SAID = ["# a.c:12: of the next one", "# x: deeper", "not ok 1 x", "# c: said", "not ok 3 - c"]


def main():
    print(f"1..{len(CASES) + 1}")
    bad = 0
    for number, (name, (text, want)) in enumerate(CASES.items(), 1):
        counter = ktap.Counter()
        counter.read(text.splitlines())
        got = (counter.passed, counter.failed, counter.skipped)
        if got == want:
            print(f"ok {number} ktap: {name}")
        else:
            bad += 1
            print(f"not ok {number} ktap: {name}: {got}, not {want}")
    counter = ktap.Counter()
    counter.read(SAYING.splitlines())
    if counter.problems == SAID:
        print(f"ok {len(CASES) + 1} ktap: what is said of a failure")
    else:
        bad += 1
        print(f"not ok {len(CASES) + 1} ktap: what is said of a failure: {counter.problems}")
    return bad != 0


if __name__ == "__main__":
    raise SystemExit(main())
