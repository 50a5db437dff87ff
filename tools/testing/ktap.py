#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Counts the results in (K)TAP output.

    ktap.py FILE...           prints "PASSED FAILED SKIPPED" of all files together
    ktap.py --failed FILE...  prints the lines that failed, with their comments "# NAME: ...", and
                              the plans that were not kept

Only leaves count: a result that closes a subtest is the sum of its cases, so it counts only when it
failed and none of them did. Expected failures (XFAIL) count as skipped: they show nothing that
works. A plan that was not kept and a "Bail out!" are failures. Subtests are indented, or prefixed
with "# " as kselftest's runner does; the kernel log's time stamps are ignored.
"""

import re
import sys

STAMP = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[[^]]*\])? ?")
RESULT = re.compile(r"^(ok|not ok)\b(.*)$")
VERSION = re.compile(r"^K?TAP version \d+$")
PLAN = re.compile(r"^1\.\.(\d+)")
DIRECTIVE = re.compile(r"#\s*(SKIP|TODO|XFAIL|TIMEOUT|ERROR)\b", re.IGNORECASE)
NAME = re.compile(r"^\s*\d*\s*-?\s*(.*?)\s*(?:#.*)?$")
SAID = re.compile(r"^# (\S+): ")
# Lines of a failure's messages.
SAID_LINES = 20
NESTED = re.compile(r"^# ?(?=\s*(?:# ?)*(?:ok \d|not ok \d|1\.\.\d|K?TAP version))")


class Level:
    """The results seen at one depth since its parent began."""

    def __init__(self):
        self.plan = None
        self.results = 0
        self.failed = 0


class Counter:
    """Counts the leaves of one (K)TAP stream."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.problems = []
        self.levels = {}
        # Comments since the last result, and those that name their subject.
        self.comments, self.said = [], {}

    def fail(self, text, said=()):
        self.failed += 1
        self.problems += [*said[-SAID_LINES:], text]

    def close(self, depth):
        """End every level deeper than DEPTH; returns (results, failures) found there."""
        results = failures = 0
        for d in [d for d in self.levels if d > depth]:
            level = self.levels.pop(d)
            if level.plan is not None and level.plan != level.results:
                self.fail(f"plan of {level.plan} tests, but {level.results} results")
                level.failed += 1
            results += level.results
            failures += level.failed
        return results, failures

    def feed(self, raw):
        line, depth = STAMP.sub("", raw.rstrip("\n")), 0
        while True:
            if NESTED.match(line):
                line, depth = NESTED.sub("", line), depth + 2
                continue
            stripped = line.lstrip(" \t")
            depth += len(line) - len(stripped)
            line = stripped
            if not NESTED.match(line):
                break
        if VERSION.match(line):
            # A document begins: the previous one at this depth is complete.
            self.close(depth - 1)
            return
        plan, result = PLAN.match(line), RESULT.match(line)
        if line.startswith("Bail out!"):
            self.fail(line)
        elif plan:
            self.levels.setdefault(depth, Level()).plan = int(plan.group(1))
        elif result:
            self.result(depth, result.group(1) == "ok", result.group(2), line)
            self.comments.clear()
        elif line.startswith("#"):
            self.comments.append(line)
            said = SAID.match(line)
            if said:
                self.said.setdefault(said.group(1), []).append(line)

    def result(self, depth, ok, rest, line):
        found = DIRECTIVE.search(rest)
        directive = found.group(1).upper() if found else ""
        inner, inner_failed = self.close(depth)
        level = self.levels.setdefault(depth, Level())
        level.results += 1
        if not ok and directive not in ("SKIP", "TODO"):
            level.failed += 1
            if inner_failed == 0:
                said = self.said.get(NAME.match(rest).group(1), [])
                self.fail(line, [comment for comment in said if comment not in self.comments] + self.comments)
        elif inner == 0 and directive in ("SKIP", "XFAIL"):
            self.skipped += 1
        elif inner == 0:
            self.passed += 1

    def end(self):
        self.close(-1)

    def read(self, lines):
        """Count a whole stream."""
        for line in lines:
            self.feed(line)
        self.end()


def main():
    args = sys.argv[1:]
    show = bool(args) and args[0] == "--failed"
    totals = [0, 0, 0]
    for path in args[1:] if show else args:
        counter = Counter()
        with open(path, encoding="utf-8", errors="replace") as f:
            counter.read(f)
        totals[0] += counter.passed
        totals[1] += counter.failed
        totals[2] += counter.skipped
        if show:
            for problem in counter.problems:
                print(problem)
    if not show:
        print(*totals)


if __name__ == "__main__":
    main()
