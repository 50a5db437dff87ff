#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Asks the questions of Documentation/live-coverage.rst about saved runs of live coverage.

    fleet.py duckdb|spark DIR            asks an engine, and writes DIR/duckdb.json or DIR/spark.json
    fleet.py compare DIR COMMAND IMAGE   compares these answers with each other, and with those of the command ferrotrace, whose
                                         path COMMAND is. Prints KTAP.

DIR has the runs, *.run, and the directory tables. IMAGE is the kernel's, with debugging information.
"""

import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

DOCUMENT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../Documentation/live-coverage.rst")
# The beginning of the definition of the tables, by engine.
VIEWS = {"duckdb": "CREATE VIEW", "spark": "CREATE TEMPORARY VIEW"}
UNSEEN_LINES, UNSEEN, SINGLE, HOSTS = QUESTIONS = (
    "lines that no host has executed", "functions that no host has executed", "functions that only one host executes",
    "hosts that watched each function, and those that executed it")
# Functions of fixes, with their files: executed by all, by one, by two, by none, one of a module, and some that the kernel does not
# have.
FIXED = {"vfs_read": "fs/read_write.c", "tcp_v4_connect": "net/ipv4/tcp_ipv4.c", "unix_stream_connect": "net/unix/af_unix.c",
         "do_adjtimex": "kernel/time/timekeeping.c", "ovl_open": "fs/overlayfs/file.c", "not_compiled_in": "none/one.c",
         "vfs_write": "none/other.c"}


def statement(pattern):
    """Returns the one statement of the document that a pattern finds."""
    with open(DOCUMENT, encoding="utf-8") as f:
        found, = re.findall(rf"^ +{pattern}[^;]*);", f.read(), re.M)
    return found


def ask(engine, out):
    """Asks an engine."""
    view = statement(f"({VIEWS[engine]} coverage").replace("'tables", f"'{out}/tables")
    if engine == "duckdb":
        import duckdb
        duckdb.sql(view)
        def rows(query):
            return duckdb.sql(query).fetchall()
    else:
        from pyspark.sql import SparkSession
        options = {"driver.memory": "2g", "ui.enabled": "false", "ui.showConsoleProgress": "false", "sql.session.timeZone": "UTC"}
        builder = SparkSession.builder.master("local[2]")
        for name, value in options.items():
            builder = builder.config(f"spark.{name}", value)
        session = builder.getOrCreate()
        session.sql(view)
        def rows(query):
            return [tuple(row) for row in session.sql(query).collect()]
    answers = {}
    for question in QUESTIONS:
        began = time.monotonic()
        answers[question] = rows(statement(rf"-- {question}\n( +SELECT"))
        print(f"{engine}: {question}: {len(answers[question])} rows, {time.monotonic() - began:.1f} s")
    with open(f"{out}/{engine}.json", "w", encoding="utf-8") as f:
        json.dump(answers, f)


def read(path):
    """Reads the answers of an engine."""
    with open(path, encoding="utf-8") as f:
        return {question: [tuple(row) for row in rows] for question, rows in json.load(f).items()}


def run(*args, **options):
    """Runs a command, and returns its output."""
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def unseen_lines(tracefile):
    """Returns the lines of a tracefile that were not executed."""
    lines, source = [], None
    for line in tracefile.splitlines():
        kind, _, rest = line.partition(":")
        if kind == "SF":
            source = rest
        elif kind == "DA" and rest.endswith(",0"):
            lines.append((source, int(rest.split(",")[0])))
    return sorted(lines)


def fixes(directory):
    """Makes a repository with a commit for each of the fixed functions, and returns the file that lists the commits."""
    git = ["git", "-C", directory, "-c", "user.name=a", "-c", "user.email=a@b"]
    run(*git, "init", "-q")
    for number, text in enumerate(("1", "2")):
        for name, path in FIXED.items():
            path = f"{directory}/{path}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(f"int {name}(void)\n{{\n\treturn {text};\n}}\n")
            run(*git, "add", "-A")
            run(*git, "commit", "-qm", f"{number} {name}")
    path = f"{directory}/fixes"
    with open(path, "w", encoding="utf-8") as f:
        f.write(run(*git, "log", f"-{len(FIXED)}", "--format=%h %s"))
    return path


def compare(out, command, image):
    """Compares the answers."""
    results = []

    def same(name, one, other):
        results.append(one == other)
        print(f"{'ok' if one == other else 'not ok'} {len(results)} {name}", flush=True)
        if one != other and not isinstance(one, (int, dict)):
            print(f"only in the first: {sorted(set(one) - set(other))[:9]}", file=sys.stderr)
            print(f"only in the second: {sorted(set(other) - set(one))[:9]}", file=sys.stderr)

    print("KTAP version 1")
    answers, spark = read(f"{out}/duckdb.json"), read(f"{out}/spark.json")
    for question in QUESTIONS:
        same(f"Spark as DuckDB: {question}: {len(answers[question])} rows", answers[question], spark[question])
    runs = glob.glob(f"{out}/*.run")
    options = [*runs, "--vmlinux", image]
    same("all hosts are in the tables", max(watched for _, watched, _ in answers[HOSTS]), len(runs))

    document = json.loads(run(command, "cov", "merge", *options, "--json"))
    hit = collections.Counter()
    for one in document["functions"]:
        hit[one["function"].removesuffix(".cold")] += one["executed"]
    unseen = [name for name, in answers[UNSEEN]]
    same(f"cov merge as SQL: functions that were not executed: {len(unseen)}", sorted(n for n, c in hit.items() if not c), sorted(unseen))
    same(f"cov merge as SQL: functions: {len(hit)}", sorted(hit), sorted(name for name, _, _ in answers[HOSTS]))
    lines = unseen_lines(run(command, "cov", "merge", *options, "--lcov", "-"))
    same(f"cov merge as SQL: lines that were not executed: {len(lines)}", lines, sorted(answers[UNSEEN_LINES]))

    with tempfile.TemporaryDirectory() as repository:
        exposed = json.loads(run(command, "cov", "exposed", "--repo", repository, "--fixes", fixes(repository), *options, "--json"))
    missing = {name for name, path in FIXED.items() if path.startswith("none/")}
    sql = {name: (watched, executed) for name, watched, executed in answers[HOSTS] if name in set(FIXED) - missing}
    own = {one["function"]: (one["watched"], len(one["executed"])) for one in exposed if one["compiled"]}
    same(f"cov exposed as SQL: hosts that watched and executed {own}", own, sql)
    hosts = {one["function"]: one["executed"] for one in exposed}
    same("cov exposed as SQL: the only host", [(n, h[0]) for n, h in sorted(hosts.items()) if len(h) == 1],
         [(n, h) for n, h in answers[SINGLE] if n in sql])
    same("fixes that are not compiled in", {one["function"] for one in exposed if not one["compiled"]}, missing)
    print(f"1..{len(results)}")
    if not all(results):
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"] and len(sys.argv) == 5:
        compare(*sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] in VIEWS:
        ask(*sys.argv[1:])
    else:
        sys.exit(__doc__)
