#!/usr/bin/env python3
"""Copy the documents for an installation, in which each link leads to a file that is installed: documents.py ROOT OUT [SOURCE=PLACE]...

SOURCE=PLACE: the file or folder ROOT/SOURCE is installed as PLACE beside the documents, so links to it lead there. A link to
anything else that is not installed, such as a test, becomes its text.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import sys

DOCUMENTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "LICENSE", "deploy/systemd/README.md")
FOLDERS = ("docs",)
KINDS = (".md", ".svg", ".png")
PARTS = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]*`(?!\]))|(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)", re.DOTALL | re.MULTILINE)


def documents(root):
    """Yield the paths of the documents below the root."""
    yield from DOCUMENTS
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(root, folder)):
            yield from (os.path.relpath(os.path.join(at, name), root) for name in names if name.endswith(KINDS))


def placed(path, installed, places):
    """Return where a path of the sources is installed, or None."""
    if path in installed or any(name.startswith(path + "/") for name in installed):
        return path
    for source, place in places.items():
        if path == source or path.startswith(source + "/"):
            return place + path[len(source):]
    return None


def with_links(text, path, installed, places):
    """Return the text of the document `path` with links that lead somewhere in the installation."""
    here = os.path.dirname(path)

    def link(match):
        code, picture, words, target = match.groups()
        if code or re.match(r"[a-z]+:|#", target):
            return match[0]
        file, mark, anchor = target.partition("#")
        place = placed(os.path.normpath(os.path.join(here, file)), installed, places)
        if place is None:
            return words
        return f"{picture}[{words}]({os.path.relpath(place, here or '.')}{mark}{anchor})"
    return PARTS.sub(link, text)


def main(root, out, *pairs):
    places = dict(pair.split("=", 1) for pair in pairs)
    installed = set(documents(root))
    shutil.rmtree(out, ignore_errors=True)
    for path in sorted(installed):
        to = os.path.join(out, path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if not path.endswith(".md"):
            shutil.copyfile(os.path.join(root, path), to)
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = with_links(file.read(), path, installed, places)
        with open(to, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
