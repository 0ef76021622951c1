"use strict";
/* Three histograms of a fleet: when devices were last seen, how many of their updates counted, how many came late. */
/* SPDX-License-Identifier: Apache-2.0 */
const SEEN_BINS = [[60000, "1 min"], [300000, "5 min"], [3600000, "1 h"], [86400000, "1 d"], [Infinity, "older"]];
const LATE_BINS = [[0, "none"], [0.1, "10 %"], [0.25, "25 %"], [0.5, "50 %"], [1, "more"]];
const COUNT_BINS = 6;

/* A step of 1, 2 or 5 times a power of ten, so that COUNT_BINS of them reach `most`. */
function count_step(most) {
  const raw = Math.max(1, (most + 1) / COUNT_BINS), ten = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map(f => f * ten).find(s => s >= raw);
}
function seen_bins(list, now) {
  const bins = SEEN_BINS.map(b => [b[1], 0]).concat([["never", 0]]);
  for (const d of list) bins[d.last_seen_ms ? SEEN_BINS.findIndex(b => now - d.last_seen_ms <= b[0]) : SEEN_BINS.length][1]++;
  return bins;
}
function count_bins(list) {
  const step = count_step(list.reduce((a, d) => Math.max(a, d.counted || 0), 0)), bins = [];
  for (let k = 0; k < COUNT_BINS; k++) bins.push([step === 1 ? whole(k) : whole(k * step) + "+", 0]);
  for (const d of list) bins[Math.floor((d.counted || 0) / step)][1]++;
  return bins;
}
function late_bins(list) {
  const bins = LATE_BINS.map(b => [b[1], 0]);
  for (const d of list) {
    const all = (d.late || 0) + (d.counted || 0);
    if (all > 0) bins[LATE_BINS.findIndex(b => (d.late || 0) / all <= b[0])][1]++;
  }
  return bins;
}
function histogram(title, bins, told) {
  const box = make("figure"), plot = make("div", null, "bins"), most = Math.max(1, ...bins.map(b => b[1]));
  box.append(make("figcaption", title), plot);
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", title + ": " + bins.filter(b => b[1] > 0).map(b => told(b[0]) + ", " + several(b[1], "device")).join("; "));
  for (const [label, count] of bins) {
    const bin = make("div", null, "bin"), bar = make("div", null, "column");
    bar.style.setProperty("height", 3.2 * count / most + "rem"); /* set by a script, which the page's policy allows */
    bin.append(make("span", count > 0 ? whole(count) : ""), bar, make("span", label, "soft"));
    plot.append(bin);
  }
  return box;
}
/* Draw the histograms of all devices that are not revoked, where there are more than one sees at a glance. */
function draw_histograms(now) {
  const list = table.list.filter(d => d.state !== "revoked"), many = list.length >= STRIP_LEAST;
  show("spread", many);
  if (!many) return;
  $("spread").replaceChildren(
    histogram("Last seen within", seen_bins(list, now), l => l === "older" || l === "never" ? l : "within " + l),
    histogram("Updates that counted", count_bins(list), l => l),
    histogram("Share of updates that came late, at most", late_bins(list), l => l));
}
