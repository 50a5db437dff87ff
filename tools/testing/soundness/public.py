#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print the public items of the Rust APIs that no client outside of the tree uses; fail if any.

    public.py [-a]		-a: print all public items instead

Generic and inlined code becomes code of the client: it needs symbols that only such a client's
link misses. The clients are samples/outside and soundness/run_pass. An item is a type, trait,
macro, constant or function that a crate's root offers, or a method of such a type or trait; a
client uses it by its name. Variants and fields need no symbols.
"""

import pathlib
import re
import sys

TREE = pathlib.Path(__file__).resolve().parents[3]
CLIENTS = ["samples/outside", "tools/testing/soundness/run_pass"]
ROOTS = {
    "ferro_gkhi": "gkhi/ferro_gkhi.rs",
    "ferro_relay": "relay/api/ferro_relay.rs",
    "ferro_fast_relay": "fast_relay/ferro_fast_relay.rs",
    "ferro_kprobe": "kprobes/api/ferro_kprobe.rs",
    "ferro_ftrace": "ftrace_tramp/api/ferro_ftrace.rs",
    "ferro_klog": "klog/ferro_klog.rs",
}
# Where a crate has some of its items from.
ELSEWHERE = {"ferro_gkhi": ["rust/sys/hook/typed"]}
# Files of ferro_sys that Documentation/rust-clients.rst names.
SYS = [
    "cpu/mod.rs",
    "cpu/time.rs",
    "fs/debugfs.rs",
    "fs/fops.rs",
    "fs/uaccess.rs",
    "sync/refcounted.rs",
    "sync/deferred_drop.rs",
    "trace/tracepoint.rs",
]
# Items that a client without unsafe code cannot use, by the name or with the owner's name: those
# that take an `Alter`, an `Untraceable` or an `EnginePromise`; the traits and macros behind
# define_hook!, hook! and field!, and items that take unsafe to implement or declare; raw pointers, files of C,
# and memory that only engines have.
EXCEPT = set("""
    Alter Untraceable untraceable EnginePromise register_engine return_early set_argument set_register set_return_value
    Spec Param Open Hook declare_hook! hook_is_active! field_at from_register Argument
    as_ptr first_ref rename CFile FileOps MmapRequest UserDst::copy UserDst::copy_some UserDst::commit
""".split())

KIND = r"(?:fn|struct|enum|trait|const|type)"
ITEM = re.compile(rf"^pub (?:const )?{KIND} (\w+)", re.M)
MACRO = re.compile(r"#\[macro_export\]\s*macro_rules! (\w+)")
METHOD = re.compile(r"^    pub (?:const )?fn (\w+)", re.M)
TRAIT = re.compile(r"^pub (?:unsafe )?trait (\w+)[^{;]*\{", re.M)
TRAIT_METHOD = re.compile(r"^    (?:unsafe )?fn (\w+)", re.M)


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def without_tests(text):
    return re.sub(r"#\[kunit_tests.*", "", text, flags=re.S)


def block(text, start):
    """Returns the text between the braces that begin after start."""
    at = text.find("{", start)
    depth = 0
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1 : end]
    return ""


def is_offered(text, start):
    """Returns true if the item there is neither hidden nor of a configuration of its own."""
    for line in reversed(text[:start].rstrip().splitlines()):
        line = line.strip()
        if not line.startswith(("#[", "///")):
            return True
        if "doc(hidden)" in line or "cfg(" in line:
            return False
    return True


def type_of_impl(head):
    """Returns the name of the type in "<...> path::Type<...> {", or none for an impl of a trait."""
    depth = 0
    for at, c in enumerate(head):
        depth += {"<": 1, ">": -1}.get(c, 0) if head[at - 1 : at + 1] != "->" else 0
        if depth == 0 and not head.startswith("<"):
            break
        if depth == 0:
            head = head[at + 1 :]
            break
    name = re.match(r"\s*(?:\w+::)*(\w+)", head)
    return name and name[1]


def methods(text, names):
    """Yields TYPE::METHOD of the types and traits of these names."""
    for m in re.finditer(r"^impl\b([^{;]*)\{", text, re.M):
        if " for " in re.sub(r"for<", "", m[1]) or type_of_impl(m[1]) not in names:
            continue
        body = block(text, m.start())
        for f in METHOD.finditer(body):
            if is_offered(body, f.start()):
                yield f"{type_of_impl(m[1])}::{f[1]}"
    for m in TRAIT.finditer(text):
        if m[1] in names:
            for f in TRAIT_METHOD.finditer(block(text, m.start())):
                yield f"{m[1]}::{f[1]}"


def items_of_crate(name, root):
    """Returns the items of a crate: NAME, MACRO!, or TYPE::METHOD."""
    root = TREE / root
    text = without_comments(root.read_text())
    offered = set(re.findall(r"^pub use (?:\w+::)*(\w+);", text, re.M))
    folders = [root.parent, *(TREE / folder for folder in ELSEWHERE.get(name, []))]
    found = {item for item in offered if item[0].isupper()}
    for source in (p for folder in folders for p in folder.rglob("*.rs")):
        if "tests" in (*source.parts, source.stem):
            continue
        text = without_tests(source.read_text())
        found |= offered & set(ITEM.findall(text)) | set(methods(text, offered))
        found |= {m[1] + "!" for m in MACRO.finditer(text) if is_offered(text, m.start())}
    return found


def items_of_sys():
    found = set()
    for source in SYS:
        text = without_tests((TREE / "rust/sys" / source).read_text())
        top = {m[1] for m in ITEM.finditer(text) if is_offered(text, m.start())}
        found |= top | set(methods(text, top))
    return found


def is_used(item, text):
    if item.endswith("!"):
        return re.search(rf"\b{item[:-1]}!", text)
    owner, _, name = item.rpartition("::")
    if not owner:
        return re.search(rf"\b{name}\b", text)
    return re.search(rf"::{name}\b|\.{name}(?:::<|\()|\bfn {name}\b", text)


def main():
    clients = [p for folder in CLIENTS for p in (TREE / folder).rglob("*.rs")]
    used = "\n".join(without_comments(p.read_text()) for p in clients)
    crates = {name: items_of_crate(name, root) for name, root in ROOTS.items()}
    crates["ferro_sys"] = items_of_sys()
    failed = False
    for crate, items in crates.items():
        for item in sorted(items):
            if "-a" in sys.argv[1:]:
                print(f"{crate}::{item}")
            elif EXCEPT.isdisjoint({item, *item.split("::")}) and not is_used(item, used):
                print(f"{crate}::{item} is used by no client outside of the tree")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
