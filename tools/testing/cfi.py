#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Looks for functions of ours that a kernel with CFI could not call through a pointer.

    cfi.py KDIR    the build directory of a kernel with CONFIG_CFI: the variant "cfi", or part of it

Each indirect call compares its type with the one before its target, and ends in a trap if they
differ. Prints two lists: functions of ours whose address is taken without a call of their type, and
calls of ours without a function. Fails for any that is not in EXPECTED. Where only a part of the
kernel is built, functions and calls of the rest are missing.
"""

import collections
import os
import re
import struct
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
OURS = "kernel/ferrotrace/"
# How the names of functions in Rust begin that implement traits, or that the compiler adds: C calls none of them.
NOT_FOR_C = ("_RNvX", "_RNvY", "_RNS")
# By a part of their names: why there is no counterpart.
EXPECTED = {
    "__gcov_merge_": "compilers store their addresses, which say what counters are",
    "jkernel_clone": "the handler of a jprobe, which assembly calls as the probed function was called",
    "5calls5suite5never": "a test's handler of ftrace goes on there",
    "11TrapHandler5fault": "handlers of faults are clients', and the kernel itself has none: the selftests' module has",
    "12Surroundings5exits": "inlined where it is called, with what it calls",
}

# Relocations that take an address, and not in a branch.
R_64, R_PC32, R_32, R_32S, R_GOTPCREL = 1, 2, 10, 11, (9, 41, 42)
ABSOLUTE = (R_64, R_32, R_32S)
# A check: mov $-TYPE,%r10d or %r11d; add DISPLACEMENT(%reg),%that; je 1f; ud2. The trap is at the end.
MOV = (b"\x41\xba", b"\x41\xbb")

Function = collections.namedtuple("Function", "name file type taken")
Call = collections.namedtuple("Call", "file where type")


class Object:
    """An object file, as far as this needs it."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:5] != b"\x7fELF\x02":
            raise ValueError(f"{path}: not an object of 64 bits")
        offset, = struct.unpack_from("<Q", self.data, 0x28)
        size, count, names = struct.unpack_from("<HHH", self.data, 0x3a)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)]
        self.names = [self.string(self.sections[names], s[0]) for s in self.sections]
        self.symbols = []
        for section in self.sections:
            if section[1] == 2:
                strings = self.sections[section[6]]
                for at in range(section[4], section[4] + section[5], 24):
                    name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                    self.symbols.append((self.string(strings, name), info & 15, index, value))

    def string(self, section, at):
        """A string of a section of strings."""
        start = section[4] + at
        return self.data[start:self.data.index(b"\0", start)].decode()

    def bytes(self, index, at, count):
        """Some bytes of a section."""
        start = self.sections[index][4] + at
        return self.data[start:start + count]

    def relocations(self):
        """Each as (section, offset, kind, symbol, addend)."""
        for section in self.sections:
            if section[1] != 4:
                continue
            for at in range(section[4], section[4] + section[5], 24):
                offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                yield section[7], offset, info & 0xffffffff, self.symbols[info >> 32], addend

    def types(self):
        """The types of its functions, by section and offset, with their names."""
        known = {}
        checked = {name[6:] for name, _, _, _ in self.symbols if name.startswith("__cfi_")}
        for name, kind, index, value in self.symbols:
            if kind == 2 and name in checked and value >= 4:
                known[(index, value)] = (name, struct.unpack("<I", self.bytes(index, value - 4, 4))[0])
        return known

    def calls(self):
        """The types of its calls, with where they are."""
        for section, _, _, (_, kind, index, value), addend in self.relocations():
            if self.names[section] != ".kcfi_traps":
                continue
            trap = value + addend
            index = index if kind == 3 or index else 0
            for before in (12, 13, 14):
                if self.bytes(index, trap - before, 2) in MOV:
                    negative, = struct.unpack("<I", self.bytes(index, trap - before + 2, 4))
                    yield self.where(index, trap), -negative & 0xffffffff
                    break

    def where(self, index, at):
        """The function that holds an offset."""
        inside = [(v, n) for n, k, i, v in self.symbols if k == 2 and i == index and v <= at and not n.startswith("__cfi_")]
        return max(inside)[1] if inside else self.names[index]

    def taken(self):
        """Returns the addresses that its relocations take: (section, offset) here, or names
        elsewhere."""
        for section, _, kind, (name, _, index, value), addend in self.relocations():
            if not self.names[section].startswith((".text", ".data", ".rodata", ".init", ".kprobes", ".noinstr", ".cpuidle", ".ref")):
                continue
            if not (kind in ABSOLUTE or kind == R_PC32 or kind in R_GOTPCREL):
                continue
            at = value + addend + (0 if kind in ABSOLUTE else 4)
            yield (index, at) if index else name


def is_expected(name):
    """Returns true if EXPECTED has the reason for a missing counterpart."""
    return any(part in name for part in EXPECTED)


def called_from_c():
    """The names of the functions in Rust that C may call. The compiler sees to the others: both sides have the type from it."""
    names = set()
    for at, _, files in os.walk(REPO):
        for name in files:
            if name.endswith(".rs") and "/target" not in at and "/tools/" not in at + "/":
                with open(os.path.join(at, name), encoding="utf-8") as file:
                    names.update(re.findall(r'extern "C" fn (\w+)', file.read()))
    return {f"{len(name)}{name}" for name in names}


def read(kdir):
    """All functions and calls of the objects below a build directory."""
    functions, calls, names = [], [], set()
    for path in (os.path.join(at, name) for at, _, files in os.walk(kdir) for name in files if name.endswith(".o")):
        file = os.path.relpath(path, kdir)
        # Parts of the image and modules are linked from the others.
        if file.startswith(("vmlinux", "tools/", "scripts/", ".")) or file.endswith((".mod.o", "built-in.o")):
            continue
        try:
            obj = Object(path)
        except (ValueError, struct.error):
            continue
        taken = set(obj.taken())
        names.update(t for t in taken if isinstance(t, str))
        for at, (name, kind) in obj.types().items():
            functions.append(Function(name, file, kind, at in taken))
        calls += [Call(file, where, kind) for where, kind in obj.calls()]
    return [f._replace(taken=f.taken or f.name in names) for f in functions], calls


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: cfi.py KDIR")
    functions, calls = read(sys.argv[1].rstrip("/"))
    types = {c.type for c in calls}
    have = {f.type for f in functions}
    rust = called_from_c()
    # A generic function is there many times; so is all that is in modules of several objects.
    lonely, missing = collections.defaultdict(set), collections.defaultdict(set)
    for f in functions:
        if f.file.startswith(OURS) and f.taken and f.type not in types:
            from_c = not f.name.startswith("_R") or not f.name.startswith(NOT_FOR_C) and any(name in f.name for name in rust)
            if from_c and not is_expected(f.name):
                lonely[f.type].add(f"{f.name} ({f.file})")
    for c in calls:
        if c.file.startswith(OURS) and c.type not in have and not is_expected(c.where):
            missing[c.type].add(f"{c.where} ({c.file})")
    for what, found in (("no call for functions", lonely), ("no function for calls in", missing)):
        for kind, names in sorted(found.items()):
            print(f"{what} of type {kind:08x}: " + ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""))
    bad = len(lonely) + len(missing)
    ours = [f for f in functions if f.file.startswith(OURS)]
    mine = sum(c.file.startswith(OURS) for c in calls)
    print(f"{len(functions)} functions, {len(ours)} ours, of {sum(f.taken for f in ours)} the address is taken; {len(calls)} calls, "
          f"{mine} ours; {bad} types without a counterpart")
    # A run that has seen nothing has shown nothing.
    sys.exit(bad != 0 or not ours or not mine)


if __name__ == "__main__":
    main()
