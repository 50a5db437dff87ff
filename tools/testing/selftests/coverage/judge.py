#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares live coverage with QEMU's log of the same guest.

    judge.py [--all] [--cpus N] [--timeout N] [--keep DIR] [--results FILE] VARIANT [FUNCTION...]

$FERROTRACE is the path of the command. In the guest, judge.sh watches the functions (by default
those of files and pipes, with --all the whole kernel) and executes some of them. Prints TAP.

QEMU runs without KVM, and its log has
    from before arming until after the report   each breakpoint that a CPU took ("int")
    from after arming until before the report   each block of instructions that a CPU reached, with
                                                their bytes ("in_asm": a block is translated before it
                                                is executed first, and all are translated again after
                                                the switch to "nochain")
The guest is stopped when the log is switched. A watched block must be reported if its breakpoint was
taken before the guest asked for the report, or if a CPU reached its place and found no breakpoint
there. A reported block must have a breakpoint that was taken. No block is exempt: a hit while the
report is made may be reported or not; if it is, its breakpoint must have been taken.
"""

import argparse
import bisect
import json
import mmap
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
RUN = os.path.join(HERE, "../../vm/run.py")
GUEST = "tools/testing/selftests/coverage/judge.sh"
FILES = ["vfs_*", "ksys_*", "pipe_*", "anon_pipe_*", "do_pipe*", "rw_verify_area", "do_sys_openat2", "path_*"]
# Patterns of the log: a breakpoint taken in the kernel, a translated instruction, the first one of
# a translated block.
TAKEN = re.compile(rb": v=03 e=[0-9a-f]{4} i=1 cpl=0 IP=[0-9a-f]{4}:([0-9a-f]{16}) ")
INSTRUCTION = re.compile(rb"\n0x([0-9a-f]{16}):  ([0-9a-f]{2}) ")
START = re.compile(rb"\nIN: [^\n]*\n0x([0-9a-f]{16}):  ")
INT3 = b"cc"
# Addresses of the kernel and its modules.
KERNEL = "0xffffffff80000000..0xffffffffffffffff"
# Maximum size of QEMU's log in bytes. QEMU is killed there: a trap that repeats itself would fill
# the disk.
LOG_MAX = 6 << 30
# Maximum number of blocks that a result names.
NAMED = 20


class Machine:
    """QEMU's monitor, and a port of the guest."""

    def __init__(self, work):
        self.work = work
        self.log = os.path.join(work, "log")
        self.options = [
            "-qmp", f"unix:{work}/monitor,server=on,wait=off",
            "-chardev", f"socket,id=judge,path={work}/port,server=on,wait=off",
            "-device", "virtserialport,name=judge,chardev=judge",
            "-dfilter", KERNEL, "-D", self.log,
        ]
        self.monitor = self.port = None

    def connect(self, guest):
        """Connects to both, unless the guest ends before."""
        for name in "monitor", "port":
            while True:
                sock = socket.socket(socket.AF_UNIX)
                try:
                    sock.connect(os.path.join(self.work, name))
                    break
                except OSError:
                    sock.close()
                    if guest.poll() is not None:
                        return False
                    time.sleep(0.1)
            setattr(self, name, sock.makefile("rw", encoding="utf-8", errors="replace"))
        self.monitor.readline()
        self.ask("qmp_capabilities")
        return True

    def ask(self, command, **arguments):
        self.monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.monitor.flush()
        for line in self.monitor:
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]
        raise RuntimeError("QEMU has ended")

    def switch(self, *commands):
        """Executes commands of the monitor while the guest is stopped. Returns the length of the log."""
        self.ask("stop")
        for command in commands:
            said = self.ask("human-monitor-command", **{"command-line": command})
            if said:
                raise RuntimeError(f"{command}: {said.strip()}")
        length = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        self.ask("cont")
        return length


# Steps that the guest announces, and the monitor's commands before the answer.
STEPS = {
    "arm": ["log int"],
    "armed": ["log int,in_asm,nochain"],
    "report": ["log int"],
    "reported": ["log none"],
}


def follow(machine, guest):
    """Switches the log at the words of the guest. Returns the lengths of the log, and the times."""
    marks, times = {}, {}
    try:
        if not machine.connect(guest):
            return marks, times
        for line in machine.port:
            word = line.strip()
            if word not in STEPS:
                raise RuntimeError(f"the guest said: {word}")
            marks[word] = machine.switch(*STEPS[word])
            times[word] = time.monotonic()
            machine.port.write("ok\n")
            machine.port.flush()
    except (OSError, RuntimeError) as error:
        print(f"# {error}", flush=True)
    return marks, times


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (LOG_MAX, LOG_MAX))


def run(args, work):
    """Runs the guest. Returns its status, the report, and the log's lengths and the times at the steps."""
    machine = Machine(work)
    out = os.path.join(work, "out")
    env = {**os.environ, "QEMU_OPTS": " ".join([os.environ.get("QEMU_OPTS", ""), *machine.options])}
    what = ["--all"] if args.all else [f"'{name}'" for name in args.functions]
    command = f"FERROTRACE={os.environ['FERROTRACE']} {GUEST} {' '.join(what)}"
    # Logging by the monitor needs TCG.
    mem = os.environ.get("MEM") or ("3G" if args.all else "1G")
    options = ["--no-kvm", "--mem", mem, "--cpus", args.cpus, "--timeout", str(args.timeout), "--out", out]
    with subprocess.Popen([sys.executable, RUN, *options, args.variant, command], env=env,
                          stdout=sys.stderr, preexec_fn=limit_files) as guest:
        done = {}
        thread = threading.Thread(target=lambda: done.update(zip(("marks", "times"), follow(machine, guest))))
        thread.start()
        guest.wait()
        thread.join(10)
        marks, times = done.get("marks", {}), done.get("times", {})
    report = os.path.join(out, "report.json")
    return guest.returncode, report if os.path.exists(report) else None, marks, times


class Seen:
    """Contents of QEMU's log, as sets of addresses."""

    def __init__(self, log, marks):
        with open(log, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as text:
            def find(pattern, since, until):
                return pattern.finditer(text, marks[since], marks[until])

            taken = [int(match[1], 16) for match in find(TAKEN, "armed", "report")]
            # Breakpoints between arming and the report; before the report; all.
            self.during = set(taken)
            self.early = self.during | {int(match[1], 16) for match in find(TAKEN, "arm", "armed")}
            self.taken = self.early | {int(match[1], 16) for match in find(TAKEN, "report", "reported")}
            self.traps = len(taken)
            # Translated instructions; those translated without a breakpoint at least once; the first ones
            # of translated blocks.
            self.instructions, self.plain = set(), set()
            for match in find(INSTRUCTION, "armed", "report"):
                address = int(match[1], 16)
                self.instructions.add(address)
                if match[2] != INT3:
                    self.plain.add(address)
            self.starts = {int(match[1], 16) for match in find(START, "armed", "report")}


class Block:
    """A watched block."""

    def __init__(self, function, block):
        self.function = function
        self.start = int(block["address"], 16)
        self.end = self.start + block["size"]
        self.place = int(block["place"], 16)
        self.executed = block["executed"]

    def __str__(self):
        return f"{self.function}, block {self.start:#x}, place {self.place:#x}"


def watched(report):
    """Returns the watched blocks of a report."""
    return [Block(one["function"], block) for one in report["functions"] for block in one["blocks"]
            if block["executed"] is not None]


def differences(blocks, seen):
    """Returns the blocks that were executed and not reported, and those reported and not executed."""
    missed = [b for b in blocks if not b.executed and (b.place in seen.early or b.place in seen.plain)]
    invented = [b for b in blocks if b.executed and b.place not in seen.taken]
    return missed, invented


class Tap:
    """Results."""

    def __init__(self):
        self.count, self.failed = 0, False

    def result(self, is_ok, name, details=()):
        self.count += 1
        print(f"{'' if is_ok else 'not '}ok {self.count} {name}", flush=True)
        details = list(details)
        for line in details[:NAMED]:
            print(f"# {line}")
        if len(details) > NAMED:
            print(f"# and {len(details) - NAMED} more")
        self.failed |= not is_ok


def is_noticed(blocks, seen, executed):
    """Flips the bit of one block that has EXECUTED. Returns true if differences() finds that block."""
    block = next((b for b in blocks if b.executed == executed and (b.place in (seen.early if executed else seen.taken)) == executed),
                 None)
    if block is None:
        return False
    block.executed = not executed
    missed, invented = differences(blocks, seen)
    block.executed = executed
    return block in (missed if executed else invented)


def entered(blocks, seen):
    """Returns two lists of unreported blocks in which a translated block starts.

    In the first, it starts at or before the place, and the CPU left before the place. In the second,
    it starts behind the place: a task slept in the block when it was armed, or the command has not
    found a jump into it."""
    starts = sorted(seen.starts)
    left, behind = [], []
    for block in blocks:
        inside = starts[bisect.bisect_left(starts, block.start):bisect.bisect_left(starts, block.end)]
        if inside and not block.executed:
            (behind if inside[-1] > block.place else left).append(block)
    return left, behind


def judge(report, log, marks, tap):
    """Compares a report with a log and prints the results. Returns pairs of a name and a number."""
    with open(report, encoding="utf-8") as f:
        report = json.load(f)
    blocks = watched(report)
    seen = Seen(log, marks)
    missed, invented = differences(blocks, seen)
    executed = sum(b.executed for b in blocks)
    during = sum(b.executed and b.place in seen.during for b in blocks)
    left, behind = entered(blocks, seen)
    tap.result(0 < during <= executed < len(blocks), "some blocks are executed, and others not")
    tap.result(not missed, "no executed block is missed", missed)
    tap.result(not invented, "no reported block is invented", invented)
    tap.result(is_noticed(blocks, seen, True), "a bit that is dropped is noticed")
    tap.result(is_noticed(blocks, seen, False), "a bit that is invented is noticed")
    for block in behind:
        print(f"# behind the place: {block}, at " + " ".join(f"{at:#x}" for at in seen.starts if block.place < at < block.end))
    return [
        ("blocks watched", len(blocks)),
        ("blocks reported as executed", executed),
        ("breakpoint taken between arming and the report", during),
        ("breakpoint taken while the blocks were being armed", sum(b.executed and b.place in seen.early for b in blocks) - during),
        ("breakpoint taken while the report was made", sum(b.executed and b.place not in seen.early for b in blocks)),
        ("executed, and not reported", len(missed)),
        ("reported, and not executed", len(invented)),
        ("begun, and left before the place", len(left)),
        ("continued behind the place", len(behind)),
        ("instructions that QEMU translated", len(seen.instructions)),
        ("traps between arming and the report", seen.traps),
    ]


def main():
    p = argparse.ArgumentParser(description="Compare live coverage with QEMU's log of the guest.")
    p.add_argument("--all", action="store_true", help="all functions of the kernel")
    p.add_argument("--cpus", default=os.environ.get("CPUS") or "2")
    p.add_argument("--timeout", type=int, default=int(os.environ.get("TIMEOUT") or 900))
    p.add_argument("--keep", help="directory that receives QEMU's log and the report")
    p.add_argument("--results", help="file that receives the numbers")
    p.add_argument("variant")
    p.add_argument("functions", nargs="*", default=FILES)
    args = p.parse_args()
    if "FERROTRACE" not in os.environ:
        p.error("$FERROTRACE is the command ferrotrace")
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="ferrotrace-judge-") as work:
        try:
            status, report, marks, times = run(args, work)
            tap.result(status == 0 and report is not None and set(STEPS) == set(marks),
                       f"the guest ends with a report (exit status {status})")
            lines = []
            if not tap.failed:
                lines = judge(report, os.path.join(work, "log"), marks, tap)
                lines += [(f"seconds until \"{word}\"", round(times[word] - times["arm"])) for word in STEPS]
                lines.append(("bytes of QEMU's log", marks["reported"]))
        finally:
            if args.keep:
                shutil.copytree(work, args.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("monitor", "port"))
    text = "".join(f"{name:52} {value:12,}\n" for name, value in lines)
    for line in text.splitlines():
        print(f"# {line}")
    if args.results and text:
        with open(args.results, "w", encoding="utf-8") as f:
            what = "--all" if args.all else " ".join(args.functions)
            f.write(f"# judge.py --cpus {args.cpus} {what} {args.variant}\n# {time.strftime('%Y-%m-%d', time.gmtime())}\n\n{text}")
    print(f"1..{tap.count}")
    return tap.failed


if __name__ == "__main__":
    sys.exit(main())
