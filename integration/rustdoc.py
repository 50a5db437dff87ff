#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Documents our crates of the kernel, and compiles the examples in it; fails on any warning.

    rustdoc.py KDIR RUSTDOC OUT

KDIR is a variant's build directory: kbuild has noted there the flags and crates with which each
crate is compiled (.NAME.o.cmd), and rustdoc uses the same. Crates have a root called ferro_*.rs;
cargo documents the packages of pure logic.

As rustdoc's --test-builder, which is called as rustc is, it compiles an example without making a
program of it: there is nothing here that could run it.
"""

import os
import pathlib
import shlex
import subprocess
import sys

RUSTC = "FERROTRACE_RUSTC"
# Options about the object that is not made here.
DROPPED = ("--emit", "--remap-path-scope", "-Zbinary_dep_depinfo")


def noted(cmd_file):
    """The environment and the arguments that kbuild has compiled a crate with."""
    line = cmd_file.read_text().split("\n", 1)[0]
    words = shlex.split(line.split(" := ", 1)[1].split(" ; ")[0])
    environment = {}
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    rustc = words.pop(0)
    where = words.index("--out-dir")
    del words[where:where + 2]
    return environment, rustc, [word for word in words if not word.startswith(DROPPED)]


def document(kdir, rustdoc, out, cmd_file):
    """Returns true without a complaint."""
    environment, rustc, words = noted(cmd_file)
    crate = cmd_file.name.removeprefix(".").removesuffix(".o.cmd")
    environment = {**os.environ, **environment, "RUSTC_BOOTSTRAP": "1", RUSTC: rustc}
    made = subprocess.run([rustdoc, *words, "-Dwarnings", "--out-dir", out], cwd=kdir, env=environment, check=False)
    examples = []
    # "cargo test" compiles, and runs, those of the pure crates.
    if not crate.endswith("_core"):
        examples = [rustdoc, *words, "--test", "--no-run", "--test-builder", os.path.abspath(__file__),
                    "-L", str(cmd_file.parent.relative_to(kdir)), "--extern", crate]
        tested = subprocess.run(examples, cwd=kdir, env=environment, check=False, capture_output=True, text=True)
        if tested.returncode:
            print(tested.stdout, tested.stderr, file=sys.stderr)
            return False
        print(crate, *(line for line in tested.stdout.splitlines() if line.startswith("running")), sep=": ")
    return made.returncode == 0


def main():
    """Documents all crates, also after a failure."""
    kdir, rustdoc, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    ours = kdir / "kernel/ferrotrace"
    cmd_files = [f for f in sorted(ours.rglob(".ferro_*.o.cmd")) if "--crate-type rlib" in f.read_text()]
    if not cmd_files:
        sys.exit(f"no crate has been compiled in {ours}")
    results = [document(kdir, rustdoc, out, f) for f in cmd_files]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    if RUSTC in os.environ:
        # A library needs no panic handler.
        arguments = [a.replace("--crate-type=bin", "--crate-type=lib") for a in sys.argv[1:]]
        os.execvp(os.environ[RUSTC], [os.environ[RUSTC], *arguments, "--emit=metadata"])
    main()
