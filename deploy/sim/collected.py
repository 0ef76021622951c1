"""Collect runs in a CSV, and make a page's tables and the points of a figure from it.

The CSV has a row for each run. A run is named by its table (part), row, column and seed.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import re
import statistics

NAMES = ["part", "row", "column", "seed"]
FIELDS = ["accuracy", "bits_up", "mb_up", "mb_down", "rounds", "cpu_s", "build"]
KINDS = {  # columns of a page's table beside the accuracies
    "bits_up": ("bits a value up", lambda r: float(r["bits_up"]), "{:.3f}"),
    "mb_up": ("MB up", lambda r: float(r["mb_up"]), "{:.1f}"),
    "mb_both": ("MB up and down", lambda r: float(r["mb_up"]) + float(r["mb_down"]), "{:.0f}"),
}


def row_of(result):
    """Return the fields of a finished run. Its bytes are those of all clients together."""
    version = (result["directory"] / "version").read_text()
    return {"accuracy": f"{result['test_accuracy']:.4f}", "bits_up": f"{result['uplink_bits_per_value']:.4f}",
            "mb_up": f"{result['uplink_bytes'] / 1e6:.4f}", "mb_down": f"{result['downlink_bytes'] / 1e6:.3f}",
            "rounds": str(result["rounds"]), "cpu_s": f"{result['total_cpu_s']:.0f}",
            "build": re.search(r"\((.*?)\)", version)[1]}


def read(path):
    """Return {(part, row, column, seed): fields} of a CSV, or {} where there is none."""
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {tuple(r[n] for n in NAMES): {f: r[f] for f in FIELDS} for r in csv.DictReader(file)}


def merge(path, new):
    """Write `new` over the rows that the CSV has, in the order of `new`, and return all rows. None: not run here."""
    old = read(path)
    rows = {key: fields or old.get(key) for key, fields in new.items()}
    rows.update({key: fields for key, fields in old.items() if key not in rows})
    rows = {key: fields for key, fields in rows.items() if fields}
    path.parent.mkdir(parents=True, exist_ok=True)
    ready = path.with_suffix(".part")
    with open(ready, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(NAMES + FIELDS)
        writer.writerows([*key, *(fields[f] for f in FIELDS)] for key, fields in rows.items())
    ready.replace(path)
    return rows


def runs(rows, part, row, column):
    """Return the fields of all seeds of a cell."""
    return [fields for key, fields in rows.items() if key[:3] == (part, row, column)]


def accuracy_text(found):
    """Return the mean and, of several seeds, the standard deviation and the number of seeds; empty: nothing has run."""
    values = [float(f["accuracy"]) for f in found]
    if not values:
        return ""
    mean = f"{statistics.mean(values):.4f}"
    return mean if len(values) == 1 else f"{mean} ±{statistics.stdev(values):.4f} ({len(values)})"


def kind_text(kind, found):
    _, value, form = KINDS[kind]
    known = [f for f in found if f["bits_up" if kind == "bits_up" else "mb_down"] != ""]
    return form.format(statistics.mean(value(f) for f in known)) if known else ""


def pivot(part, keys, row_names, column_names, rows):
    """Return the lines of a part's table of accuracies. If there are more columns than rows, columns go down. Then the
    figures that the part's key `beside` names stand beside them, which are those of the first row."""
    if not any(key[0] == part for key in rows):
        return ["| not run yet |", "|---|"]
    turned = len(column_names) > len(row_names)
    down, across = (column_names, row_names) if turned else (row_names, column_names)
    beside = keys.get("beside", "").split() if turned else []
    lines = ["| " + " | ".join([keys.get("corner", ""), *(KINDS[kind][0] for kind in beside), *across]) + " |",
             "|" + "---|" * (1 + len(beside) + len(across))]
    for name in down:
        cells = [runs(rows, part, *((a, name) if turned else (name, a))) for a in across]
        texts = [kind_text(kind, cells[0]) for kind in beside] + [accuracy_text(found) for found in cells]
        if any(texts):
            lines.append(f"| {name} | " + " | ".join(texts) + " |")
    return lines


def points(part, title, rows):
    """Return {title of a plot: [(MB up and down, accuracy, column)]}, with means over seeds."""
    plots = {}
    for row, column in dict.fromkeys((key[1], key[2]) for key in rows if key[0] == part):
        found = runs(rows, part, row, column)
        if all(f["mb_down"] for f in found):
            both = statistics.mean(KINDS["mb_both"][1](f) for f in found)
            accuracy = statistics.mean(float(f["accuracy"]) for f in found)
            plots.setdefault(f"{title}, {row}", []).append((both, accuracy, column))
    return plots


def fill(text, tables):
    """Return a page's text with the table after each line <!-- PART --> replaced."""
    for part, lines in tables.items():
        mark = f"<!-- {part} -->\n"
        if mark in text:
            before, after = text.split(mark, 1)
            text = before + mark + "\n".join(lines) + "\n" + re.sub(r"\A(\|[^\n]*\n)*", "", after)
    return text
