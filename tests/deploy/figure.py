#!/usr/bin/env python3
"""The figure of a table (deploy/sim/figure.py): each column has a point and its name in each row's plot, inside the
picture, and names do not overlap.

    figure.py SOURCE_DIR
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import xml.etree.ElementTree as xml

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "deploy/sim"))
from figure import figure, staircase  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def check(rows):
    picture = xml.fromstring(figure("A <table>", rows))
    wide, high = float(picture.get("width")), float(picture.get("height"))
    names = [t for t in picture.iter(SVG + "text") if t.get("class") == "name"]
    points = list(picture.iter(SVG + "circle"))
    wanted = sorted(name for row in rows.values() for _, _, name in row)
    assert sorted(t.text for t in names) == wanted, "a name is missing, or twice"
    assert len(points) == len(wanted), "a point is missing"
    for name in names:
        assert 30 < float(name.get("y")) < high, "a name over the title or outside the picture"
    for name in names:
        assert 30 < float(name.get("y")) < high, "a name over the title or outside the picture"
    for point in points:
        assert 0 < float(point.get("cx")) < wide and 0 < float(point.get("cy")) < high, "a point outside the picture"
    places = sorted((float(t.get("x")), float(t.get("y"))) for t in names)
    for (x, y), (next_x, next_y) in zip(places, places[1:]):
        assert x != next_x or next_y - y > 10.9, "two names overlap"


def main():
    crowd = [(2.0 ** (k / 4 - 4), 0.93 - 0.0001 * (k % 3), f"codec:p={k}") for k in range(45)]
    check({"one": [(32.0, 0.9, "float32"), (0.1, 0.5, "a<b")]})
    check({"alone": [(1.0, 0.5, "float32")]})
    check({"alone": [(1.0, 0.5, "float32")]})
    check({"a": crowd, "b": crowd[:7], "c": crowd[5:], "d": crowd})
    points = [(1.0, 0.5, ""), (2.0, 0.4, ""), (4.0, 0.6, "")]
    assert staircase(points) == [(1.0, 0.5), (4.0, 0.6)], "a point of the staircase is worse than one with fewer bits"
    higher, lower = (xml.fromstring(figure("", {"a": [(1.0, y, "x"), (2.0, 0.5, "z")]})) for y in (0.9, 0.6))
    heights = [min(float(c.get("cy")) for c in picture.iter(SVG + "circle")) for picture in (higher, lower)]
    assert heights[0] <= heights[1], "a point of more accuracy is drawn lower"
    print("figure: points and names are where they should be")


main()
