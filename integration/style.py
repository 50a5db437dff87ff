#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""style.py [--lower]: measures how each room is written, and fails where a figure is above its ceiling.

Ceilings are in style-ceilings in this directory, one line a room: the name of each figure and its
ceiling. --lower lowers ceilings to the figures, and does not raise any. The figures are

- rates per 1,000 words of comments in Rust, or of text in documents, of words that this project wrote too often (WORDS);
- verdicts: doc comments that begin with What or Whether, where a verb or a noun belongs;
- long: lines of Rust over 100 columns;
- circles: groups of files of one crate that import each other in a circle;
- upward: files in raw/ that import a file outside of it, apart from the crate's root.
"""
import os
import re
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CEILINGS = os.path.join(REPO, "integration/style-ceilings")
ROOMS = ("dprobes", "klog", "kprobes", "ftrace_tramp", "gcov", "coverage", "relay", "fast_relay", "gkhi", "clients", "rust", "samples", "tools/ferrotrace",
         "tools/testing", "Documentation")
COLUMNS = 100
WORDS = {
    # WHAT, in capitals, is a word of the command line.
    "what": r"(?-i:[Ww]hat(ever)?)",
    "who": r"who(m|se|ever|sever)?",
    "nobody": r"(no|some|any|every)body",
    "go-come": r"go(es|ne|ing)|c[ao]me|comes",
    "of-which": r"th(at|ose) of|(of|in|for|to|by) which",
    "anew": r"meanwhile|anew|for ever|any more|from (then|now|here) on|as a rule|beside",
    "it-is": r"it is|they are|that is",
}


def read(name):
    """Returns the text of a file of the repository."""
    with open(os.path.join(REPO, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def listed(*patterns):
    """Returns the names of files that git knows, and that are there."""
    names = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=REPO, text=True, capture_output=True, check=True)
    return [n for n in names.stdout.split("\0") if n and os.path.isfile(os.path.join(REPO, n))]


def prose(name):
    """Returns the comments of a Rust file, or all of a document."""
    if not name.endswith(".rs"):
        return read(name)
    comments = re.findall(r"^\s*//[/!]?(.*)", read(name), re.M)
    return "\n".join(line for line in comments if "SPDX" not in line)


def room_of(name):
    """Returns the room that a file belongs to; documents at the top belong to Documentation."""
    if name.endswith(".md"):
        return "Documentation"
    return next((room for room in ROOMS if name.startswith(room + "/")), None)


def modules(root, files):
    """Returns the files of the crate with this root, by the paths of their modules."""
    found, todo = {(): root}, [((), root, os.path.dirname(root))]
    while todo:
        path, name, folder = todo.pop()
        for attribute, module in re.findall(r'(?:#\[path = "(.*?)"\]\s*)?^\s*(?:pub(?:\(.*?\))? )?mod (\w+);', read(name), re.M):
            choices = [attribute] if attribute else [f"{module}.rs", f"{module}/mod.rs"]
            file = next((f for f in (os.path.normpath(os.path.join(folder, c)) for c in choices) if f in files), None)
            if file:
                found[path + (module,)] = file
                todo.append((path + (module,), file, os.path.join(folder, module)))
    return found


def is_test(name):
    """Returns true for files that only tests need."""
    return "/tests/" in name or name.endswith("tests.rs")


def imports(crate):
    """Returns the set of (file, imported file) of a crate, without its tests."""
    arrows = set()
    for path, name in crate.items():
        if is_test(name):
            continue
        code = re.sub(r"//.*", "", read(name)).split("#[cfg(test)]\nmod tests {")[0]
        for start, rest in re.findall(r"\b(crate|super)((?:::\w+)+)", code):
            at, parts = (() if start == "crate" else path[:-1]), rest[2:].split("::")
            while parts and parts[0] == "super":
                at, parts = at[:-1], parts[1:]
            target = at + tuple(parts)
            while target not in crate:
                target = target[:-1]
            if crate[target] != name and not is_test(crate[target]):
                arrows.add((name, crate[target]))
    return arrows


def reachable(arrows):
    """Returns for each file the files that its imports lead to."""
    to = {}
    for a, b in arrows:
        to.setdefault(a, set()).add(b)
    all_of = {}
    for a in to:
        seen, todo = set(), list(to[a])
        while todo:
            b = todo.pop()
            if b not in seen:
                seen.add(b)
                todo.extend(to.get(b, ()))
        all_of[a] = seen
    return all_of


def structure(figures):
    """Adds the circles and the imports out of raw/ to the figures of the rooms, and returns a line for each."""
    kbuild, rust, lines = read("Kbuild"), set(listed("*.rs")), []
    roots = {f"{d}/{n}.rs" for d, n in re.findall(r"call ferro-crate,([^,$]+),([^,$]+),", kbuild)}
    roots |= {f"{n}.rs" for n in re.findall(r"call ferro-rust,([^,$]+),", kbuild)}
    roots |= {n for n in rust if n.startswith("tools/ferrotrace/") and n.endswith("src/lib.rs")}
    for root in sorted(roots & rust):
        arrows, room = imports(modules(root, rust)), figures[room_of(root)]
        to = reachable(arrows)
        circles = {frozenset(b for b in to[a] if a in to.get(b, ())) for a in to if a in to[a]}
        upward = sorted((a, b) for a, b in arrows if "/raw/" in a and "/raw/" not in b and b != root)
        room["circles"] = room.get("circles", 0) + len(circles)
        room["upward"] = room.get("upward", 0) + len(upward)
        lines += [f"circle: {' '.join(sorted(c))}" for c in sorted(circles, key=sorted)]
        lines += [f"upward: {a} imports {b}" for a, b in upward]
    return lines


def measure():
    """Returns the figures by room, and a line for each circle and each upward import."""
    figures = {room: {} for room in ROOMS}
    for room, counts in figures.items():
        names = [n for n in listed("*.rs", "*.rst", "*.md") if room_of(n) == room]
        text = "\n".join(prose(n) for n in names)
        words = max(1, len(re.findall(r"[A-Za-z']+", text)))
        for key, pattern in WORDS.items():
            # To the next tenth, so that a rate that was written down holds.
            hits = len(re.findall(rf"\b(?:{pattern})\b", text, re.I))
            counts[key] = -(-10000 * hits // words) / 10
        rust = "\n".join(read(n) for n in names if n.endswith(".rs"))
        if rust:
            counts["verdicts"] = len(re.findall(r"^(?!\s*//[/!] )[^\n]*\n\s*//[/!] (?:What|Whether)\b", rust, re.M))
            counts["long"] = sum(len(line) > COLUMNS for line in rust.split("\n"))
    return figures, structure(figures)


def load():
    """Returns the ceilings by room."""
    ceilings = {}
    for line in read("integration/style-ceilings").split("\n"):
        if line and not line.startswith("#"):
            room, *pairs = line.split()
            ceilings[room] = {key: float(most) for key, most in (pair.split("=") for pair in pairs)}
    return ceilings


def main():
    figures, lines = measure()
    ceilings, failed = load(), False
    for room, counts in figures.items():
        for key, value in counts.items():
            most = ceilings.get(room, {}).get(key)
            if most is None or value > most:
                if "--lower" in sys.argv[1:] and most is None:
                    continue
                failed = True
                print(f"{room}: {key} is {value:g}, above its ceiling of {most}")
    if failed:
        print("\n".join(lines))
    if "--lower" in sys.argv[1:]:
        with open(CEILINGS, "w", encoding="utf-8") as f:
            f.write("# The most that the figures of style.py may be, by room. They only get lower: style.py --lower.\n")
            for room, counts in figures.items():
                most = ceilings.get(room, {})
                f.write(" ".join([room] + [f"{k}={min(v, most.get(k, v)):g}" for k, v in counts.items()]) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
