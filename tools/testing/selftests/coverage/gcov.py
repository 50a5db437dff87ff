#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares live coverage with gcov, line by line.

    gcov.py [--keep DIR] [--results FILE]

$FERROTRACE is the path of the command. Builds the variant modular twice: once with gcov's counters in
the objects of FILES, once without them and with the debugging information of these objects. Each runs
workload.py, and gcov or live coverage tells the lines that it executes. Prints TAP.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
REPO = os.path.realpath(os.path.join(HERE, "../../../.."))
KERNEL = os.path.join(REPO, "integration/kernel.sh")
RUN = os.path.join(REPO, "tools/testing/vm/run.py")
FILES = """fs/attr.c fs/dcache.c fs/eventfd.c fs/eventpoll.c fs/exec.c fs/fcntl.c fs/file.c fs/file_table.c fs/inode.c
    fs/libfs.c fs/locks.c fs/namei.c fs/namespace.c fs/open.c fs/pipe.c fs/read_write.c fs/readdir.c fs/select.c
    fs/seq_file.c fs/splice.c fs/stat.c fs/xattr.c kernel/exit.c kernel/fork.c kernel/sys.c mm/madvise.c mm/mlock.c
    mm/mmap.c mm/mprotect.c mm/mremap.c mm/shmem.c mm/vma.c""".split()
# Lines that must agree, in percent of the lines that both have and that do not vary.
AGREE = 98
# The workload runs once to fill the caches, and then in two compared rounds. Lines that differ between these rounds
# vary, and are not compared. The kernel with gcov runs live coverage, too, of one function: the command itself
# executes kernel code, and must execute it on both kernels.
WORK = "mkdir /tmp/work$i && unshare -m python3 $WORKLOAD /tmp/work$i"
PREPARE = f"""cp $FERROTRACE /tmp/ferrotrace && i=0 && {WORK} && for module in rust_gcov rust_kprobes ferrotrace_coverage; do
    insmod $FERROTRACE_KDIR/kernel/ferrotrace/$module.ko || exit; done"""
WATCHED = f"/tmp/ferrotrace cov live start {{}} && {WORK} && /tmp/ferrotrace cov live stop --save {{}}/$i"
BY_GCOV = f"""for i in 1 2; do
    /tmp/ferrotrace cov reset && {WATCHED.format("vfs_read", "/tmp")} && /tmp/ferrotrace cov dump -o $FERROTRACE_OUT/$i || exit
    done"""
BY_LIVE = f"for i in 1 2; do {WATCHED.format('$PATHS --vmlinux $VMLINUX', '$FERROTRACE_OUT')} || exit; done"


def stem(file):
    return os.path.splitext(os.path.basename(file))[0]


class Kernel:
    """The variant modular, with other options of the compiler for FILES."""

    def __init__(self, name, option):
        built = subprocess.run([KERNEL, "kdir", "modular"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        self.tree = os.path.dirname(built)
        self.dir = f"{built}-{name}"
        self.built = built
        self.options = [option.format(stem(file)) for file in FILES]

    def build(self):
        """Builds a copy of the variant's directory at its place, so that only FILES are compiled again."""
        subprocess.run(["rsync", "-a", "--delete", self.built + "/", self.dir], check=True)
        script = 'mount --bind "$0" "$1" && shift && exec "$@"'
        subprocess.run(["unshare", "-rm", "sh", "-c", script, self.dir, self.built, KERNEL, "make", "modular",
                        "-s", *self.options, "bzImage"], check=True, stdout=sys.stderr)

    def run(self, command, out):
        """Runs a command in a guest. Returns the exit status."""
        words = {"FERROTRACE": os.environ["FERROTRACE"], "WORKLOAD": os.path.join(HERE, "workload.py"),
                 "PATHS": " ".join(f"--path {file}" for file in FILES), "VMLINUX": os.path.join(self.dir, "vmlinux")}
        command = " ".join(f"{name}='{value}';" for name, value in words.items()) + f"{PREPARE} && {command}"
        options = ["--timeout", "900", "--mem", "1G", "--append", "kunit.enable=0", "--out", out,
                   "--image", os.path.join(self.dir, "arch/x86/boot/bzImage")]
        return subprocess.run([sys.executable, RUN, *options, "modular", command],
                              stdout=sys.stderr, check=False).returncode


def lines(tracefile):
    """Returns the lines of FILES in lcov's tracefile, with true for the executed ones."""
    found = {}
    file = None
    for record in tracefile.splitlines():
        tag, _, value = record.partition(":")
        if tag == "SF":
            file = next((name for name in FILES if f"/{value}".endswith(f"/{name}")), None)
        elif tag == "DA" and file:
            line, count = value.split(",")[:2]
            at = (file, int(line))
            found[at] = found.get(at, False) or int(count) > 0
    return found


def of_both(directory, *options):
    """Runs the command with the options for the data of both rounds. Returns their lines: true, false, or None if only one executed it."""
    rounds = []
    for name in "1", "2":
        command = [os.environ["FERROTRACE"], "cov", *options, os.path.join(directory, name), "--lcov", "-"]
        rounds.append(lines(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    return {at: was if rounds[1].get(at) == was else None for at, was in rounds[0].items()}


def main():
    p = argparse.ArgumentParser(description="Compare live coverage with gcov, line by line.")
    p.add_argument("--keep", help="directory that receives the data of both, and is used again if it has them")
    p.add_argument("--results", help="file that receives the numbers")
    args = p.parse_args()
    if "FERROTRACE" not in os.environ:
        p.error("$FERROTRACE is the path of the command")
    gcov, live = Kernel("gcov", "GCOV_PROFILE_{}.o=y"), Kernel("lines", "CFLAGS_{}.o=-g")
    tests = ("gcov", gcov, BY_GCOV), ("live", live, BY_LIVE)
    with tempfile.TemporaryDirectory(prefix="ferrotrace-gcov-") as work:
        work = args.keep or work
        for number, (name, kernel, command) in enumerate(tests, 1):
            out = os.path.join(work, name)
            status = 0
            if not os.path.exists(out):
                kernel.build()
                status = kernel.run(command, out)
            print(f"{'not ' if status else ''}ok {number} the workload with {name} (exit status {status})", flush=True)
            if status:
                return 1
        counted = of_both(os.path.join(work, "gcov"), "report", "--objdir", gcov.dir)
        watched = of_both(os.path.join(work, "live"), "merge", "--vmlinux", os.path.join(live.dir, "vmlinux"))
    is_ok, text = compare(counted, watched, live.tree)
    print("".join(f"# {line}\n" for line in text.splitlines()), end="")
    print(f"{'' if is_ok else 'not '}ok 3 {AGREE} % of the lines agree\n1..3")
    if args.results:
        with open(args.results, "w", encoding="utf-8") as f:
            f.write(f"# gcov.py\n# {time.strftime('%Y-%m-%d', time.gmtime())}\n\n{text}")
    return not is_ok


# First lines of function definitions: gcov counts the calls there, inlined calls included.
FIRST_LINE = re.compile(r"^[A-Za-z_].*[(,)]$|^SYSCALL_DEFINE")


def compare(counted, watched, tree):
    """Compares the lines. Returns true if enough agree, and the numbers."""
    both = counted.keys() & watched.keys()
    varying = {at for at in both if None in (counted[at], watched[at])}
    differ = {at for at in both - varying if counted[at] != watched[at]}
    texts = {}
    for file in FILES:
        with open(os.path.join(tree, file), encoding="utf-8", errors="replace") as f:
            texts[file] = f.read().splitlines()
    kinds = collections.Counter()
    for at in sorted(differ):
        text = texts[at[0]][at[1] - 1]
        kind = ("first line of a function" if FIRST_LINE.match(text) else "other line",
               "gcov" if counted[at] else "live coverage")
        kinds[kind] += 1
        print(f"# {kind[1]}: {at[0]}:{at[1]}: {text.strip()}")
    share = 100 * (1 - len(differ) / len(both - varying))
    rows = [
        ("lines that both have", len(both)), ("only gcov has", len(counted.keys() - both)),
        ("only live coverage has", len(watched.keys() - both)), ("vary between two rounds", len(varying)),
        ("executed, by both", sum(1 for at in both - varying - differ if counted[at])),
        ("not executed, by both", sum(1 for at in both - varying - differ if not counted[at])),
        *((f"executed only by {who}: {what}", count) for (what, who), count in sorted(kinds.items())),
    ]
    text = "".join(f"{name:58} {value:8,}\n" for name, value in rows) + f"{'agree, of those that do not vary':58} {share:7.2f}%\n"
    return share >= AGREE, text


if __name__ == "__main__":
    sys.exit(main())
