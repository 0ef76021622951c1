"""Find the files that a C source may include, by its text: all files in an #include, whatever #if says, and all that these include.

The compiler never reads a file that is not among them. A name that is found in several folders counts with all of them. An #include
of a macro counts as each text that a header of the tree defines it as. If none does, it counts as every header and table of the tree.
"""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import os
import re
import shlex
import subprocess

import tree

INCLUDE = re.compile(rb"^[ \t]*#[ \t]*(?:include|include_next|embed)[ \t]*(?:[\"<]([^\">\n]+)[\">]|(\w+))", re.MULTILINE)
DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+[\"<]([^\">\n]+)[\">]", re.MULTILINE)
SPLICE = re.compile(rb"\\\r?\n")
COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)


def folders(commands):
    """Return the folders where these command lines look for headers."""
    found = []
    for command in commands:
        words = iter(shlex.split(command))
        for word in words:
            for option in ("-I", "-isystem", "-iquote", "-idirafter"):
                if word == option:
                    found.append(next(words))
                elif word.startswith(option):
                    found.append(word[len(option):])
    return list(dict.fromkeys(found))


def defined(commands, root):
    """Return the files that these command lines name in macros, such as -DLIST='"few.def"'."""
    values = [word.split("=", 1)[1].strip('"<>') for command in commands for word in shlex.split(command)
              if word.startswith("-D") and "=" in word]
    return [path for path in (os.path.join(root, value) for value in values) if os.path.isfile(path)]


def system_folders(tool):
    """Return the folders where clang-tidy looks for the system's headers, as its own clang or another compiler tells them."""
    for compiler in (tool.replace("clang-tidy", "clang"), "clang", "cc"):
        try:
            said = subprocess.run([compiler, "-E", "-v", "-x", "c", os.devnull], capture_output=True, text=True, check=True).stderr
        except (OSError, subprocess.CalledProcessError):
            continue
        return [os.path.realpath(line.strip()) for line in said.split("search starts here:")[-1].splitlines() if line.startswith(" /")]
    return []


class Scan:
    """Reads each file once."""

    def __init__(self, root, system):
        self.root, self.system = root, system
        self.texts, self.hashes, self.direct_of, self.is_file, self.named_by = {}, {}, {}, {}, {}
        self.headers = [os.path.join(root, path) for path in tree.files(root, (".h", ".def", ".inc"))]
        self.macros = {}
        for header in self.headers:
            for macro, name in DEFINE.findall(self.text_of(header)):
                self.macros.setdefault(macro, set()).add(name.decode())

    def text_of(self, path):
        if path not in self.texts:
            with open(path, "rb") as file:
                self.texts[path] = file.read()
        return self.texts[path]

    def hash_of(self, path):
        if path not in self.hashes:
            self.hashes[path] = hashlib.sha256(self.text_of(path)).digest()
        return self.hashes[path]

    def direct(self, path):
        """Return (names that a file includes, whether it includes a macro that no header defines)."""
        if path not in self.direct_of:
            found = INCLUDE.findall(COMMENT.sub(b" ", SPLICE.sub(b"", self.text_of(path))))
            found += INCLUDE.findall(self.text_of(path))  # again with comments, because "/*" in a string begins none
            names, macros = {name.decode() for name, _ in found if name}, {macro for _, macro in found if macro}
            names.update(*(self.macros.get(macro, ()) for macro in macros))
            self.direct_of[path] = names, not macros <= self.macros.keys()
        return self.direct_of[path]

    def exists(self, path):
        if path not in self.is_file:
            self.is_file[path] = os.path.isfile(path)
        return self.is_file[path]

    def named(self, path, places):
        """Return the files that one file includes itself."""
        key = (path, places)
        if key not in self.named_by:
            names, macro = self.direct(path)
            found = [whole for folder in [os.path.dirname(path), *places, *self.system] for name in names
                     if self.exists(whole := os.path.normpath(os.path.join(folder, name)))]
            if macro and not path.startswith(tuple(folder + "/" for folder in self.system)):
                found += self.headers
            self.named_by[key] = found
        return self.named_by[key]

    def reached(self, starts, places):
        """Return the paths of these files and of all files that they may include, sorted."""
        seen, todo, places = set(), list(starts), tuple(places)
        while todo:
            path = todo.pop()
            if path not in seen:
                seen.add(path)
                todo += self.named(path, places)
        return sorted(seen)
