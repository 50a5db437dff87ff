#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run one suite, or some of its cases, on one kernel variant: "make test T=SUITE:CASE VARIANT=V".

    test.py                      lists the suites and the groups of their cases
    test.py SUITE: [VARIANT]     lists the cases of a suite
    test.py SUITE [VARIANT]      runs a suite
    test.py SUITE:CASE [VARIANT] runs the cases whose names begin so

A suite has the name of its script or line in suites/, without the number and "selftests-". The output is the suite's
(K)TAP, with the build's messages on stderr. The last line says passed, failed or skipped; the exit status is 0, 1 or 4.
VARIANT may be several variants in quotes, for suites that compare them.
"""

import difflib
import os
import re
import subprocess
import sys
import textwrap

from ktap import Counter, RESULT, STAMP

HERE = os.path.dirname(os.path.realpath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
SUITES = os.path.join(HERE, "suites")
SELFTESTS = os.path.join(HERE, "selftests")
# Suites that need no kernel, or build it themselves.
WITHOUT_KERNEL = ("host", "lint", "build", "export", "demo")
SKIPPED = 4
# How the sources of tests name their cases, by the end of the file's name.
PATTERNS = {
    ".c": r'\{ *"([a-z]\w*\.[\w.]+)"|^TEST_F\((\w+, *\w+)\)',
    ".rs": r'^ +\("([a-z]\w*\.[\w.]+)", ',
    ".sh": r"^\s*(?:some|one|once|attempt|check) ([a-z][\w.]*)\b",
}
# Suites with a table in assembly, or a list at run time, which has all cases of a group.
OPEN_GROUPS = {"kprobes": ("insn.", "forms.", "module."), "fault-injection": ("load_", "dprobes_")}
# Suites of several test programs or scripts, which run some of their cases.
PROGRAMS = ("relay", "relay-fast", "klog", "gkhi")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def short(name):
    """Returns the name of a suite for the command line."""
    return re.sub(r"^\d+-(selftests-)?", "", name)


def suites():
    """Returns {short name: (name, words of its line of the table or None)} of all suites."""
    rows = {}
    for line in read(os.path.join(SUITES, "table")).splitlines():
        if line[:1].isdigit():
            rows[line.split()[0]] = line.split(None, 8)
    names = {f[:-3] for f in os.listdir(SUITES) if re.match(r"\d+-.*\.sh$", f)} | set(rows)
    return {short(n): (n, rows.get(n)) for n in sorted(names)}


def files_below(path):
    """Returns a file, or all files below a directory."""
    if os.path.isfile(path):
        return [path]
    return [os.path.join(d, f) for d, _, files in os.walk(path) for f in files]


def checks(text):
    """Returns the names that calls of checks() in a script make: a prefix and functions, over several lines."""
    joined = text.replace("\\\n", " ")
    return [w[0] + f for w in (m[1].split() for m in re.finditer(r"^checks (.+)$", joined, re.M)) for f in w[1:]]


def found_in(path):
    """Returns the names of the cases in a source of selftests."""
    end = os.path.splitext(path)[1]
    if end not in PATTERNS or (end == ".sh" and not re.search(r"(/run|/tool|_test)\.sh$", path)):
        return []
    text = read(path)
    names = [next(g for g in m.groups() if g) for m in re.finditer(PATTERNS[end], text, re.M)]
    return [re.sub(r", *", ".", n) for n in names] + (checks(text) if end == ".sh" else [])


def rust_tests(below, attribute):
    """Returns the names of functions with an attribute in the Rust sources below a list of paths."""
    out = subprocess.run(["git", "grep", "-hEA4", attribute, "--", *(f"{p}/*.rs" for p in below)], cwd=REPO, text=True,
                         stdout=subprocess.PIPE, check=False).stdout
    return sorted(set(re.findall(attribute + r"(?:\n.*?)*?\bfn (\w+)", out)))


def kunit_cases():
    """Returns SUITE and SUITE.CASE of the KUnit tests in our crates."""
    names = []
    out = subprocess.run(["git", "grep", "-lF", "kunit_tests("], cwd=REPO, text=True, stdout=subprocess.PIPE, check=False).stdout
    for path in (p for p in out.split() if p.endswith(".rs")):
        text = read(os.path.join(REPO, path))
        for part in text.split("#[kunit_tests(")[1:]:
            suite = re.match(r"\w+", part)[0]
            names.append(suite)
            names += [f"{suite}.{case}" for case in re.findall(r"#\[test\]\s*fn (\w+)", part)]
    return names


def cases_of(suite, row):
    """Returns the names of a suite's cases, or None if it has none to choose from."""
    if suite == "kunit":
        return kunit_cases()
    if suite == "host":
        return rust_tests(("rust", "tools", "*/core"), r"#\[test\]")
    if suite == "soundness":
        return sorted({os.path.splitext(f)[0] for f in os.listdir(os.path.join(HERE, "soundness/run_pass")) if f[-3:] in (".rs", ".sh")})
    if row is None or suite == "ferrotrace":
        return None
    command = row[8].split()[0]
    path = os.path.join(SELFTESTS, command)
    # A script that is not run.sh has all of its cases itself.
    below = files_below(os.path.dirname(path)) if command.endswith("/run.sh") else [path]
    names = [n for f in below if f == path or not f.endswith("/tool.sh") for n in found_in(f)]
    return list(dict.fromkeys(names))


def group(name):
    return name.split(".")[0] if "." in name else name


def list_suites():
    print("T=SUITE runs a suite, T=SUITE:CASE the cases whose names begin so, and T=SUITE: lists them.\n")
    for name, (full, row) in suites().items():
        cases = cases_of(name, row)
        if cases is not None:
            text = f"{len(cases)} cases: " + " ".join(dict.fromkeys(group(c) for c in cases))
        elif row is None:
            text = re.sub(r"[,:(].*", "", read(os.path.join(SUITES, full + ".sh")).splitlines()[3].removeprefix("# "))
        else:
            text = "the whole suite"
        print(textwrap.fill(text, 110, initial_indent=f"{name:17} ", subsequent_indent=" " * 18, max_lines=2))


def no_such(kind, name, names):
    """Ends with an error that suggests names like one that does not exist."""
    like = difflib.get_close_matches(name, names, 5, 0.6)
    like += [n for n in names if n not in like and group(n) == group(name)][:12]
    sys.exit(f"test: no {kind} '{name}'" + (f"; did you mean {', '.join(like[:12])}?" if like else "") +
             f"; 'make test{'' if kind == 'suite' else ' T=' + kind.split()[-1] + ':'}' lists them")


def is_known(suite, case, cases):
    """Returns true if some case begins so, or may be made at run time."""
    if suite == "kunit":
        pattern = re.escape(case).replace(r"\*", ".*").replace(r"\?", ".")
        return any(re.fullmatch(pattern, c) for c in cases)
    if suite == "host":
        last = case.rstrip(":").split("::")[-1]
        return any(last in c for c in cases) or bool(subprocess.run(
            ["git", "ls-files", f"*/{last}.rs", f"*/{last}/*.rs"], cwd=REPO, stdout=subprocess.PIPE, check=False).stdout)
    return any(c.startswith(case) for c in cases) or case.startswith(OPEN_GROUPS.get(suite, ())) or \
        (suite in PROGRAMS and case in programs(suite).values())


def programs(suite):
    """Returns {case: program} of a suite of several programs; "cases" of gkhi runs those of its module."""
    made = {}
    for path in files_below(os.path.join(SELFTESTS, suite.replace("-", "_"))):
        name = os.path.basename(path).split("_test.")[0]
        made.update((case, "cases" if "/module/" in path else name) for case in found_in(path))
    return made


def argument(suite, case):
    """Returns the argument of the suite's script for a case: of a suite of several programs PROGRAM/CASE."""
    if suite not in PROGRAMS:
        return case
    made = programs(suite)
    if case in made.values():
        return case
    return next(f"{program}/{case}" for name, program in made.items() if name.startswith(case))


def run(name, full, case, variant):
    """Runs a suite; returns the exit status."""
    logs = os.path.join(REPO, "build/test")
    env = {"LOGS": logs, **os.environ, "VARIANTS": variant, "FERROTRACE_TOOL_VARIANTS": variant}
    if name not in WITHOUT_KERNEL:
        for v in variant.split():
            if subprocess.run([os.path.join(REPO, "integration/kernel.sh"), "build", v], stdout=subprocess.DEVNULL, check=False).returncode:
                return 1
    script = os.path.join(SUITES, full + ".sh")
    command = [script] if os.path.exists(script) else [os.path.join(SUITES, "run.sh"), full]
    counter, names = Counter(), set()
    with subprocess.Popen(command + [argument(name, c) for c in case.split()], stdout=subprocess.PIPE, env=env, cwd=REPO, text=True, errors="replace") as suite:
        for line in suite.stdout:
            print(line, end="", flush=True)
            counter.feed(line)
            result = RESULT.match(STAMP.sub("", line).strip())
            names.update(result[2].split()[1:] if result else ())
    counter.end()
    failed = counter.failed or suite.returncode
    verdict = "failed" if failed else "passed" if counter.passed else "skipped"
    # Some suites have results of their own.
    if verdict == "passed" and case and name not in ("host", "kunit", "soundness") and not any(c in n for c in case.split() for n in names):
        verdict = "failed: no such case ran"
    where = "" if name in ("host", "lint") else f" on {variant}"
    print(f"test: {name}{':' + case if case else ''}{where}: {verdict} ({counter.passed} passed, {counter.failed} failed, "
          f"{counter.skipped} skipped){'; logs: ' + os.path.relpath(logs) if failed else ''}")
    return {"passed": 0, "skipped": SKIPPED}.get(verdict, 1)


def main():
    if len(sys.argv) < 2 or not sys.argv[1]:
        list_suites()
        return 0
    name, colon, case = sys.argv[1].partition(":")
    variant = sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] else "modular"
    known = suites()
    name = short(name.removesuffix(".sh")).replace("_", "-")
    if name not in known:
        no_such("suite", name, list(known))
    full, row = known[name]
    cases = cases_of(name, row) if colon else None
    if colon and cases is None:
        sys.exit(f"test: the suite {name} has no cases to choose from; 'make test T={name}' runs all of it")
    if colon and not case:
        print("\n".join(cases))
        return 0
    if case and not all(is_known(name, c, cases) for c in case.split()):
        no_such(f"case of {name}", case, cases)
    return run(name, full, case, variant)


if __name__ == "__main__":
    sys.exit(main())
