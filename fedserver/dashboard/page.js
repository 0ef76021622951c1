"use strict";
const POLL_MS = 1000, HIDDEN_MS = 10000, GIVE_UP_MS = 5000, CHART_HEIGHT = 224;
const $ = id => document.getElementById(id);
const known = x => x !== null && x !== undefined;

/* ---- how things are written ---- */
const whole = x => known(x) ? x.toLocaleString("en") : "-";
const percent = x => known(x) ? (100 * x).toFixed(2) + " %" : "-";
const decimal = x => known(x) ? (Math.abs(x) < 100 ? x.toPrecision(4) : x.toFixed(0)) : "-";
function bytes(x) {
  if (!known(x)) return "-";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  while (x >= 999.5 && k + 1 < units.length) { x /= 1000; k++; }
  return (k === 0 || x >= 100 ? x.toFixed(0) : x.toPrecision(3)) + " " + units[k];
}
function duration(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return (s < 10 ? s.toFixed(1) : s.toFixed(0)) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
}
const clock = ms => new Date(ms).toLocaleTimeString();
function say(id, text) { /* touch the page only where something changed: screen readers listen */
  const e = $(id);
  if (e.textContent !== text) e.textContent = text;
}
function facts(id, pairs) {
  const list = $(id), text = JSON.stringify(pairs);
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  list.replaceChildren(...pairs.flatMap(([name, value]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name; dd.textContent = value;
    return [dt, dd];
  }));
}

/* ---- charts: lines over the rounds ---- */
function node(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (known(text)) e.textContent = text;
  return e;
}
function ticks(low, high, wanted, least) {
  const raw = Math.max((high - low) / wanted, least || 0) || 1;
  const ten = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(f => f * ten).find(s => s >= raw * 0.999);
  const list = [];
  for (let k = Math.floor(low / step + 1e-9); ; k++) {
    list.push(k * step);
    if (k * step >= high - step * 1e-9) return list;
  }
}
/* span: first and last round; series: [{name, points: [[round, value] ...]}]; write: how a value is
   written; zero: is it in sight */
function chart(id, span, series, write, zero) {
  const box = $(id);
  const all = series.flatMap(s => s.points);
  if (all.length === 0) {
    const none = document.createElement("div");
    none.className = "none"; none.textContent = "nothing yet";
    box.replaceChildren(none);
    return;
  }
  const several = series.length > 1;
  const width = box.clientWidth, height = CHART_HEIGHT;
  const ys = all.map(p => p[1]);
  const ty = ticks(zero ? 0 : Math.min(...ys), Math.max(...ys), 4, 1e-6);
  const labels = ty.map(write);
  const left = 12 + 7 * Math.max(6, ...labels.map(l => l.length)), right = 10, top = 8, bottom = 24;
  const x0 = span[0], x1 = Math.max(x0 + 1, span[1]);
  const y0 = ty[0], y1 = ty.length > 1 ? ty[ty.length - 1] : y0 + 1;
  const X = x => left + (x - x0) / (x1 - x0) * (width - left - right);
  const Y = y => height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom);
  const last = series.filter(s => s.points.length).map(s => {
    const p = s.points[s.points.length - 1];
    return s.name + " " + write(p[1]) + " in round " + p[0];
  }).join(", ");
  const svg = node("svg", {role: "img", "aria-label": last, viewBox: `0 0 ${width} ${height}`});
  ty.forEach((y, k) => {
    svg.append(node("line", {class: "axis", x1: left, x2: width - right, y1: Y(y), y2: Y(y)}));
    svg.append(node("text", {x: left - 6, y: Y(y) + 4, "text-anchor": "end"}, labels[k]));
  });
  svg.append(node("text", {x: left - 12, y: height - 6, "text-anchor": "end"}, "round"));
  for (const x of ticks(x0, x1, Math.max(2, width / 90), 1)) {
    if (x < x0 || x > x1) continue;
    svg.append(node("line", {class: "axis", x1: X(x), x2: X(x), y1: height - bottom, y2: height - bottom + 4}));
    svg.append(node("text", {x: X(x), y: height - 6, "text-anchor": "middle"}, String(x)));
  }
  series.forEach((s, k) => {
    const path = s.points.map(p => X(p[0]).toFixed(1) + "," + Y(p[1]).toFixed(1)).join(" ");
    svg.append(node("polyline", {class: "s" + (k + 1), points: path}));
    if (s.points.length < 40) {
      for (const p of s.points) svg.append(node("circle", {class: "p" + (k + 1), cx: X(p[0]), cy: Y(p[1]), r: 2.5}));
    }
  });
  const parts = [svg];
  if (several) parts.push(legend(series));
  box.replaceChildren(...parts);
  point(svg, series, write, {X, width, left, right, bottom: height - bottom, top, x0, x1});
}
function legend(series) {
  const list = document.createElement("div");
  list.className = "legend";
  series.forEach((s, k) => {
    const item = document.createElement("span"), key = node("svg", {viewBox: "0 0 26 10", "aria-hidden": "true"});
    key.append(node("line", {class: "k" + (k + 1), x1: 0, x2: 26, y1: 5, y2: 5}));
    item.append(key, s.name);
    list.append(item);
  });
  return list;
}
/* Under the pointer: a line, and what the round there was. */
function point(svg, series, write, at) {
  const cursor = node("line", {class: "cursor", y1: at.top, y2: at.bottom});
  const text = node("text", {y: at.top + 4});
  svg.onpointermove = event => {
    const x = (event.clientX - svg.getBoundingClientRect().left - at.left) / (at.width - at.left - at.right);
    const round = Math.round(at.x0 + Math.min(1, Math.max(0, x)) * (at.x1 - at.x0));
    const values = series.map(s => s.points.find(p => p[0] === round)).filter(known).map(p => write(p[1]));
    if (values.length === 0) return;
    const px = at.X(round), flip = px > at.width / 2;
    cursor.setAttribute("x1", px); cursor.setAttribute("x2", px);
    text.setAttribute("x", px + (flip ? -6 : 6));
    text.setAttribute("text-anchor", flip ? "end" : "start");
    text.textContent = "round " + round + ": " + values.join(", ");
    svg.append(cursor, text);
  };
  svg.onpointerleave = () => { cursor.remove(); text.remove(); };
}

/* ---- what the status says ---- */
let seen = null, aheadMs = 0, lostSince = null, drawn = "";

function showRound(r, task) {
  $("round").hidden = !r;
  say("waits", r && r.waits_for ? "Waiting for " + r.waits_for + "." : idleSentence(task));
  if (!r) return;
  const goal = Math.max(1, r.goal);
  say("number", whole(r.number) + (task ? " of " + whole(task.rounds) : ""));
  say("attempt", whole(r.attempt));
  say("received", whole(r.received) + " of " + whole(r.goal));
  say("out", whole(r.out) + (r.out === 1 ? " device" : " devices"));
  say("free", whole(r.free) + " of " + whole(r.cohort));
  $("fill").style.width = Math.min(100, 100 * r.received / goal) + "%";
  $("bar").setAttribute("aria-valuenow", r.received);
  $("bar").setAttribute("aria-valuemax", r.goal);
  $("mark").hidden = r.minimum >= r.goal;
  $("mark").style.left = 100 * r.minimum / goal + "%";
  say("marktext", "minimum " + whole(r.minimum));
  showDeadline();
}
function idleSentence(task) {
  if (!task) return "No task yet. Queue one on the coordinator: fedserver task FILE";
  if (task.state === "finished") return task.name + " is finished: " + whole(task.version) + " rounds.";
  return task.name + " is " + task.state + ".";
}
function showDeadline() {
  const r = seen && seen.round;
  if (!r) return;
  const end = r.deadline_ms;
  say("deadline", !known(end) ? (r.staleness > 0 ? "none before an update" : "none before a lease")
    : end > Date.now() + aheadMs || r.staleness === 0 ? "in " + duration(end - Date.now() - aheadMs) : "over");
}
function showTask(t) {
  document.title = t ? t.name + " - coordinator" : "Coordinator";
  say("title", t ? t.name : "Coordinator");
  facts("task", !t ? [["State", "none"]] : [
    ["State", t.state], ["Model", t.model], ["Parameters", whole(t.parameters)],
    ["Codec up", t.codec_up], ["Codec down", t.codec_down],
    ["A device", whole(t.local_steps) + (t.local_steps === 1 ? " step of " : " steps of ") + whole(t.batch) +
      (t.batch === 1 ? " sample, " : " samples, ") + t.optimizer + ", rate " + t.learning_rate],
    ...(t.phases > 1 ? [["Phase", whole(t.phase) + " of " + whole(t.phases) +
      (known(t.next_phase) ? ", the next from round " + whole(t.next_phase) : "")]] : []),
    ["Version", whole(t.version) + " of " + whole(t.rounds)], ["Digest", t.digest],
    ["Task number", whole(t.id)]]);
}
function showRounds(newestFirst) {
  const rounds = newestFirst.slice().reverse();
  const pick = key => rounds.filter(r => known(r[key])).map(r => [r.number, r[key]]);
  const newest = points => points.length ? points[points.length - 1][1] : null;
  const accuracy = pick("accuracy"), loss = pick("loss"), testLoss = pick("test_loss");
  const up = pick("update_bytes"), down = pick("delta_bytes");
  const best = accuracy.reduce((a, p) => Math.max(a, p[1]), 0);
  say("accuracynow", accuracy.length ? percent(newest(accuracy)) + " now, " + percent(best) + " at best" : "");
  say("lossnow", testLoss.length ? decimal(newest(testLoss)) + " now, on the test set" : "");
  say("bytesnow", up.length ? bytes(newest(up)) + " up, " + bytes(newest(down)) + " down each" : "");
  const span = rounds.length ? [rounds[0].number, newestFirst[0].number] : [];
  chart("accuracy", span, [{name: "test accuracy", points: accuracy}], x => +(100 * x).toFixed(2) + " %");
  chart("loss", span, [{name: "training", points: loss}, {name: "test", points: testLoss}], x => String(+x.toPrecision(4)));
  chart("bytes", span, [{name: "all updates, up", points: up}, {name: "delta, down to each", points: down}],
    x => bytes(x).replace(/\.0+ /, " "), true);
  $("rows").replaceChildren(...newestFirst.map(r => {
    const row = document.createElement("tr");
    for (const text of [whole(r.number), whole(r.attempts), whole(r.updates), whole(r.samples),
      duration(r.committed_ms - r.opened_ms), percent(r.accuracy), decimal(r.test_loss),
      decimal(r.loss), bytes(r.update_bytes), bytes(r.delta_bytes)]) {
      row.append(Object.assign(document.createElement("td"), {textContent: text}));
    }
    return row;
  }));
}
function show(s) {
  showTask(s.task);
  showRound(s.round, s.task);
  const t = s.traffic;
  facts("totals", [["Received", bytes(t.received_bytes)], ["Sent", bytes(t.sent_bytes)],
    ["Requests", whole(t.requests)], ["Devices enrolled", whole(s.devices)]]);
  say("version", "fedserver " + s.version + ", protocol " + s.protocol + ".");
  draw(false);
}
function draw(again) { /* the charts and the table, where rounds or the window have changed */
  const rounds = seen ? seen.rounds : [];
  const text = JSON.stringify(rounds);
  if (!again && text === drawn) return;
  drawn = text;
  showRounds(rounds);
}
function showLine() {
  $("lost").hidden = lostSince === null;
  $("live").hidden = lostSince !== null;
  if (lostSince !== null) {
    say("lost", "The coordinator has not been reachable since " + clock(lostSince) + " (" +
      duration(Date.now() - lostSince) + ")." + (seen ? " What you see is from before." : ""));
  } else if (seen) {
    say("live", "live");
  }
}
async function poll() {
  const give_up = new AbortController();
  const timer = setTimeout(() => give_up.abort(), GIVE_UP_MS);
  try {
    const answer = await fetch("/v1/status", {signal: give_up.signal, cache: "no-store"});
    if (!answer.ok) throw new Error("status " + answer.status);
    seen = await answer.json();
    aheadMs = seen.now_ms - Date.now();
    lostSince = null;
    show(seen);
  } catch (error) {
    console.warn(error);
    if (lostSince === null) lostSince = Date.now();
  }
  clearTimeout(timer);
  showLine();
  setTimeout(poll, document.hidden ? HIDDEN_MS : POLL_MS);
}
setInterval(() => { showDeadline(); showLine(); }, 500);
document.addEventListener("visibilitychange", showDeadline);
new ResizeObserver(() => draw(true)).observe($("accuracy"));
poll();
