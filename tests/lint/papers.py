#!/usr/bin/env python3
"""Check that docs/results/papers.md has a row for each table and figure of the four papers, and that no row is silent.

usage: papers.py ROOT

A row says what the paper has, what ours is, and which run made it, or why there is none. Where the papers' texts lie beside
the project, in ../shared/papers, the tables and figures are compared with their captions.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

PAGE = "docs/results/papers.md"
HEAD = "| paper | table or figure | in the paper | ours | run, or why not here |"
ROMAN = {"I": 1, "II": 2, "III": 3}
# paper: (file of its text, tables, figures)
PAPERS = {"3LC": ("3lc.txt", 2, 6), "SBC": ("sbc.txt", 4, 6), "INCEPTIONN": ("inceptionn.txt", 3, 15), "CD-SGD": ("cd-sgd.txt", 2, 10)}
CAPTION = re.compile(r"^\W*(table|fig(?:ure|\.)?) *(\d+|[IVX]+)[.:]", re.IGNORECASE | re.MULTILINE)
NAMED = re.compile(r"\b(table|figure)s? ((?:\d+|[IVX]+)(?:(?:, | and | to )(?:\d+|[IVX]+))*)")
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
REASON = re.compile(r"\]\(|`|nothing to run|not here")


def number(text):
    return ROMAN.get(text) or int(text)


def named(cell):
    """Return [(kind, number)] of the tables and figures that a cell names."""
    found = []
    for kind, numbers in NAMED.findall(cell):
        for part in re.split(r", | and ", numbers):
            ends = [number(end) for end in part.split(" to ")]
            found += [(kind, k) for k in range(ends[0], ends[-1] + 1)]
    return found


def wanted(paper):
    _, tables, figures = PAPERS[paper]
    return {("table", k + 1) for k in range(tables)} | {("figure", k + 1) for k in range(figures)}


def rows(lines):
    """Yield (line number, cells) of the table of all tables and figures."""
    inside = False
    for k, line in enumerate(lines, 1):
        if line == HEAD:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            yield k, [cell.strip() for cell in line.strip("|").split("|")]


def complaints(root):
    shown = {paper: [] for paper in PAPERS}
    for k, cells in rows((root / PAGE).read_text().splitlines()):
        if len(cells) != 5 or not all(cells):
            yield f"{PAGE}:{k}: a row has five cells, and none is empty"
            continue
        paper, what, _, _, run = cells
        if paper not in PAPERS or not named(what):
            yield f"{PAGE}:{k}: this row names no paper of {', '.join(PAPERS)}, or no table or figure"
            continue
        shown[paper] += named(what)
        if not REASON.search(run):
            yield f"{PAGE}:{k}: the last cell names a page or a command, or says `nothing to run` or `not here`, and why"
        for link in LINK.findall(" ".join(cells)):
            if not (root / PAGE).parent.joinpath(link).exists():
                yield f"{PAGE}:{k}: there is no {link}"
    for paper, found in shown.items():
        for kind, k in sorted(wanted(paper) - set(found)):
            yield f"{PAGE}: {paper}: {kind} {k} has no row"
        for kind, k in sorted(set(found) - wanted(paper)):
            yield f"{PAGE}: {paper} has no {kind} {k}"
        for kind, k in sorted({one for one in found if found.count(one) > 1}):
            yield f"{PAGE}: {paper}: {kind} {k} has two rows"


def captions(text):
    return {("table" if kind.lower() == "table" else "figure", number(k.upper())) for kind, k in CAPTION.findall(text)}


def texts(root):
    """Compare the numbers above with the captions of the papers' texts."""
    for paper, (name, _, _) in PAPERS.items():
        path = root.parent / "shared/papers" / name
        if path.exists() and captions(path.read_text()) != wanted(paper):
            yield f"{path}: its captions are not those of PAPERS: {sorted(captions(path.read_text()) ^ wanted(paper))}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = [*complaints(root), *texts(root)]
    for complaint in found:
        print(complaint)
    print(f"papers: {len(found)} finding(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
