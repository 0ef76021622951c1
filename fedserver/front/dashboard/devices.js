"use strict";
/* The table of devices: fifty rows a page, devices that need attention first. */
/* SPDX-License-Identifier: Apache-2.0 */
const STRIP_LEAST = 20; /* fewer devices are seen at a glance in the table */
const ROWS = 50, DEVICES_MOST = 20000, FETCH = 2000;
const table = {list: [], total: 0, sort: "attention", down: true, page: 0, drawn: "", came: 0};

const is_bad = d => (d.refused || 0) >= 3 && d.refused * 4 >= (d.counted || 0) && d.state !== "revoked" && d.state !== "expired";
const is_late = d => (d.late || 0) >= 3 && d.late > (d.counted || 0);
const state_words = {training: "training", waiting: "waiting", away: "away", new: "never seen", declined: "declined the task",
  late: "was late", cloned: "runs twice", expired: "certificate expired", revoked: "revoked"};
const state_style = {training: "on", waiting: "good"};

/* How urgently a person should look at a device; 0: not at all. */
function attention(d) {
  if (d.state === "revoked") return 0;
  const group = worker_group_of(seen, d);
  return (group && ailing(group).length > 0 ? 400 : group ? 50 : 0) + (d.cloned_ms > 0 ? 1000 : 0) + (is_bad(d) ? 500 : 0) + (d.state === "expired" ? 300 : 0) + (is_late(d) ? 200 : 0) +
    ({late: 150, declined: 100, training: 80, away: 60, new: 40, waiting: 10}[d.state] || 0);
}
const columns = [
  {key: "name", title: "Device", of: d => (d.name || "~" + d.fingerprint).toLowerCase(), up: true},
  {key: "state", title: "State", of: d => state_words[d.state] || d.state, up: true, style: "left"},
  {key: "seen", title: "Last seen", of: d => d.last_seen_ms || 0},
  {key: "counted", title: "Counted", of: d => d.counted || 0},
  {key: "late", title: "Late", of: d => d.late || 0},
  {key: "refused", title: "Refused", of: d => d.refused || 0},
  {key: "samples", title: "Samples", of: d => d.samples || 0, style: "extra"},
  {key: "computes", title: "Computes on", of: d => computes_on(d).toLowerCase(), up: true, style: "left extra"},
  {key: "software", title: "Software", of: d => d.software || "", up: true, style: "extra"},
];
const by_attention = (a, b) => attention(b) - attention(a) || (b.refused || 0) - (a.refused || 0) || (b.late || 0) - (a.late || 0) || a.id - b.id;

/* What a device computes on, as its check-ins tell; one that tells nothing computes on its processor. */
function computes_on(d) {
  return d.computes_on || (d.last_seen_ms ? "processor" : "-");
}
function sorted(list) {
  if (table.sort === "attention") return list.sort(by_attention);
  const of = columns.find(c => c.key === table.sort).of, sign = table.down ? -1 : 1;
  return list.sort((a, b) => {
    const x = of(a), y = of(b);
    return x === y ? a.id - b.id : x < y ? -sign : sign;
  });
}
function found() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(w => w !== "");
  const list = table.list.filter(d => {
    const text = [d.name, d.fingerprint, state_words[d.state] || d.state, d.software, computes_on(d), d.role, d.tag].join(" ").toLowerCase();
    return words.every(w => text.includes(w));
  });
  return sorted(list);
}
/* label: the text before the value on a phone, where a row is shown as a list. */
function cell(text, style, label) {
  const td = make("td", text, style);
  if (label) td.dataset.label = label;
  return td;
}
function device_row(d, now) {
  const row = make("tr"), first = cell(null), state = cell(null, "left");
  first.append(device_button(d));
  first.title = "fingerprint " + d.fingerprint;
  if (d.name) first.append(" ", make("small", d.fingerprint.slice(0, 8), "soft")); /* tells look-alike names apart */
  if (d.role && d.role !== "device") first.append(" ", make("span", d.role, "chip"));
  if (d.tag) first.append(" ", make("span", d.tag, "chip"));
  if (worker_group_of(seen, d)) first.append(" ", make("span", "cluster", "chip on"));
  if (d.cloned_ms > 0) first.append(" ", make("span", "two copies", "chip red"));
  state.append(make("span", state_words[d.state] || d.state, "chip " + (state_style[d.state] || (d.state === "expired" || d.state === "declined" ? "amber" : ""))));
  if (d.declined_until_ms) state.title = "asked again after its next start, or from " + clock(d.declined_until_ms, now) + " on";
  row.append(first, state, cell(d.last_seen_ms ? short_ago(now - d.last_seen_ms) : "never", "", "seen"),
    cell(whole(d.counted), "", "counted"), cell(whole(d.late), is_late(d) ? "amber" : "", "late"),
    cell(whole(d.refused), is_bad(d) ? "red" : "", "refused"), cell(d.samples ? whole(d.samples) : "-", "extra"),
    cell(computes_on(d), "left name extra"), cell(d.software || "-", "extra"));
  row.cells[7].title = computes_on(d);
  return row;
}
/* One bar of all devices by state. A press on a part of it finds its devices. */
const strip_order = ["cloned", "expired", "late", "declined", "training", "waiting", "new", "away", "revoked"];

function draw_strip() {
  const counts = strip_order.map(k => [k, table.list.filter(d => d.state === k).length]).filter(c => c[1] > 0);
  show("strip", table.list.length >= STRIP_LEAST);
  redraw_in("strip", counts.map(([state, count]) => {
    const part = make("button", count * 12 >= table.list.length ? whole(count) + " " + state_words[state] : whole(count), "part is-" + state);
    part.type = "button";
    part.dataset.key = "strip-" + state;
    part.style.setProperty("flex-grow", String(count)); /* set by a script, which the page's policy allows */
    part.title = whole(count) + " " + state_words[state];
    part.setAttribute("aria-label", several(count, "device") + ", " + state_words[state] + ": find them");
    part.onclick = () => {
      $("find").value = state_words[state];
      $("find").dispatchEvent(new Event("input"));
    };
    return part;
  }));
}
function draw_devices(now) {
  const list = found(), pages = Math.max(1, Math.ceil(list.length / ROWS));
  table.page = Math.min(table.page, pages - 1);
  const from = table.page * ROWS, part = list.slice(from, from + ROWS);
  const text = JSON.stringify([part, part.map(d => worker_group_of(seen, d)), table.sort, table.down, list.length, Math.floor(now / 10000)]);
  if (text === table.drawn) return;
  table.drawn = text;
  const counts = Object.keys(state_words).map(k => [table.list.filter(d => d.state === k).length, state_words[k]]);
  say("devicesnow", table.total === 0 ? "none is enrolled yet" : several(table.total, "device is", "devices are") + " enrolled: " +
    counts.filter(c => c[0] > 0).map(c => whole(c[0]) + " " + c[1]).join(", ") +
    (table.total > table.list.length ? "; the first " + whole(table.list.length) + " are shown" : ""));
  draw_strip();
  draw_histograms(now);
  redraw_in("devices", part.flatMap(d => {
    const group = worker_group_of(seen, d);
    return group ? [device_row(d, now), worker_group_row(group, now)] : [device_row(d, now)];
  }));
  if (part.length === 0) {
    const row = make("tr"), only = cell(table.total === 0 ? "Admit one with: fedserver token --dir DIR" : "No device matches the search.", "left soft");
    only.colSpan = columns.length;
    row.append(only);
    $("devices").replaceChildren(row);
  }
  show("pager", pages > 1);
  say("where", whole(from + 1) + " to " + whole(from + part.length) + " of " + whole(list.length));
  $("before").disabled = table.page === 0;
  $("after").disabled = table.page === pages - 1;
  for (const c of columns) {
    $("sort-" + c.key).setAttribute("aria-sort", table.sort !== c.key ? "none" : table.down ? "descending" : "ascending");
  }
}
/* The first click on a column sorts by it, the second one reverses the order, the third one sorts by attention again. */
function sort_by(column) {
  const first = !column.up;
  if (table.sort !== column.key) [table.sort, table.down] = [column.key, first];
  else if (table.down === first) table.down = !first;
  else table.sort = "attention";
  table.page = 0;
}
function start_devices(redraw) {
  $("devicehead").replaceChildren(...columns.map(c => {
    const th = make("th", null, c.style || ""), button = make("button", c.title);
    th.scope = "col";
    th.id = "sort-" + c.key;
    button.type = "button";
    button.onclick = () => { sort_by(c); redraw(); };
    th.append(button);
    return th;
  }));
  $("find").oninput = () => { table.page = 0; redraw(); };
  $("before").onclick = () => { table.page--; redraw(); };
  $("after").onclick = () => { table.page++; redraw(); };
}
/* Fetches all devices, FETCH at a time. */
async function fetch_devices() {
  const list = [];
  let after = 0, total = 0, came = 0;
  do {
    const answer = await fetch("/v1/devices?limit=" + FETCH + "&after=" + after, {cache: "no-store"});
    if (!answer.ok) return false; /* poll() shows the reason */
    const text = await answer.text(), part = JSON.parse(text);
    came += line_bytes(answer, text);
    list.push(...part.devices);
    after = part.next;
    total = part.total;
  } while (known(after) && list.length < DEVICES_MOST);
  table.came = came;
  table.list = list;
  table.total = total;
  return true;
}
