#!/usr/bin/env python3
"""The tables of deploy/sim/papers: each has keys that fedsim knows and runs; those of an order are collected in a CSV, pages
and a figure; and the pages docs/results/frontier*.md are what their CSV says.

    papers.py SOURCE_DIR BIN
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT, BIN = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
sys.path[:0] = [str(ROOT / "deploy/sim"), str(ROOT / "tests/deploy")]
import collected  # noqa: E402
import papers  # noqa: E402
from quoted import QUICK, make_pictures  # noqa: E402

PAGES = ROOT / "docs/results"
MODEL = "model=input 1x28x28 | dense 10 | scaffold"  # scaffold, because some optimizers need it
ALTERS = ("codec_up", "codec_down", "optimizer", "learning_rate", "strategy", "split")


def check_table(name, known):
    """Check a table's own words and the names of its keys. Yield what each cell alters."""
    table = papers.read_table(name)
    rows, columns = papers.named(table, "row"), papers.named(table, "column")
    assert set(table["table"]["show"].split()) <= set(papers.KINDS), f"{name}: an unknown kind in `show`"
    assert set(table["table"].get("beside", "").split()) <= set(collected.KINDS), f"{name}: an unknown kind in `beside`"
    for row, keys in rows.items():
        for key, value in keys.items():
            assert not key.startswith("paper_") or len(value.split()) == len(columns), f"{name}: {row}: {key}"
            assert ": " not in key or key.split(": ")[0] in columns, f"{name}: {row}: {key} names no column"
    folders = set()
    for row, column, _, keys, _, folder in papers.all_cells(name):
        unknown = set(keys) - known
        assert not unknown, f"{name}: {row}, {column}: unknown keys {unknown}"
        assert folder not in folders, f"{name}: {row}, {column}: another cell has the same folder {folder}"
        folders.add(folder)
        yield tuple(f"{key}={keys[key]}" for key in ALTERS if key in keys)


def check_order(name):
    table = papers.read_table(name)
    for line in table["table"]["order"].strip().split("\n"):
        papers.read_arguments(["fedsim", "results", *shlex.split(line)])
    assert set(table["table"]["figure"].split()) <= set(papers.parts(table)), f"{name}: `figure` names a table out of its order"


def check_tables(work):
    said = subprocess.run([BIN / "fedsim", "keys"], capture_output=True, text=True, check=True).stdout
    known = {line.split()[0] for line in said.split("\n") if line.strip()}
    altered = {}
    for path in sorted((ROOT / "deploy/sim/papers").glob("*.ini")):
        if "order" in papers.read_table(path.stem)["table"]:
            check_order(path.stem)
        else:
            altered.update((words, path.stem) for words in check_table(path.stem, known))
    for k, (words, name) in enumerate(altered.items()):
        done = subprocess.run([BIN / "fedsim", "run", *words, *QUICK, MODEL, f"data={work}", "--out", work / f"run{k}"],
                              capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {' '.join(words)}: {done.stderr[-400:]}"
    return len(altered)


def order(work, *words):
    program = [sys.executable, "-B", ROOT / "deploy/sim/papers.py", BIN / "fedsim", work / "papers", "frontier"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, cwd=work)
    assert done.returncode == 0, f"papers.py frontier {' '.join(words)}: {done.stderr[-400:]}"


def check_order_runs(work):
    """Run the cells of float32 in every table of the order, with pictures of ten classes, and make the page."""
    page = work / "pages/frontier-test.md"
    page.parent.mkdir()
    table = page.parent / "frontier.csv"
    parts = papers.parts(papers.read_table("frontier"))
    marks = [f"<!-- {part} -->\n| old |\n|---|\n\n" for part in parts]
    page.write_text("# A page\n\n" + "".join(marks) + "Its end.\n")
    kept = ("frontier-few", "i.i.d.", "eden", "2")
    collected.merge(table, {kept: dict.fromkeys(collected.FIELDS, "1")})
    keys = [*QUICK, MODEL, f"data={work}", "dataset=mnist", "train_part=train"]
    order(work, "--only", "float32", "--seeds", "1", "--pages", str(page.parent), *keys)
    rows = collected.read(table)
    assert rows[kept]["accuracy"] == "1", "a row that was not run again is lost"
    tables = {part for part in parts if "float32" in papers.named(papers.read_table(part), "column")}
    assert {key[0] for key in rows} == tables, f"the CSV has no rows of some of the tables {tables}"
    assert all(f["build"] and f["mb_down"] for f in rows.values()), "a run without its build or bytes"
    text = page.read_text()
    assert "| old |" not in text and "# A page\n\n<!--" in text and text.endswith("|\n\nIts end.\n"), text
    accuracy = rows["frontier-few", "i.i.d.", "float32", "1"]["accuracy"]
    assert f"| {accuracy} |" in text, "the page lacks an accuracy"
    names = [t.text for t in xml.parse(table.with_suffix(".svg")).iter() if t.get("class") == "name"]
    assert names.count("float32") == 4 and names.count("eden") == 1, f"the figure has other points: {names}"
    before = [path.read_text() for path in sorted(page.parent.iterdir())]
    order(work, "--done", "--pages", str(page.parent))
    assert before == [path.read_text() for path in sorted(page.parent.iterdir())], "--done changes what has not changed"


def check_pages(work):
    """The committed pages and their figure are what the committed CSV says."""
    copies = work / "copies"
    copies.mkdir()
    for path in PAGES.glob("frontier*"):
        shutil.copy(path, copies)
    table = copies / "frontier.csv"
    papers.write_pages(table, collected.read(table), papers.read_table("frontier"))
    for path in copies.iterdir():
        same = path.read_text() == (PAGES / path.name).read_text()
        assert same, f"{path.name} is not what its CSV says; run deploy/sim/papers.sh frontier --done --pages docs/results"


def check_means():
    cell = [{"accuracy": a, "bits_up": "0.1", "mb_up": "2", "mb_down": "3"} for a in ("0.5", "0.7")]
    assert collected.accuracy_text(cell) == "0.6000 ±0.1414 (2)" and collected.accuracy_text(cell[:1]) == "0.5000"
    rows = {("t", "r", "c", str(k)): fields for k, fields in enumerate(cell)}
    assert collected.pivot("t", {"beside": "mb_both", "corner": "codec"}, ["r"], ["c", "d"], rows) == [
        "| codec | MB up and down | r |", "|---|---|---|", "| c | 5 | 0.6000 ±0.1414 (2) |"], "a wrong table"
    assert collected.pivot("t", {"corner": "row"}, ["r", "s"], ["c", "d"], rows)[2:] == ["| r | 0.6000 ±0.1414 (2) |  |"]
    assert collected.points("t", "few", rows) == {"few, r": [(5.0, 0.6, "c")]}


def main():
    check_means()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        make_pictures(work)
        check_pages(work)
        count = check_tables(work)
        check_order_runs(work)
    print(f"papers: {count} settings of all tables were run; the pages of the frontier are what their CSV says")


main()
