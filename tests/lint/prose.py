"""Check the prose of the documents: lines of at most 120 columns, sentences of at most 30 words, short result pages.

    prose.py ROOT       prints path:line: what is wrong; exit status 1 if anything is

A code span and a link count as they read: the span as one word, the link as its text. Tables and code blocks are
left alone, and so is docs/results/history, which keeps pages as they once were.
"""
# SPDX-License-Identifier: Apache-2.0
import re
import sys

import tree

COLUMNS = 120
WORDS = 30
RESULT_LINES = 100
HISTORY = "docs/results/history/"
RESULTS = re.compile(r"docs/results/[^/]+\.md$")

FENCE = re.compile(r"\s*```")
TABLE = re.compile(r"\s*\|")
LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
HEADING = re.compile(r"#+\s")
# A sentence ends at its stop, where something follows that can begin one; a bracket or emphasis may close after the stop.
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=[\"*_(\[`]*[A-Z0-9`])")


def blocks(lines):
    """Yield the line number and the lines of each paragraph, list item and heading outside code blocks and tables."""
    fenced, first, block = False, 0, []
    for number, line in enumerate(lines + [""], 1):
        fence = bool(FENCE.match(line))
        apart = fenced or fence or not line.strip() or TABLE.match(line)
        begins = LIST_ITEM.match(line) or HEADING.match(line)
        if block and (apart or begins):
            yield first, block
            block = []
        if fence:
            fenced = not fenced
        if not apart:
            first = first if block else number
            block.append(line)
            if HEADING.match(line):
                yield first, block
                block = []


def plain(text):
    """Return the text as a reader counts it: a code span is one word, a link is its text, and an address nothing."""
    text = re.sub(r"`[^`]*`", "`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"<[^>]*>", "", text)


def sentences(text):
    """Return the sentences of a block, without the mark of a list item."""
    mark = LIST_ITEM.match(text)
    return SENTENCE_END.split(plain(text[mark.end():] if mark else text))


def words(sentence):
    return len([w for w in sentence.split() if re.search(r"[\w`]", w)])


def longest_word(line):
    """Return the length of the longest word. A line may be too long if that word is a link's address, which can't be broken."""
    return max((len(w) for w in line.split()), default=0)


def findings(path, text):
    """Yield path:line: what is wrong with the prose of one document."""
    lines = text.split("\n")
    if RESULTS.match(path) and len(lines) > RESULT_LINES:
        yield f"{path}:{RESULT_LINES}: a page of results has under {RESULT_LINES} lines: move what no longer holds to {HISTORY}"
    for first, block in blocks(lines):
        for number, line in enumerate(block, first):
            if len(line) > COLUMNS and longest_word(line) < COLUMNS - 20:
                yield f"{path}:{number}: {len(line)} columns; at most {COLUMNS}"
        for sentence in sentences(" ".join(block)):
            if (count := words(sentence)) > WORDS:
                yield f"{path}:{first}: {count} words in a sentence, at most {WORDS}: {sentence.strip()[:60]}..."


def documents(root):
    return [path for path in tree.files(root, (".md",)) if not path.startswith(HISTORY)]


if __name__ == "__main__":
    root = sys.argv[1]
    sys.exit(tree.report([f for path in documents(root) for f in findings(path, tree.read(root, path))], "prose"))
