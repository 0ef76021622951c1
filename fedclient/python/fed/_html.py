"""Tables for notebooks: rows as HTML, or as a pandas frame."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import html
import importlib
import io
from typing import Any, Iterable, Mapping, Sequence

from ._native import Error


def cell(value: Any) -> str:
    """A value as people read it: a fraction with four digits, None as empty text."""
    if value is None:
        return ""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def table(rows: Sequence[Mapping[str, Any]], columns: Iterable[str], caption: str = "") -> str:
    """An HTML table of rows, with the columns' names above."""
    names = list(columns)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell(row.get(name))}</td>" for name in names) + "</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def number(text: str) -> Any:
    """A field of a CSV file: a whole number, a fraction, None if it is empty, or the text itself."""
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_csv(text: str) -> list[dict[str, Any]]:
    return [{key.strip(): number(value) for key, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


def write_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows with a line of names above. A value that a row does not have is an empty field."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    csv.DictWriter(text, names, lineterminator="\n").writeheader()
    csv.DictWriter(text, names, lineterminator="\n").writerows(rows)
    return text.getvalue()


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """The rows as a pandas frame. Raises Error if pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise Error("a frame needs pandas, which is not installed: pip install pandas") from error
    return pandas.DataFrame(list(rows))
