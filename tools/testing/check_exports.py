#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares declarations of two kernel headers with the symbols of a kernel with the Rust engine.

    check_exports.py VARIANT    the variant has been built

All that <linux/kprobes.h> and <linux/rethook.h> declare in its configuration must be defined in
vmlinux or in the engine's module, except MISSING, which has the reasons. All exports of the C
engine must be exported.
"""

import os
import re
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
HEADERS = ("linux/kprobes.h", "linux/rethook.h")
# Sources of the C engine that export symbols, in the kernel's tree.
C_ENGINE = (
    "kernel/kprobes.c",
    "kernel/trace/rethook.c",
    "arch/x86/kernel/rethook.c",
    "arch/x86/kernel/kprobes/core.c",
    "arch/x86/kernel/kprobes/ftrace.c",
)

HALVES = "between the generic half of the C engine and x86's, which nobody else calls"
SLOTS = "the C engine's memory for copies; ours is rust/sys/mm/exec_pool.rs"
MISSING = {
    "arch_trampoline_kprobe": HALVES,
    "arch_prepare_kprobe": HALVES,
    "arch_arm_kprobe": HALVES,
    "arch_disarm_kprobe": HALVES,
    "arch_init_kprobes": HALVES,
    "arch_prepare_kprobe_ftrace": HALVES,
    "arch_adjust_kprobe_addr": HALVES,
    "arch_within_kprobe_blacklist": HALVES,
    "arch_populate_kprobe_blacklist": HALVES,
    "arch_kprobe_get_kallsym": HALVES,
    "arch_rethook_prepare": HALVES,
    "arch_rethook_fixup_return": HALVES,
    "rethook_trampoline_handler": HALVES,
    "kprobe_ftrace_handler": HALVES,
    "kprobe_exceptions_notify": "an arch's notifier, which x86 has none of",
    "kretprobe_blacklist": "a table of the C engine; ours asks kprobes/builtin/raw/kretprobe.rs",
    "__get_insn_slot": SLOTS,
    "__free_insn_slot": SLOTS,
    "kprobe_cache_get_kallsym": SLOTS,
    "alloc_insn_page": SLOTS,
    "alloc_optinsn_page": "of jump optimisation, which only the C engine has",
    "free_optinsn_page": "of jump optimisation, which only the C engine has",
}


def output(*command, **kwargs):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout


def preprocessed(kdir, source):
    """Returns a preprocessed source, compiled as the kernel compiles the engine's."""
    at = os.path.join(kdir, "kernel/ferrotrace/kprobes/builtin/.builtin.o.cmd")
    with open(at, encoding="utf-8") as file:
        command = re.match(r"savedcmd_\S+ := (.*)", file.readline()).group(1)
    command = command.split(" ; ")[0]
    command = re.sub(r" -Wp,-MMD,\S+", "", command)
    command = re.sub(r" -c -o \S+ \S+\s*$", "", command)
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(source)
        file.flush()
        return output("sh", "-c", f"{command} -E {file.name}", cwd=kdir)


def of_headers(text):
    """Returns the lines from HEADERS."""
    lines, inside = [], False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            inside = marker.group(1).endswith(HEADERS)
        elif inside:
            lines.append(line)
    return "\n".join(lines)


def without(text, opening, before=""):
    """Returns the text without such brackets, their contents, and the text before them that
    `before` matches."""
    closing = {"{": "}", "(": ")"}[opening]
    pattern = re.compile(before + re.escape(opening))
    while found := pattern.search(text):
        depth, end = 1, found.end()
        while depth:
            depth += {opening: 1, closing: -1}.get(text[end], 0)
            end += 1
        # A body ends a definition, which declares nothing that others define.
        text = text[: found.start()] + (" @;" if opening == "{" else " ") + text[end:]
    return text


def declared(text):
    """The names of the functions and objects that are declared and not defined."""
    text = without(text, "{")
    text = without(text, "(", r"\b(?:__attribute__|__typeof__|typeof|_Static_assert|__asm__|asm)\s*")
    names = set()
    for statement in text.split(";"):
        if "@" in statement or re.match(r"\s*(typedef|struct \w+\s*$|$)", statement):
            continue
        name = re.search(r"(\w+)\s*(?:\(|\[[^]]*\]\s*$|$)", statement.strip())
        if name and not re.search(r"\bstatic\b", statement):
            names.add(name.group(1))
    return names


def defined(path):
    """The symbols that a file defines."""
    fields = (line.split() for line in output("nm", "--defined-only", path).splitlines())
    return {field[-1] for field in fields}


def exported(tree):
    """Returns the symbols that the C engine exports."""
    names = set()
    for source in C_ENGINE:
        with open(os.path.join(tree, source), encoding="utf-8") as file:
            names |= set(re.findall(r"^EXPORT_SYMBOL(?:_GPL)?\((\w+)\)", file.read(), re.M))
    return names


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_exports.py VARIANT")
    kdir = output(os.path.join(REPO, "integration/kernel.sh"), "kdir", sys.argv[1]).strip()
    with open(os.path.join(kdir, ".config"), encoding="utf-8") as file:
        if "CONFIG_KPROBES_ENGINE_RUST=y\n" not in file:
            print("the C engine")
            return
    source = "".join(f"#include <{header}>\n" for header in HEADERS)
    names = declared(of_headers(preprocessed(kdir, source)))
    # If the headers were not understood, nothing would be missing.
    expected = {"register_kprobe", "rethook_hook", "get_kprobe", "current_kprobe", "kprobe_busy_begin", "kprobe_ftrace_disabled"}
    bad = [f"{name}: not seen to be declared" for name in expected - names]

    have = defined(os.path.join(kdir, "vmlinux"))
    module = os.path.join(kdir, "kernel/ferrotrace/rust_kprobes.ko")
    if os.path.exists(module):
        have |= defined(module)
    bad += [f"{name}: declared, and not defined" for name in names - have - MISSING.keys()]
    bad += [f"{name}: listed as missing, and defined" for name in MISSING.keys() & have]
    bad += [f"{name}: listed as missing, and not declared" for name in MISSING.keys() - names]

    with open(os.path.join(kdir, "Module.symvers"), encoding="utf-8") as file:
        symbols = {line.split("\t")[1] for line in file}
    exports = exported(os.path.dirname(kdir))
    bad += [f"{name}: exported by the C engine only" for name in exports - symbols]
    print(f"{len(names)} declared, {len(names - MISSING.keys())} to be defined, {len(exports)} exported")
    for line in sorted(bad):
        print(line)
    sys.exit(1 if bad or not exports else 0)


if __name__ == "__main__":
    main()
