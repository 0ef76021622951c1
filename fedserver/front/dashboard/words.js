"use strict";
/* Formats numbers with units and times, and writes text into the page. */
/* SPDX-License-Identifier: Apache-2.0 */
const $ = id => document.getElementById(id);
const known = x => x !== null && x !== undefined;
const whole = x => known(x) ? x.toLocaleString("en") : "-";
/* A model's text; of a model that names a layout, how much it has. */
const net = text => { const said = /^layout (\d+) tensors (\d+) values /.exec(text); return said ? several(+said[1], "tensor") + ", " + several(+said[2], "value") : text; };
const percent = x => known(x) ? (100 * x).toFixed(2) + " %" : "-";
const decimal = x => known(x) ? (Math.abs(x) >= 1e5 ? x.toExponential(2) : Math.abs(x) < 100 ? String(+x.toPrecision(4)) : x.toFixed(0)) : "-";
const several = (count, one, many) => whole(count) + " " + (count === 1 ? one : many || one + "s");
function bytes(x) {
  if (!known(x)) return "-";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  while (x >= 999.5 && k + 1 < units.length) { x /= 1000; k++; }
  return (k === 0 || x >= 100 ? x.toFixed(0) : x.toPrecision(3)) + " " + units[k];
}
/* Format a duration. tenths: below 10 s show a tenth of a second. */
function duration(ms, tenths) {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return (tenths && s < 10 ? s.toFixed(1) : s.toFixed(0)) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min" + (s < 600 && s % 60 >= 1 ? " " + Math.floor(s % 60) + " s" : "");
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return several(Math.round(s / 86400), "day");
}
const ago = ms => ms < 1500 ? "just now" : duration(ms) + " ago";
function short_ago(ms) { /* how long ago, with one unit, for a column of a table */
  const s = ms / 1000, [size, unit] = s < 60 ? [1, " s"] : s < 3600 ? [60, " min"] : s < 86400 ? [3600, " h"] : [86400, " d"];
  return Math.max(1, Math.floor(s / size)) + unit + " ago";
}
function clock(ms, now) { /* a time such as "14:20"; with the day if it is not today, and with the year if it is another */
  const time = new Date(ms).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", hourCycle: "h23"});
  if (new Date(ms).toDateString() === new Date(now).toDateString()) return time;
  const year = new Date(ms).getFullYear() === new Date(now).getFullYear() ? {} : {year: "numeric"};
  return new Date(ms).toLocaleDateString([], {weekday: "short", day: "numeric", month: "short", ...year}) + ", " + time;
}
function say(id, text, level) { /* change the page only where the text differs, because screen readers read each change */
  const e = $(id);
  if (e.textContent !== text) e.textContent = text;
  if (level !== undefined && e.className !== level) e.className = level;
}
function make(name, text, style) {
  const e = document.createElement(name);
  if (known(text)) e.textContent = text;
  if (style) e.className = style;
  return e;
}
function facts(id, pairs) {
  const list = $(id), text = JSON.stringify(pairs);
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  list.replaceChildren(...pairs.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
}
function show(id, visible) {
  $(id).hidden = !visible;
}
