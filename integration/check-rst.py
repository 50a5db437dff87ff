#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that reStructuredText files are well formed and that their references are right; fails on
any warning.

Sphinx's own roles and directives (as the kernel's documentation uses them) are accepted. Of these,
documents that a ":doc:" or a table of contents names must exist, a file with a table of contents
must list every document in its directory, and Graphviz, where it is installed, must accept the
pictures. Included files must exist.
"""

import pathlib
import shutil
import subprocess
import sys

from docutils import core, nodes, utils
from docutils.parsers.rst import Directive, directives, roles

ROLES = ("ref", "c:func", "c:type", "c:struct", "c:macro", "file", "kbd")
DIRECTIVES = ("kernel-doc", "c:function", "c:type", "c:macro")


class AnyDirective(Directive):
    """Accepts all contents that a Sphinx directive may hold."""

    has_content = True
    optional_arguments = 100

    def run(self):
        return []


class Toctree(AnyDirective):
    """The documents of a directory. "listed" has the documents of all the directives of a file."""

    option_spec = {"maxdepth": directives.nonnegative_int, "caption": directives.unchanged, "titlesonly": directives.flag}
    listed = []

    def run(self):
        names = [line.strip() for line in self.content if line.strip()]
        self.listed += names
        return [problem(self.state.document, self.lineno, f"no document {name}")
                for name in names if not document_of(self.state.document, name).exists()]


class KernelRender(AnyDirective):
    """A picture that is drawn from text."""

    option_spec = {"alt": directives.unchanged, "caption": directives.unchanged}

    def run(self):
        if self.arguments != ["DOT"] or not shutil.which("dot"):
            return []
        drawn = subprocess.run(["dot", "-Tsvg"], input="\n".join(self.content), capture_output=True, text=True, check=False)
        said = drawn.stderr.strip()
        return [problem(self.state.document, self.lineno, f"dot: {said}")] if drawn.returncode or said else []


def document_of(document, name):
    return pathlib.Path(document["source"]).parent / f"{name}.rst"


def problem(document, line, text):
    return document.reporter.warning(text, line=line)


def any_role(_name, rawtext, text, _lineno, _inliner, _options=None, _content=None):
    return [nodes.literal(rawtext, text)], []


def doc_role(_name, rawtext, text, lineno, inliner, _options=None, _content=None):
    missing = not document_of(inliner.document, text).exists()
    return [nodes.literal(rawtext, text)], [problem(inliner.document, lineno, f"no document {text}")] if missing else []


def main():
    for role in ROLES:
        roles.register_local_role(role, any_role)
    roles.register_local_role("doc", doc_role)
    for directive in DIRECTIVES:
        directives.register_directive(directive, AnyDirective)
    directives.register_directive("toctree", Toctree)
    directives.register_directive("kernel-render", KernelRender)
    bad = 0
    if not sys.argv[1:]:
        sys.exit("usage: check-rst.py FILE...")
    for path in map(pathlib.Path, sys.argv[1:]):
        Toctree.listed = []
        tree = core.publish_doctree(path.read_text(encoding="utf-8"), source_path=str(path), settings_overrides={
            "report_level": utils.Reporter.WARNING_LEVEL, "halt_level": 5})
        bad += tree.reporter.max_level >= utils.Reporter.WARNING_LEVEL
        for image in tree.findall(nodes.image):
            if not (path.parent / image["uri"]).exists():
                print(f"{path}: no picture {image['uri']}", file=sys.stderr)
                bad += 1
        unlisted = {p.stem for p in path.parent.glob("*.rst")} - {path.stem, *Toctree.listed}
        if Toctree.listed and unlisted:
            print(f"{path}: not in the table of contents: {', '.join(sorted(unlisted))}", file=sys.stderr)
            bad += 1
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
