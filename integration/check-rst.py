#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check that reStructuredText files are well formed; fails on any warning.

The roles and directives that only Sphinx has (as the kernel's documentation uses them) are let through.
"""

import sys

from docutils import core, nodes, utils
from docutils.parsers.rst import Directive, directives, roles

ROLES = ("doc", "ref", "c:func", "c:type", "c:struct", "c:macro", "file", "kbd")
DIRECTIVES = ("toctree", "kernel-doc", "c:function", "c:type", "c:macro")


class AnyDirective(Directive):
    """Takes whatever a Sphinx directive may hold."""

    has_content = True
    optional_arguments = 100

    def run(self):
        return []


def any_role(_name, rawtext, text, _lineno, _inliner, _options=None, _content=None):
    return [nodes.literal(rawtext, text)], []


def main():
    for role in ROLES:
        roles.register_local_role(role, any_role)
    for directive in DIRECTIVES:
        directives.register_directive(directive, AnyDirective)
    bad = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        tree = core.publish_doctree(text, source_path=path, settings_overrides={
            "report_level": utils.Reporter.WARNING_LEVEL, "halt_level": 5})
        bad += tree.reporter.max_level >= utils.Reporter.WARNING_LEVEL
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
