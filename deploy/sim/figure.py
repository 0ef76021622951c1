"""Draw accuracy against bits, or bytes, for all cells of a table: a plot for each row, with a named point for each column."""
# SPDX-License-Identifier: Apache-2.0
import html
import math

WIDE, HIGH, LEFT, TOP, RIGHT, BOTTOM, GAP = 560, 400, 52, 34, 204, 42, 24  # a plot's size, its margins and the gap between plots, in pixels
NAME = 11  # pixels between names
STYLE = """text { font: 11px sans-serif; fill: #222 } .title { font-size: 13px; font-weight: bold }
.tick { fill: #555 } line { stroke: #ccc } circle { fill: #0a66a8 } .best { fill: none; stroke: #0a66a8; stroke-opacity: .5 }
.name { font-size: 10px } .lead { stroke: #bbb }"""


def nice_steps(low, high):
    """Return the ticks of an axis of accuracies: multiples of a round step from low to high."""
    step = next(s for s in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / s <= 8)
    first = math.floor(low / step) * step
    return [first + k * step for k in range(max(math.ceil((high - first) / step - 1e-9), 1) + 1)]


def powers(low, high):
    first = math.floor(math.log2(low))
    return [2.0**k for k in range(first, max(math.ceil(math.log2(high)), first + 1) + 1)]


def apart(wanted, least, most, gap=NAME):
    """Return heights near those wanted, which ascend, at least `gap` apart and within the plot."""
    heights = []
    for at in wanted:
        heights.append(max(at, heights[-1] + gap if heights else least))
    for k in range(len(heights) - 1, -1, -1):
        heights[k] = min(heights[k], most - gap * (len(heights) - 1 - k))
    return heights


def staircase(points):
    """Return the points with a better accuracy than all points with fewer bits."""
    best, corners = -1.0, []
    for bits, accuracy, _ in sorted(points):
        if accuracy > best:
            best = accuracy
            corners.append((bits, accuracy))
    return corners


def plot(title, points, x0, y0, high, axis):
    """Return one plot as SVG. points: a list of (bits, accuracy, name). axis: what the bits are."""
    xs, ys = powers(min(p[0] for p in points), max(p[0] for p in points)), nice_steps(min(p[1] for p in points), max(p[1] for p in points))
    inner_w, inner_h = WIDE - LEFT - RIGHT, high - TOP - BOTTOM

    def x(bits):
        return x0 + LEFT + inner_w * math.log2(bits / xs[0]) / math.log2(xs[-1] / xs[0])

    def y(accuracy):
        return y0 + TOP + inner_h * (ys[-1] - accuracy) / (ys[-1] - ys[0])

    out = [f'<text class="title" x="{x0 + LEFT}" y="{y0 + 18}">{html.escape(title)}</text>']
    for k, bits in enumerate(xs):
        label = "" if len(xs) > 9 and k % 2 else f"{bits:.2g}" if bits < 1 else f"{bits:g}"
        out.append(f'<line x1="{x(bits):.1f}" y1="{y(ys[-1]):.1f}" x2="{x(bits):.1f}" y2="{y(ys[0]):.1f}"/>'
                   f'<text class="tick" x="{x(bits):.1f}" y="{y(ys[0]) + 15:.1f}" text-anchor="middle">{label}</text>')
    for accuracy in ys:
        out.append(f'<line x1="{x(xs[0]):.1f}" y1="{y(accuracy):.1f}" x2="{x(xs[-1]):.1f}" y2="{y(accuracy):.1f}"/>'
                   f'<text class="tick" x="{x(xs[0]) - 6:.1f}" y="{y(accuracy) + 4:.1f}" text-anchor="end">{accuracy:g}</text>')
    out.append(f'<text class="tick" x="{x0 + LEFT + inner_w / 2}" y="{y(ys[0]) + 32:.1f}" text-anchor="middle">{html.escape(axis)}</text>')
    path = "".join(f"{'H' if k else 'M'}{x(b):.1f}{f'V{y(a):.1f}' if k else f' {y(a):.1f}'}" for k, (b, a) in enumerate(staircase(points)))
    out.append(f'<path class="best" d="{path}"/>')
    named = sorted(points, key=lambda p: (-p[1], p[0]))
    heights = apart([y(p[1]) for p in named], y0 + TOP, y0 + high - 8)
    for (bits, accuracy, name), at in zip(named, heights):
        side = x0 + WIDE - RIGHT + 10
        out.append(f'<line class="lead" x1="{x(bits):.1f}" y1="{y(accuracy):.1f}" x2="{side - 2}" y2="{at:.1f}"/>')
        out.append(f'<circle cx="{x(bits):.1f}" cy="{y(accuracy):.1f}" r="3"><title>{html.escape(name)}: {bits:g} {html.escape(axis)}, '
                   f'accuracy {accuracy:g}</title></circle><text class="name" x="{side}" y="{at + 3:.1f}">{html.escape(name)}</text>')
    return out


def figure(title, rows, axis="bits a value up"):
    """Return the whole SVG. rows: {name: [(bits, accuracy, name of the column)]}; two plots side by side."""
    lines = (len(rows) + 1) // 2
    most = max((len(points) for points in rows.values()), default=0)
    plot_high = max(HIGH, TOP + NAME * most + 8)
    wide, high = min(len(rows), 2) * (WIDE + GAP), lines * (plot_high + GAP) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">',
           f"<style>{STYLE}</style>", '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text class="title" x="{LEFT}" y="20">{html.escape(title)}: accuracy against {html.escape(axis)}</text>']
    for k, (name, points) in enumerate(rows.items()):
        out += plot(name, points, k % 2 * (WIDE + GAP), 30 + k // 2 * (plot_high + GAP), plot_high, axis)
    return "\n".join(out + ["</svg>"]) + "\n"
