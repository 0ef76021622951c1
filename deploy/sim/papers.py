#!/usr/bin/env python3
"""Run the cells of a table and print it beside the paper's figures.

A table is an INI file of deploy/sim/papers. Its section [table] has the title, the kinds of figures to show, whether to
draw a figure, and how long it takes. [common], [row NAME] and [column NAME] have keys of a scenario; a column's keys
override a row's, and these override the common ones. "COLUMN: key" in a row is for that cell alone. paper_KIND in a row
has the paper's figures of a kind that is shown, one for each column.

A table with the key `order` has no cells of its own. Each line of `order` is a table and the options to run it with. The
finished runs of all these tables are collected in a CSV (collected.py).
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import configparser
import csv
import json
import math
import pathlib
import shlex
import statistics
import subprocess
import sys

import collected
from figure import figure

QUICK = 25
NAME_MOST = 63  # bytes of the name of a task


def read_table(name):
    path = pathlib.Path(__file__).parent / "papers" / (name + ".ini")
    if not path.exists():
        names = ", ".join(sorted(p.stem for p in path.parent.glob("*.ini")))
        sys.exit(f"papers: there is no table {name}; there are: {names}")
    table = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), inline_comment_prefixes=("  #",))
    table.optionxform = str
    table.read(path)
    return table


def named(table, kind):
    return {s[len(kind) + 1:]: dict(table[s]) for s in table.sections() if s.startswith(kind + " ")}


def cell_keys(table, row, row_keys, column, column_keys, quick):
    """Return the keys of a cell's scenario, and its seeds."""
    own = {k: v for k, v in row_keys.items() if ": " not in k and not k.startswith("paper")}
    keys = {**dict(table["common"]), **own, **column_keys}
    keys.update({k.split(": ")[1]: v for k, v in row_keys.items() if k.startswith(column + ": ")})
    seeds = keys.pop("seeds", "1").split()
    if quick and "iterations" in keys:
        keys["iterations"] = str(max(int(keys["iterations"]) // QUICK, int(keys["local_steps"])))
        seeds = seeds[:1]
    rounds = int(keys["iterations"]) // int(keys["local_steps"]) if "iterations" in keys else int(keys["rounds"])
    evaluations = int(keys.pop("evaluations", "25"))
    every = max(1, rounds // max(1, evaluations // QUICK if quick else evaluations))
    keys.setdefault("evaluate_every", str(every))
    keys["name"] = f"{row}, {column}"[:NAME_MOST]
    return keys, seeds


def directory_name(text):
    return "".join(c if c.isalnum() or c in ".=-" else "-" for c in text).strip("-")


def run(fedsim, keys, out):
    if not finished(out):
        arguments = [f"{k}={v}" for k, v in keys.items()]
        resume = ["--resume"] if out.exists() else []
        done = subprocess.run([fedsim, "run", *arguments, "--out", str(out), *resume], stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"papers: fedsim run for {out} ended with exit status {done.returncode}; the same command goes on from there")
    return read_result(out)


def read_result(out):
    summary = json.loads((out / "summary.json").read_text())
    with open(out / "rounds.csv", newline="") as f:
        rounds = [r for r in csv.DictReader(f)]
    return {**summary, "rows": rounds, "directory": out}


def finished(out):
    path = out / "summary.json"
    return path.exists() and json.loads(path.read_text())["finished"]


def last(result, column):
    values = [r[column] for r in result["rows"] if r[column] != ""]
    return float(values[-1]) if values else math.nan


def compression(result):
    """Return the compression by the updates' envelopes alone, as papers count it; uplink_compression includes HTTP heads."""
    dense = 4.0 * result["parameters"] * result["local_steps_counted"]
    sent = sum(float(r["update_bytes"]) for r in result["rows"])
    return dense / sent if sent else math.nan


def reached_s(result, accuracy):
    """Return the virtual seconds until a measured model had this accuracy or more; NaN: none had."""
    for r in result["rows"]:
        if r["accuracy"] != "" and float(r["accuracy"]) >= accuracy:
            return float(r["virtual_s"])
    return math.nan


KINDS = {
    "accuracy": ("accuracy", lambda r: last(r, "accuracy"), "{:.4f}"),
    "perplexity": ("perplexity", lambda r: math.exp(last(r, "test_loss")), "{:.1f}"),
    "compression": ("compression", compression, "x{:.0f}"),
    "with_heads": ("with HTTP heads", lambda r: r["uplink_compression"], "x{:.0f}"),
    "both_ways": ("both ways", lambda r: r["both_ways_compression"], "x{:.1f}"),
    "bits_up": ("bits a value up", lambda r: r["uplink_bits_per_value"], "{:.3f}"),
    "bits_down": ("bits a value down", lambda r: r["downlink_bits_per_value"], "{:.3f}"),
    "mb_up": ("MB up a client", lambda r: r["uplink_bytes_per_client"] / 1e6, "{:.2f}"),
    "mb_down": ("MB down a client", lambda r: r["downlink_bytes_per_client"] / 1e6, "{:.2f}"),
    "to_95": ("minutes to 95 %", lambda r: reached_s(r, 0.95) / 60, "{:.1f}"),
    "updates_per_s": ("updates/s", lambda r: r["updates_per_s"], "{:.0f}"),
    "wall": ("wall s", lambda r: r["wall_s"], "{:.1f}"),
    "cpu_ratio": ("CPU / SGD", lambda r: r["total_cpu_s"] / r["train_cpu_s"], "{:.2f}"),
    "cpu_train": ("CPU training, s", lambda r: r["train_cpu_s"], "{:.1f}"),
    "cpu_total": ("CPU, s", lambda r: r["total_cpu_s"], "{:.1f}"),
}


def show(results, kind):
    name, value, form = KINDS[kind]
    values = [value(r) for r in results]
    if any(math.isnan(v) for v in values):
        return "-"
    text = form.format(statistics.mean(values))
    return text if len(values) == 1 else f"{text} +-{form.format(statistics.stdev(values)).lstrip('x')} ({len(values)})"


def print_table(table, cells, kinds):
    """Print the table. cells: [(row, column, {kind: the paper's text}, results)]"""
    papers = [k for k in kinds if any(k in paper for _, _, paper, _ in cells)]
    head = ["", ""] + [h for k in kinds for h in (["paper: " + KINDS[k][0], "ours"] if k in papers else [KINDS[k][0]])]
    print(f"\n**{table['table']['title']}**\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row, column, paper, results in cells:
        line = [row, column]
        for k in kinds:
            line += ([paper.get(k, "")] if k in papers else []) + [show(results, k)]
        print("| " + " | ".join(line) + " |")


def draw(table, cells, base):
    """Write figure.svg, a plot of accuracy against bits, and figure.csv with its points."""
    rows, lines = {}, []
    for row, column, _, results in cells:
        bits, accuracy = (statistics.mean(KINDS[kind][1](r) for r in results) for kind in ("bits_up", "accuracy"))
        rows.setdefault(row, []).append((bits, accuracy, column))
        lines.append(f'"{row}","{column}",{bits:.6g},{accuracy:.4f}')
    (base / "figure.csv").write_text("\n".join(["row,column,bits_up,accuracy"] + lines) + "\n")
    (base / "figure.svg").write_text(figure(table["table"]["title"], rows))
    print(f"\n{base / 'figure.svg'} plots accuracy against bits for all cells.")


def paper_figures(row_keys, column_index):
    figures = {}
    for key, text in row_keys.items():
        if key.startswith("paper_"):
            figures[key[len("paper_"):]] = text.split()[column_index]
    return figures


def read_arguments(words):
    parser = argparse.ArgumentParser(description="Run the cells of a table and print it beside the paper's figures.")
    parser.add_argument("fedsim", help="path of the program fedsim")
    parser.add_argument("results", type=pathlib.Path, help="directory for the runs; finished ones are not run again")
    parser.add_argument("table", help="name of a file in deploy/sim/papers, without .ini")
    parser.add_argument("--quick", action="store_true", help=f"run only a {QUICK}th of the iterations")
    parser.add_argument("--only", default="", metavar="TEXT", help='run only cells whose "ROW, COLUMN" contains TEXT')
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="run at most N seeds of each cell")
    parser.add_argument("--done", action="store_true", help="run nothing; show what has run")
    parser.add_argument("--pages", type=pathlib.Path, metavar="DIR",
                        help="of a table with an order: where its CSV, its figure and the pages with its tables are")
    parser.add_argument("keys", nargs="*", metavar="key=value", help="key of a scenario, given to every run")
    arguments = parser.parse_intermixed_args(words)
    wrong = [k for k in arguments.keys if "=" not in k]
    if wrong:
        parser.error(f'"{wrong[0]}" is not key=value; `fedsim keys` lists the keys')
    return arguments


def all_cells(name, quick=False):
    """Yield (row, column, the column's index, keys, seeds, the folder of its runs below that of all results)."""
    table = read_table(name)
    base = pathlib.Path(name + ("-quick" if quick else ""))
    for row, row_keys in named(table, "row").items():
        for index, (column, column_keys) in enumerate(named(table, "column").items()):
            keys, seeds = cell_keys(table, row, row_keys, column, column_keys, quick)
            yield row, column, index, keys, seeds, base / directory_name(row) / directory_name(column)


def run_cells(arguments, after):
    """Run the cells, or find those that have run. Return [(row, column, {kind: the paper's text}, results)]."""
    more = dict(k.split("=", 1) for k in arguments.keys)
    rows = named(read_table(arguments.table), "row")
    cells = []
    for row, column, index, keys, seeds, folder in all_cells(arguments.table, arguments.quick):
        if arguments.only not in f"{row}, {column}":
            continue
        results = []
        for seed in seeds[:arguments.seeds]:
            out = arguments.results / folder / ("seed=" + seed)
            if arguments.done and not finished(out):
                continue
            if not arguments.done:
                print(f"{row}, {column}, seed {seed}: {out}", file=sys.stderr)
            results.append(run(arguments.fedsim, {**keys, "seed": seed, **more}, out))
            after()
        if results:
            cells.append((row, column, paper_figures(rows[row], index), results))
    return cells


def run_table(arguments, after=lambda: None):
    """Run a table's cells and print the table. Return whether there was any cell."""
    table = read_table(arguments.table)
    base = arguments.results / (arguments.table + ("-quick" if arguments.quick else ""))
    print(f"{arguments.table}: all cells take {table['table']['takes']} on two cores", file=sys.stderr)
    cells = run_cells(arguments, after)
    if not cells:
        return False
    print_table(table, cells, table["table"]["show"].split())
    if table.getboolean("table", "figure", fallback=False):
        draw(table, cells, base)
    page = base / "report.html"
    directories = [str(result["directory"]) for _, _, _, results in cells for result in results]
    subprocess.run([arguments.fedsim, "report", *directories, "--out", str(page)], stdout=subprocess.DEVNULL, check=True)
    print(f"\n{page} has plots of all cells.")
    if arguments.quick:
        print(f"\nQuick form: a {QUICK}th of the iterations, so not comparable with the paper.")
    return True


def parts(table):
    """Return the tables that `order` names, each once."""
    return list(dict.fromkeys(shlex.split(line)[0] for line in table["table"]["order"].split("\n") if line))


def csv_path(arguments):
    return (arguments.pages or arguments.results / arguments.table) / (arguments.table + ".csv")


def collect(arguments, table):
    """Write the CSV of all finished runs. Rows that it had before stay, but for those that have run here."""
    rows = {}
    for part in parts(table):
        for row, column, _, _, seeds, folder in all_cells(part, arguments.quick):
            for seed in seeds:
                out = arguments.results / folder / ("seed=" + seed)
                rows[part, row, column, seed] = collected.row_of(read_result(out)) if finished(out) else None
    return collected.merge(csv_path(arguments), rows)


def write_pages(path, rows, table):
    """Write the figure and the tables of all pages beside a CSV, from its rows. A page's name begins as the CSV's."""
    tables = {part: read_table(part) for part in parts(table)}
    texts = {part: collected.pivot(part, dict(t["table"]), list(named(t, "row")), list(named(t, "column")), rows)
             for part, t in tables.items()}
    for page in path.parent.glob(path.stem + "*.md"):
        page.write_text(collected.fill(page.read_text(), texts))
    plots = {}
    for part in table["table"]["figure"].split():
        plots.update(collected.points(part, tables[part]["table"]["short"], rows))
    path.with_suffix(".svg").write_text(figure(table["table"]["title"], plots, table["table"]["axis"]))


def run_order(arguments, table):
    """Run the tables that `order` names. Collect what has run after each run."""
    common = [*arguments.keys, *(["--quick"] if arguments.quick else [])]
    for line in [] if arguments.done else table["table"]["order"].strip().split("\n"):
        part = read_arguments([arguments.fedsim, str(arguments.results), *shlex.split(line), *common])
        part.seeds, part.only = min(part.seeds, arguments.seeds), part.only or arguments.only
        run_table(part, after=lambda: collect(arguments, table))
    write_pages(csv_path(arguments), collect(arguments, table), table)


def main():
    arguments = read_arguments(sys.argv[1:])
    table = read_table(arguments.table)
    if "order" in table["table"]:
        run_order(arguments, table)
    elif arguments.pages:
        sys.exit(f"papers: {arguments.table} has no order of tables, so --pages has nothing to write; leave it out")
    elif not run_table(arguments):
        what = "no run that is finished" if arguments.done else "no cell"
        sys.exit(f'papers: {arguments.table} has {what} with "{arguments.only}" in "ROW, COLUMN"')


if __name__ == "__main__":
    main()
