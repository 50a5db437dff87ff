#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Write rust-project.json, which describes the kernel's crates and ours to rust-analyzer.

    rust-analyzer.py KDIR [--check RUST-ANALYZER]

KDIR is a variant's build directory, in which "make rust-analyzer" of the kernel has described the kernel's own crates.
kbuild notes there how it compiled each of our crates (.NAME.o.cmd): the crates that it uses, its configuration and its
edition. The roots of ours are in this repository, so that an editor opens the files that you edit.

--check asks rust-analyzer, as an editor does, for the definition of a name that each of our crates imports from each crate that
it uses, and fails if there is no answer for one.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

from rustdoc import noted

REPO = pathlib.Path(__file__).resolve().parent.parent
# Where the kernel's tree has our directory.
PART = "kernel/ferrotrace/"
# Crates that rustc knows without an option.
PRELUDE = ("core", "compiler_builtins")


def values(words, option):
    """Returns the arguments of an option that may occur several times."""
    return [words[i + 1] for i, word in enumerate(words[:-1]) if word == option]


def crate_notes(kdir):
    """Returns {source below our directory: words of rustc} of our crates."""
    notes = {}
    for path in sorted((kdir / PART).rglob(".*.o.cmd")):
        line = path.read_text(encoding="utf-8").split("\n", 1)[0]
        if "--out-dir" in line and line.rstrip().endswith(".rs"):
            _, _, words = noted(path)
            notes[words[-1].split(PART, 1)[1]] = words
    return notes


def described(root, words, index, cfg, kdir):
    """Returns the description of one of our crates; INDEX has the place of each crate that it may use."""
    names = [*PRELUDE, *values(words, "--extern")]
    missing = [n for n in names if n not in index]
    if missing:
        sys.exit(f"rust-analyzer: {root} uses crates that are not described: {' '.join(missing)}")
    own = values(words, "--cfg")
    return {
        "display_name": pathlib.Path(root).stem,
        "root_module": str(REPO / root),
        "is_workspace_member": True,
        "deps": [{"crate": index[n], "name": n} for n in names],
        "cfg": cfg + own,
        "edition": next(w for w in words if w.startswith("--edition=")).split("=")[1],
        "env": {"OBJTREE": str(kdir), "RUST_MODFILE": "This is only for rust-analyzer"},
        "source": {"include_dirs": [str((REPO / root).parent)], "exclude_dirs": []},
    }


def in_order(notes):
    """Yields (source, words) of our crates, each after those that it uses."""
    by_name = {pathlib.Path(root).stem: root for root in notes}
    done = set()

    def visit(root):
        if root in done:
            return
        done.add(root)
        for name in values(notes[root], "--extern"):
            if name in by_name:
                yield from visit(by_name[name])
        yield root, notes[root]

    for root in notes:
        yield from visit(root)


def project(kdir):
    """Returns the kernel's description with our crates added."""
    made = json.loads((kdir / "rust-project.json").read_text(encoding="utf-8"))
    crates = made["crates"]
    # The kernel describes its samples and drivers, too; a crate of ours may have the name of one.
    index = {crate["display_name"]: i for i, crate in reversed(list(enumerate(crates)))}
    cfg = next(crate for crate in crates if crate["display_name"] == "kernel")["cfg"]
    for root, words in in_order(crate_notes(kdir)):
        if not (REPO / root).exists():
            sys.exit(f"rust-analyzer: {root} is not there any longer; build the kernel again")
        index[pathlib.Path(root).stem] = len(crates)
        crates.append(described(root, words, index, cfg, kdir))
    return made


class Server:
    """rust-analyzer, as an editor talks to it: the Language Server Protocol, by pipes."""

    def __init__(self, analyzer, project_file):
        self.process = subprocess.Popen([analyzer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPO)
        self.number = 0
        settings = {"linkedProjects": [str(project_file)], "checkOnSave": False, "cachePriming": {"enable": False}}
        self.ask("initialize", {"processId": None, "rootUri": REPO.as_uri(), "initializationOptions": settings,
                                "capabilities": {"experimental": {"serverStatusNotification": True}}})
        self.send({"method": "initialized", "params": {}})
        while True:
            message = self.receive()
            if message.get("method") == "experimental/serverStatus" and message["params"]["quiescent"]:
                break

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self):
        """Returns the next message; answers what the server asks of an editor by nothing."""
        length = 0
        while (line := self.process.stdout.readline().strip()) or not length:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif not line and self.process.poll() is not None:
                sys.exit("rust-analyzer: it has ended")
        message = json.loads(self.process.stdout.read(length))
        if "method" in message and "id" in message:
            self.send({"id": message["id"], "result": None})
        return message

    def ask(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                return message.get("result")

    def definition(self, path, line, column):
        """Returns the files with the definition of the name there."""
        where = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}
        return [found["uri"].removeprefix("file://") for found in self.ask("textDocument/definition", where) or []]


def imports(root, crates):
    """Returns {crate: (file, line, column, name)}: a name that the crate with that root imports from each crate."""
    found = {}
    for path in [root, *sorted(root.parent.rglob("*.rs"))]:
        text = path.read_text(encoding="utf-8")
        # Up to a name that is no module: the first leaf of a tree of imports.
        for use in re.finditer(r"^use (\w+)::[\w:{\s]*?\b([A-Za-z]\w+)\s*[,;}]", text, re.M):
            if use[1] in crates and use[2] not in ("self", "prelude") and use[1] not in found:
                line = text.count("\n", 0, use.start(2))
                found[use[1]] = (path, line, use.start(2) - text.rfind("\n", 0, use.start(2)) - 1, use[2])
    return found


def check(analyzer, made, path):
    """Returns true if rust-analyzer finds the definitions of names that our crates import."""
    server, bad, good = Server(analyzer, path), 0, 0
    for crate in made["crates"]:
        root = pathlib.Path(crate["root_module"])
        if not root.is_relative_to(REPO):
            continue
        for used, (file, line, column, name) in imports(root, {d["name"] for d in crate["deps"]}).items():
            if server.definition(file, line, column):
                good += 1
                continue
            print(f"{file.relative_to(REPO)}:{line + 1}: no definition of {name} of the crate {used}")
            bad += 1
    server.process.kill()
    print(f"rust-analyzer: {good} imported names have a definition, {bad} have none")
    return good > 20 and not bad


def main():
    kdir = pathlib.Path(sys.argv[1]).resolve()
    path = REPO / "rust-project.json"
    made = project(kdir)
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    ours = sum(crate["root_module"].startswith(str(REPO)) for crate in made["crates"])
    print(f"{path}: {len(made['crates'])} crates, {ours} of them ours")
    if sys.argv[2:3] == ["--check"]:
        return 0 if check(sys.argv[3], made, path) else 1
    packages = subprocess.run(["git", "ls-files", "Cargo.toml", "*/Cargo.toml"], cwd=REPO, text=True, stdout=subprocess.PIPE, check=True)
    linked = [path.name] + [p for p in packages.stdout.split() if "[package]" in (REPO / p).read_text(encoding="utf-8")]
    print("For the Cargo packages, too, set in your editor:")
    print(f'    "rust-analyzer.linkedProjects": {json.dumps(linked)}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
