"use strict";
/* Shows the workers of a device that is a cluster, below the device's row of the table. */
/* SPDX-License-Identifier: Apache-2.0 */
const WORKER_GROUP_FRESH_MS = 10000;
const worker_style = {slow: "amber", stuck: "amber", stopped: "red", dead: "red"};

const worker_group_of = (s, d) => ((s && s.worker_groups) || []).find(g => d.fingerprint.startsWith(g.device));

/* The workers that a person should look at. */
const ailing = g => g.workers.filter(w => w.state !== "well");

function gang_words(g) {
  const missing = g.size - g.workers.length, codec = g.pull === "float32" || g.pull === "" ? g.codec : g.codec + ", back " + g.pull;
  return several(g.size, "worker") + (missing > 0 ? " (" + whole(g.workers.length) + " shown)" : "") + ", " +
    [g.link, g.collective, g.sync, codec].filter(x => x !== "").join(", ") + "; workers wait " + (100 * g.exposed).toFixed(0) + " % of the time for the exchange";
}
function worker_row(w, slowest) {
  const row = make("tr"), state = cell(null, "left");
  state.append(make("span", w.state, "chip " + (worker_style[w.state] || "good")));
  row.append(cell(whole(w.rank) + (w.host ? ", " + w.host : ""), "left"), state, cell(w.phase || "-", "left", "does"),
    cell(whole(w.step), "", "step"), cell(w.compute_ms > 0 ? duration_ms(w.compute_ms) : "-", w.rank === slowest ? "amber" : "", "computes"),
    cell(known(w.waits_for) ? "worker " + whole(w.waits_for) : "-", "left", "waits for"),
    cell(w.computes_on || "processor", "left name", "computes on"),
    cell(bytes(w.sent_bytes), "extra"), cell(bytes(w.received_bytes), "extra"));
  row.cells[6].title = w.computes_on || "";
  row.firstChild.title = w.pid > 0 ? "process " + w.pid : "";
  return row;
}
const duration_ms = ms => ms < 1000 ? decimal(+ms.toPrecision(3)) + " ms" : duration(ms, true);

/* The worker that computes longest, if it takes a fifth more than the median. */
function slowest_of(g) {
  const times = g.workers.filter(w => w.compute_ms > 0), most = times.reduce((a, w) => w.compute_ms > a.compute_ms ? w : a, {compute_ms: 0});
  return times.length > 1 && most.compute_ms > 1.2 * median(times.map(w => w.compute_ms)) ? most.rank : null;
}
/* The row below a cluster's row: one sentence, and the table of its workers. */
function worker_group_row(g, now) {
  const row = make("tr", null, "gang"), all = cell(null, "left"), table = make("table"), head = make("tr"), body = make("tbody");
  const top = make("thead"), old = now - g.heard_ms > WORKER_GROUP_FRESH_MS, slowest = slowest_of(g);
  for (const [title, style] of [["Worker", "left"], ["State", "left"], ["Does", "left"], ["Step"], ["Computes"], ["Waits for", "left"], ["Computes on", "left"],
    ["Sent", "extra"], ["Received", "extra"]]) {
    const th = make("th", title, style || "");
    th.scope = "col";
    head.append(th);
  }
  top.append(head);
  body.append(...g.workers.map(w => worker_row(w, slowest)));
  table.className = "stack plain";
  table.append(top, body);
  all.append(make("p", gang_words(g), "soft"));
  if (g.verdict) all.append(make("p", g.verdict, "verdict"));
  if (old) all.append(make("p", "Heard " + short_ago(now - g.heard_ms) + ".", "soft"));
  all.append(table);
  all.colSpan = columns.length;
  row.append(all);
  return row;
}
function alarm_worker_groups(s, list, now) {
  const bad = (s.worker_groups || []).filter(g => now - g.heard_ms < 60000 && (g.verdict || ailing(g).some(w => worker_style[w.state] === "red")));
  if (bad.length === 0) return null;
  const g = bad[0], red = ailing(g).some(w => worker_style[w.state] === "red");
  return alarm(red ? "red" : "amber", "In the cluster " + name_by_digits(g.device, list) + ": " +
    (g.verdict || "worker " + whole(ailing(g)[0].rank) + " is " + ailing(g)[0].state) + (bad.length > 1 ? " (" + several(bad.length - 1, "other cluster") + " likewise)" : ""),
    "Look at that machine. The table of devices says what the other workers do.");
}
