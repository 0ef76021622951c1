"""Check the kernels' rules about barriers (docs/gpu.md). PoCL compiles a kernel that breaks them wrongly, and no compiler warns.

    kernels.py ROOT     prints path:line: what is wrong; exit status 1 if anything is

A barrier is BARRIER(), and each macro or function of a .cl file or of dialect.h that has one.
"""
# SPDX-License-Identifier: Apache-2.0
import re
import sys

import tree

DIALECT = "common/gpu/dialect.h"
NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
MACRO = re.compile(r"^#\s*define\s+(\w+)(.*)$", re.MULTILINE)
HEAD = re.compile(r"^(KERNEL|FUNC)\b[^;{]*?(\w+)\s*\([^;{]*\)\s*\{", re.MULTILINE)
TOKEN = re.compile(r"\w+|\S")


def plain(text):
    """Return the text without comments and strings. A macro is joined into its first line, and the number of lines stays."""
    text = NOT_CODE.sub(lambda m: "\n" * m[0].count("\n"), text)
    return re.sub(r"(?:[^\n]*\\\n)+[^\n]*", lambda m: m[0].replace("\\\n", " ") + "\n" * m[0].count("\n"), text)


def functions(text):
    """Yield (is it a kernel, name, place of its brace, its end) of each function."""
    for head in HEAD.finditer(text):
        end = text.find("\n}", head.end())
        yield head[1] == "KERNEL", head[2], head.end() - 1, len(text) if end < 0 else end + 2


def barriers(texts):
    bodies = [(m[1], m[2]) for t in texts for m in MACRO.finditer(t)]
    bodies += [(name, t[begin:end]) for t in texts for kernel, name, begin, end in functions(t) if not kernel]
    known, before = {"BARRIER"}, 0
    while len(known) > before:
        before = len(known)
        known |= {name for name, body in bodies if not known.isdisjoint(re.findall(r"\w+", body))}
    return known


class Body:
    """Reads the statements of one function, and finds barriers and returns in wrong places."""

    def __init__(self, text, begin, end, kernel, known):
        self.tokens = [(m[0], m.start() + begin) for m in TOKEN.finditer(text[begin:end])]
        self.kernel, self.known, self.at, self.after, self.found = kernel, known, 0, False, []

    def word(self):
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "}"

    def take(self, branch):
        word, place = self.tokens[self.at]
        self.at += 1
        if word in self.known:
            self.after = True
            if branch:
                self.found.append((place, f"{word} in an if or else: PoCL can lose stores after it"))
        return word

    def until(self, last, branch):
        """Read on to the end of a statement or of a condition: to this last token, outside of inner brackets."""
        depth = 0
        while self.at < len(self.tokens):
            word = self.take(branch)
            depth += (word in "([{") - (word in ")]}")
            if word == last and depth == 0:
                return

    def statement(self, branch, depth):
        word = self.word()
        if word == "{":
            self.at += 1
            while self.at < len(self.tokens) and self.word() != "}":
                self.statement(branch, depth + 1)
            self.at += 1
        elif word in ("if", "for", "while", "switch"):
            self.branch_or_loop(word, branch, depth)
        elif word == "do":
            self.at += 1
            self.loop(branch, depth)
        elif word == "return":
            place = self.tokens[self.at][1]
            self.until(";", branch)
            # A return at the end of a function is allowed.
            if self.after and (self.kernel or depth > 1):
                self.found.append((place, "return after a barrier: PoCL loses what was read before it"))
        else:
            self.until(";", branch)

    def branch_or_loop(self, word, branch, depth):
        self.at += 1
        self.until(")", branch)
        if word in ("for", "while"):
            self.loop(branch, depth)
            return
        self.statement(True, depth + 1)
        if word == "if" and self.word() == "else":
            self.at += 1
            self.statement(True, depth + 1)

    def loop(self, branch, depth):
        """Read a loop. If it has a barrier, read it twice: in the loop's next turn, the whole body comes after a barrier."""
        begin, before, found = self.at, self.after, list(self.found)
        self.statement(branch, depth + 1)
        if self.after and not before:
            self.at, self.found = begin, found
            self.statement(branch, depth + 1)


def findings(root):
    text_of = {path: plain(tree.read(root, path)) for path in tree.files(root, (".cl",))}
    dialect = [plain(tree.read(root, path)) for path in tree.files(root, ("dialect.h",)) if path == DIALECT]
    known = barriers(dialect + list(text_of.values()))
    for path, text in text_of.items():
        found = [(m.start(), "a kernel's text includes nothing: what it needs stands before it")
                 for m in re.finditer(r"^[ \t]*#\s*include", text, re.MULTILINE)]
        code = re.sub(r"^[ \t]*#[^\n]*", lambda m: " " * len(m[0]), text, flags=re.MULTILINE)
        for kernel, _, begin, end in functions(text):
            body = Body(code, begin, end, kernel, known)
            body.statement(False, 0)
            found += body.found
        yield from (f"{path}:{text.count(chr(10), 0, place) + 1}: {what}" for place, what in sorted(found))


if __name__ == "__main__":
    sys.exit(tree.report(list(findings(sys.argv[1])), "kernels"))
