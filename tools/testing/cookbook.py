#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the jobs of Documentation/cookbook.rst, and prints a result for each as KTAP.

    cookbook.py [--long | --all] [--show] [JOB...]

A job is a section. Its first literal block begins with the command, after "# ", and goes on with the
output. A comment has the exit status that the command must have, and patterns (of Python's re):

    .. expect: 0 [long | needs PATH]
       PATTERN
       ...

Each pattern must match in a line of the output in the document and of the command's, standard error
included. A job with "long" runs only with --long or --all, without which the others run; one that
needs a path which this kernel does not have is skipped. Comments ".. before: COMMAND" and
".. after: COMMAND" have what runs before it and after it. Without an "expect" a job is an error.

JOB is the start of a title. --show prints the whole output of each command, for the document. Runs as
root, in a new directory for all jobs, with the command that $FERROTRACE names. A job may leave no
instance of tracefs and no probe behind.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "Documentation/cookbook.rst"
TRACING = pathlib.Path("/sys/kernel/tracing")
# Far more than a job takes on an idle machine.
SECONDS = 300
UNDERLINE = re.compile(r"^-{3,}$")
EXPECT = re.compile(r"^\.\. expect: (\d+)(?: (long)| needs (\S+))?$")
AROUND = re.compile(r"^\.\. (before|after): (.+)$")


class Job:
    """A section of the document."""

    def __init__(self, title):
        self.title = title
        self.command = self.status = self.needs = None
        self.around, self.shown, self.patterns = {"before": [], "after": []}, [], []
        self.is_long = False

    def missing(self, lines):
        """The first pattern that matches in none of these lines."""
        return next((p for p in self.patterns if not any(re.search(p, line) for line in lines)), None)

    def mistake(self):
        """An error of the document."""
        if not self.command:
            return "no command"
        if not self.command.startswith("ferrotrace "):
            return "the command is not ferrotrace"
        if self.status is None or not self.patterns:
            return "no .. expect:, or none with a pattern"
        missing = self.missing(self.shown)
        return missing and f"the output in the document has no match of {missing}"


def indented(lines, at):
    """The lines of a block that is indented, from a place on, without the indentation."""
    block = []
    for line in lines[at:]:
        if line and not line.startswith(" "):
            break
        block.append(line)
    while block and not block[-1]:
        block.pop()
    width = min((len(line) - len(line.lstrip()) for line in block if line), default=0)
    return [line[width:] for line in block]


def parse(text):
    """The jobs of a document."""
    jobs, lines = [], text.splitlines()
    for at, line in enumerate(lines):
        if UNDERLINE.match(line):
            jobs.append(Job(lines[at - 1]))
            continue
        job = jobs[-1] if jobs else None
        if expect := EXPECT.match(line):
            job.status, job.is_long, job.needs = int(expect[1]), bool(expect[2]), expect[3]
            job.patterns = [pattern for pattern in indented(lines, at + 1) if pattern]
        elif around := AROUND.match(line):
            job.around[around[1]].append(around[2])
        elif job and not job.command and line.endswith("::"):
            command, *job.shown = [line for line in indented(lines, at + 1) if line]
            job.command = command.removeprefix("# ") if command.startswith("# ") else None
    return jobs


def left_behind():
    """Instances of tracefs and probes that are there."""
    probes = TRACING / "dynamic_events"
    left = [path.name for path in (TRACING / "instances").glob("*")]
    return left + (probes.read_text().splitlines() if probes.exists() else [])


def run(job, directory, show):
    """Runs a job. Returns a reason if it fails."""
    before = left_behind()
    script = "\n".join([*job.around["before"], job.command, "status=$?", *job.around["after"], "exit $status"])
    with subprocess.Popen(["bash", "-c", script], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as child:
        try:
            output, _ = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            # The command undoes all before it ends.
            os.killpg(child.pid, signal.SIGTERM)
            output, _ = child.communicate()
            return f"more than {SECONDS} seconds"
        finally:
            lines = output.decode(errors="replace").splitlines()
            if show:
                print(f"## {job.title}\n# {job.command}", *lines, sep="\n", flush=True)
    missing = job.missing(lines)
    reason = None
    if child.returncode != job.status:
        reason = f"status {child.returncode}, not {job.status}"
    elif missing:
        reason = f"no match of {missing}"
    elif left := [one for one in left_behind() if one not in before]:
        reason = f"left behind: {left}"
    if reason:
        print(*(f"# {line}" for line in lines[-40:]), sep="\n")
    return reason


def main():
    parser = argparse.ArgumentParser(description="Run the jobs of the cookbook.")
    parser.add_argument("--long", action="store_true", help="those that are slow")
    parser.add_argument("--all", action="store_true", help="all")
    parser.add_argument("--show", action="store_true", help="print the whole output")
    parser.add_argument("jobs", nargs="*", help="the starts of titles")
    args = parser.parse_args()
    failed, number = False, 0
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(os.environ["FERROTRACE"], os.path.join(directory, "ferrotrace"))
        os.environ["PATH"] = f"{directory}:{os.environ['PATH']}"
        work = pathlib.Path(directory, "work")
        work.mkdir()
        jobs = parse(DOCUMENT.read_text())
        if args.jobs:
            jobs = [job for job in jobs if job.title.startswith(tuple(args.jobs))]
        elif not args.all:
            jobs = [job for job in jobs if job.is_long == args.long]
        print("TAP version 13")
        for number, job in enumerate(jobs, 1):
            name = job.title.replace("#", "")
            if job.needs and not os.path.exists(job.needs):
                print(f"ok {number} {name} # SKIP no {job.needs} here", flush=True)
                continue
            began = time.monotonic()
            # A new job is shown before the document has its output.
            reason = (run(job, work, True) or job.mistake()) if args.show else (job.mistake() or run(job, work, False))
            print(f"# seconds: {time.monotonic() - began:.1f}")
            print(f"not ok {number} {name}: {reason}" if reason else f"ok {number} {name}", flush=True)
            failed |= bool(reason)
    print(f"1..{number}")
    return 1 if failed or not number else 0


if __name__ == "__main__":
    sys.exit(main())
