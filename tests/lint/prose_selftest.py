"""Test that prose.py finds each kind of fault, and has no finding about prose that follows the rules."""
# SPDX-License-Identifier: Apache-2.0
import sys

import prose

LONG = " ".join(["of"] * 31)
FINE = " ".join(["one"] * 29 + ["a"])

# Name, text, and the words that prose.py's findings about the text must have, in order.
CASES = [
    ("a long sentence", LONG + ".", ["31 words"]),
    ("thirty words", FINE + ".", []),
    ("two sentences in a line", f"{FINE[:70]}. Then {FINE[:70]}.", ["columns"]),
    ("a stop inside a bracket ends a sentence", f"({FINE[:50]}.) Then {FINE[:50]}.", []),
    ("a number at the end of a sentence", "Ports are 8443 and 8444. Open both.", []),
    ("a sentence over several lines", "\n".join([FINE, "and this."]) + "\n", ["32 words"]),
    ("list items are apart", "\n".join(["* word word word"] * 20), []),
    ("a list item that is too long", "1. " + LONG[:100] + "\n   " + LONG[100:], ["31 words"]),
    ("a line that is too wide", "word. " * 21, ["columns"]),
    ("a wide address alone", "[x](" + "a" * 130 + ")", []),
    ("a code span is one word", f"{' '.join(['word'] * 20)} `{LONG[:50]}`.", ["columns"]),
    ("tables are left alone", f"| {LONG} |", []),
    ("code blocks are left alone", f"```\n{LONG}\n```", []),
    ("a heading ends a paragraph", f"# {FINE[:60]}\n{FINE[:80]}", []),
]


def says(text):
    return [finding.split(": ", 1)[1] for finding in prose.findings("docs/page.md", text)]


def main():
    wrong = []
    for name, text, expected in CASES:
        found = says(text)
        if len(found) != len(expected) or not all(e in f for e, f in zip(expected, found)):
            wrong.append(f"{name}: {found}")
    page = "\n".join(["word"] * 120)
    if not any("result" in f for f in prose.findings("docs/results/page.md", page)):
        wrong.append("a page of results with 120 lines passes")
    if any("under" in f for f in prose.findings("docs/page.md", page)):
        wrong.append("another page may not have 120 lines")
    print("\n".join(wrong + [f"prose_selftest: {len(wrong)} of {len(CASES) + 2} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
