#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Fails if a function on a hit path takes more of the stack than a hit path may.

    frames.py VARIANT

A probe, a hook or a tracer is hit on any stack of the kernel, even one that is almost full. ROOTS
names the functions at which hit paths begin; their callees in our own objects are on the path, too.
A frame is the sum of a function's pushes and of its subtractions from the stack pointer. Calls
through pointers are not followed: their targets must be among the roots.
"""

import re
import subprocess
import sys
from pathlib import Path

# Bytes that a function may take.
LIMIT = 512

# Where hit paths begin: in .kprobes.text, and these.
ROOTS = [
    # handlers of probes, and their callers
    r"ProbeHandler>::(pre|post|entry|returned)$",
    r"::Raw(Ret)?[pP]robe<.*>>::(pre|post|entry|returned)$",
    # callbacks of ftrace, and handlers of uprobes
    r"^ferro_ftrace::raw::(tracer_set|tracer)::callback::<",
    r"^(ferro_ftrace_call_node|data_func|call_set)$",
    r"::Fprobe<.*>>::(entry|exit)$",
    r"::UserProbe<.*>>::handle$",
    r"UprobeHandler>::hit$",
    r"^<dprobes_engine::point::Point>::(run|keep_\w+|commit\w*|complete|drop_incomplete)",
    # exits on hooks
    r"^ferro_sys::hook::typed::call::<ferro_sys::hook::points::",
    r"^ferro_sys::hook::chain::dispatch",
    # records, and messages
    r"::(reserve_slow|write_slow)$",
    r"^relay_(fast_reserve_slow|switch_subbuf|try_write|try_write_lost)$",
    r"^<relay_engine::buf::Buf>::(switch|start_subbuf)$",
    r"^(klog|ferro_klog::message::print|ferro_klog::raw::handler::(write|handle::<.*))$",
]

# Not part of a hit: exits on hooks that fire in process context with a mutex held, code that runs
# after a writer has slept, and KUnit tests.
OFF_PATH = [
    r"hook::points::(ModuleEvent|CpuPrepare|x86::Trampoline)",
    r"::(commit_elsewhere|commit_on_its_cpu)$",
    r"::(tests|suite)::",
]

INSTRUMENTED = re.compile(r"^CONFIG_(KASAN|KCSAN|GCOV_PROFILE_ALL|FERROTRACE_COVERAGE)=y$", re.M)
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
PUSH = re.compile(r"\tpush +%")
SUB = re.compile(r"\tsub +\$0x([0-9a-f]+),%rsp")
BRANCH = re.compile(r"\t(?:call|jmp|j\w+) +[0-9a-f]+ <([^>+]+)(?:\+0x[0-9a-f]+)?>")
RELOCATION = re.compile(r"\bR_X86_64_(?:PLT32|PC32)\s+([^\s+-]+)")


class Function:
    def __init__(self, place):
        self.place = place
        self.frame = 0
        self.callees = set()


def objects(directory):
    """Yields our objects that are of one source."""
    for path in sorted(directory.rglob("*.o")):
        parts = path.relative_to(directory).parts
        is_part = len(parts) > 1 and parts[0] not in ("samples", "tools")
        if is_part and not path.name.endswith((".mod.o", ".vmlinux.o")):
            yield path


def disassemble(path, functions):
    """Notes the functions of an object."""
    # With link-time optimisation, C files are no objects yet: objdump prints nothing for them.
    out = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", path], capture_output=True, text=True).stdout
    section, current = "", None
    for line in out.splitlines():
        if line.startswith("Disassembly of section "):
            section = line.split()[-1].rstrip(":")
        elif match := FUNCTION.match(line):
            current = functions.setdefault(match[1], Function((path, section)))
        elif current is None:
            continue
        elif PUSH.search(line):
            current.frame += 8
        elif match := SUB.search(line):
            current.frame += int(match[1], 16)
        elif match := BRANCH.search(line) or RELOCATION.search(line):
            current.callees.add(match[1])


def demangled(names):
    """Returns the names as people read them."""
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    # Without the crates' hashes.
    return dict(zip(names, re.sub(r"\[[0-9a-f]{16}\]", "", out.stdout).split("\n")))


def on_hit_paths(functions, shown):
    """Returns the functions that a hit may be in, and which of them called each first."""
    is_root = re.compile("|".join(ROOTS)).search
    is_off = re.compile("|".join(OFF_PATH)).search
    found = {
        name: None
        for name, function in functions.items()
        if (function.place[1] == ".kprobes.text" or is_root(shown[name])) and not is_off(shown[name])
    }
    todo = list(found)
    while todo:
        caller = todo.pop()
        for name in functions[caller].callees:
            if name in functions and name not in found and not is_off(shown[name]):
                found[name] = caller
                todo.append(name)
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    repo = Path(__file__).resolve().parents[2]
    kdir = subprocess.run(
        [repo / "integration/kernel.sh", "kdir", sys.argv[1]], capture_output=True, text=True, check=True
    ).stdout.strip()
    if INSTRUMENTED.search((Path(kdir) / ".config").read_text()):
        print("instrumented code takes more")
        return
    functions = {}
    for path in objects(Path(kdir) / "kernel/ferrotrace"):
        disassemble(path, functions)
    shown = demangled(list(functions))
    found = on_hit_paths(functions, shown)
    largest = max(found, key=lambda name: functions[name].frame, default=None)
    if largest is None:
        sys.exit("frames: no hit paths")
    print(f"{len(found)} functions of {len(functions)}; {functions[largest].frame} bytes in {shown[largest]}")
    failed = False
    for name in sorted(found, key=lambda name: -functions[name].frame):
        function = functions[name]
        if function.frame <= LIMIT:
            break
        failed = True
        caller = found[name]
        print(f"{function.frame} bytes: {shown[name]} in {function.place[0].name}")
        while caller:
            print(f"    called by {shown[caller]}")
            caller = found[caller]
    sys.exit(failed)


if __name__ == "__main__":
    main()
