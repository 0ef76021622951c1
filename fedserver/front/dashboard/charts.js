"use strict";
/* Line charts over the rounds. An axis leaves out a few outliers, so that they do not flatten the rest; an outlier is a
   triangle at the axis' edge, with its value. Pointer and arrow keys show a round's values; dragging, and the
   keys + - 0, zoom. */
/* SPDX-License-Identifier: Apache-2.0 */
const CHART_HEIGHT = 224;
const charts = {}; /* by a chart's id: what its cursor needs to know of the last drawing */

function node(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (known(text)) e.textContent = text;
  return e;
}
function ticks(low, high, wanted, least) {
  if (high - low <= 1e-9 * Math.abs(high)) low -= Math.abs(high) / 10 || 1; // a flat line needs a range, too, or its axis would have one tick
  const raw = Math.max((high - low) / wanted, least || 0) || 1;
  const ten = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(f => f * ten).find(s => s >= raw * 0.999);
  const list = [];
  for (let k = Math.floor(low / step + 1e-9); ; k++) {
    list.push(k * step);
    if (k * step >= high - step * 1e-9) return list;
  }
}
function log_ticks(low, high) {
  const list = [];
  const first = Math.floor(Math.log10(low) + 1e-9), last = Math.max(first + 1, Math.ceil(Math.log10(high) - 1e-9));
  const each = Math.ceil((last - first) / 5);
  for (let k = first; k < last + each; k += each) list.push(Math.pow(10, k));
  return list;
}
/* The range that an axis shows. If at most one value in twenty makes the range more than five times as large, these
   outliers are left out. */
function robust(values) {
  const v = values.slice().sort((a, b) => a - b), most = v.length < 6 ? 0 : Math.max(1, Math.floor(v.length / 20));
  let from = 0, to = v.length - 1;
  for (let k = 1; k <= most && to === v.length - 1; k++) {
    const rest = v[to - k] - v[from];
    if (rest > 0 && v[to] - v[from] > 5 * rest) to -= k;
  }
  for (let k = 1; k <= most && from === 0; k++) {
    const rest = v[to] - v[from + k];
    if (rest > 0 && v[to] - v[from] > 5 * rest) from += k;
  }
  return [v[from], v[to]];
}
/* Shorten a list of points to about `most`: keep the least and the greatest of each part, so that no spike is lost. */
function thinned(points, most) {
  if (points.length <= most) return points;
  const list = [], stretch = points.length / (most / 2);
  for (let k = 0; k < most / 2; k++) {
    const part = points.slice(Math.floor(k * stretch), Math.floor((k + 1) * stretch));
    const low = part.reduce((a, p) => p[1] < a[1] ? p : a), high = part.reduce((a, p) => p[1] > a[1] ? p : a);
    list.push(...(low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]));
  }
  return list;
}
function nothing(box, text) {
  box.removeAttribute("aria-valuetext");
  box.setAttribute("aria-valuenow", 0);
  box.replaceChildren(make("div", text, "none"));
}
/* Draw a line chart. span: first and last round. series: [{name, points: [[round, value] ...]}]. options: write formats a
   value; zero: the axis includes 0; log: the axis is logarithmic; empty: the text where there are no points; marks: dotted lines, [{at: round}]. */
function chart(id, span, series, options) {
  const box = $(id), write = options.write;
  series = series.map((s, k) => ({name: s.name, style: style_of(series, k), points: s.points.filter(p => Number.isFinite(p[1]) && (!options.log || p[1] > 0))}));
  const values = series.flatMap(s => s.points.map(p => p[1]));
  delete charts[id];
  if (values.length === 0) {
    nothing(box, options.empty);
    return;
  }
  const [low, high] = options.log ? [Math.min(...values), Math.max(...values)] : robust(values);
  const ty = options.log ? log_ticks(low, high) : ticks(options.zero ? Math.min(0, low) : low, high, 4, 1e-6);
  const labels = ty.map(write);
  const width = box.clientWidth, height = CHART_HEIGHT;
  const left = 12 + 7 * Math.max(6, ...labels.map(l => l.length)), right = 10, top = 12, bottom = height - 24;
  const x0 = span[0], x1 = Math.max(x0 + 1, span[1]);
  const y0 = ty[0], y1 = ty.length > 1 ? ty[ty.length - 1] : y0 + 1;
  const scale = options.log ? Math.log : y => y;
  const X = x => left + (x - x0) / (x1 - x0) * (width - left - right);
  const Y = y => bottom - (scale(Math.min(y1, Math.max(y0, y))) - scale(y0)) / (scale(y1) - scale(y0)) * (bottom - top);
  const svg = node("svg", {viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true"});
  ty.forEach((y, k) => {
    svg.append(node("line", {class: "axis", x1: left, x2: width - right, y1: Y(y), y2: Y(y)}));
    svg.append(node("text", {x: left - 6, y: Y(y) + 4, "text-anchor": "end"}, labels[k]));
  });
  svg.append(node("text", {x: left - 12, y: height - 6, "text-anchor": "end"}, "round"));
  for (const x of ticks(x0, x1, Math.max(4, width / 70), 1)) {
    if (x < x0 || x > x1) continue;
    svg.append(node("line", {class: "axis", x1: X(x), x2: X(x), y1: bottom, y2: bottom + 4}));
    svg.append(node("text", {x: X(x), y: height - 6, "text-anchor": "middle"}, String(x)));
  }
  for (const m of options.marks || []) {
    if (m.at >= x0 && m.at <= x1) svg.append(node("line", {class: "mark", x1: X(m.at), x2: X(m.at), y1: top, y2: bottom}));
  }
  series.forEach(s => lines(svg, s, s.style, {X, Y, y0, y1, top, bottom}));
  box.replaceChildren(svg, ...(series.length > 1 ? [legend(series)] : []));
  charts[id] = {svg, series, write, X, width, left, right, top, bottom, x0, x1, cursor: null, known: [...new Set(series.flatMap(s => s.points.map(p => p[0])))].sort((a, b) => a - b)};
  box.setAttribute("aria-valuemin", span[0]);
  box.setAttribute("aria-valuemax", span[1]);
  value_text(box, charts[id], span[1]);
}
/* A series' colour, 1 to 4: those of a second run are 3 and 4. */
function style_of(series, k) {
  return 1 + series.slice(0, k).filter(s => Boolean(s.other) === Boolean(series[k].other)).length + (series[k].other ? 2 : 0);
}
function lines(svg, s, k, at) {
  const path = thinned(s.points, 400).map(p => at.X(p[0]).toFixed(1) + "," + at.Y(p[1]).toFixed(1)).join(" ");
  svg.append(node("polyline", {class: "s" + k, points: path}));
  for (const p of s.points) {
    const x = at.X(p[0]), over = p[1] > at.y1, under = p[1] < at.y0;
    if (over || under) {
      const y = over ? at.top : at.bottom, d = over ? 8 : -8;
      svg.append(node("path", {class: "p" + k + " out", d: `M${x - 5} ${y + d}L${x + 5} ${y + d}L${x} ${y}Z`}));
    } else if (s.points.length < 40) {
      svg.append(node("circle", {class: "p" + k, cx: x, cy: at.Y(p[1]), r: 2.5}));
    }
  }
}
function legend(series) {
  const list = make("div", null, "legend");
  series.forEach(s => {
    const item = make("span"), key = node("svg", {viewBox: "0 0 26 10", "aria-hidden": "true"});
    key.append(node("line", {class: "k" + s.style, x1: 0, x2: 26, y1: 5, y2: 5}));
    item.append(key, s.name);
    list.append(item);
  });
  return list;
}
function values_of(c, round) {
  return c.series.map(s => {
    const p = s.points.find(q => q[0] === round);
    return p ? (c.series.length > 1 ? s.name + " " : "") + c.write(p[1]) : null;
  }).filter(known);
}
function value_text(box, c, round) {
  const values = values_of(c, round);
  box.setAttribute("aria-valuenow", round);
  box.setAttribute("aria-valuetext", "round " + round + ": " + (values.length ? values.join(", ") : "not measured"));
}
/* The index of the round with a value that is nearest to `round`. */
function nearest(c, round) {
  let best = 0;
  c.known.forEach((r, k) => { if (Math.abs(r - round) < Math.abs(c.known[best] - round)) best = k; });
  return best;
}
/* Show a chart's cursor: a line at the nearest round with a value, and its values beside it. */
function point(id, wanted) {
  const c = charts[id];
  if (!c || c.known.length === 0) return;
  const round = c.known[nearest(c, wanted)];
  rest(id);
  const values = values_of(c, round);
  if (values.length === 0) return;
  const x = c.X(round), words = "round " + round + ": " + values.join(", ");
  const space = 7 * words.length + 12, flip = x + space > c.width;
  const start = flip ? Math.max(0, x - space - 2) : x + 4;
  c.cursor = node("g", {});
  c.cursor.append(node("line", {class: "cursor", x1: x, x2: x, y1: c.top, y2: c.bottom}),
    node("rect", {class: "back", x: start, y: c.top - 8, width: Math.min(space, c.width), height: 20, rx: 4}),
    node("text", {class: "note", x: start + 6, y: c.top + 6}, words));
  c.svg.append(c.cursor);
  c.round = round;
  value_text($(id), c, round);
}
function rest(id) {
  const c = charts[id];
  if (c && c.cursor) c.cursor.remove();
}
/* The brush: drag over a part of a chart to see these rounds alone. */
function brush(box, c, from, to) {
  if (c.band) c.band.remove();
  c.band = node("rect", {class: "brush", x: Math.min(from, to), width: Math.abs(to - from), y: c.top, height: c.bottom - c.top});
  c.svg.append(c.band);
}
function round_at(c, event) {
  const part = (event.clientX - c.svg.getBoundingClientRect().left - c.left) / (c.width - c.left - c.right);
  return c.x0 + Math.min(1, Math.max(0, part)) * (c.x1 - c.x0);
}
function chart_events(id) {
  const box = $(id);
  let from = null;
  box.onpointerdown = event => {
    from = charts[id] && event.button === 0 ? round_at(charts[id], event) : null;
    if (from !== null) box.setPointerCapture(event.pointerId);
  };
  box.onpointermove = event => {
    const c = charts[id];
    if (!c) return;
    const at = round_at(c, event);
    point(id, Math.round(at));
    if (from !== null) brush(box, c, c.X(from), c.X(at));
  };
  box.onpointerup = event => {
    const c = charts[id], begun = from;
    from = null;
    if (c && c.band) c.band.remove();
    if (!c || begun === null) return;
    const to = round_at(c, event);
    if (Math.abs(c.X(to) - c.X(begun)) > 8) set_zoom(Math.floor(Math.min(begun, to)), Math.ceil(Math.max(begun, to)));
  };
  box.onpointercancel = () => {
    from = null;
    if (charts[id] && charts[id].band) charts[id].band.remove();
  };
  box.ondblclick = () => set_zoom(1, last_round());
  box.onpointerleave = box.onblur = () => rest(id);
  box.onkeydown = event => {
    const c = charts[id], step = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10}[event.key];
    if (c && (event.key === "+" || event.key === "-")) zoom_by(event.key === "+" ? 0.5 : 2, c.round);
    if (c && event.key === "0") set_zoom(1, last_round());
    if (!c || c.known.length === 0 || (!step && event.key !== "Home" && event.key !== "End")) return;
    const last = c.known.length - 1, at = known(c.round) ? nearest(c, c.round) : last + 1;
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : at + step;
    event.preventDefault();
    point(id, c.known[Math.min(last, Math.max(0, to))]);
  };
}
