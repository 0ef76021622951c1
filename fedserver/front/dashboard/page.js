"use strict";
/* The page: asks for the status every second and for the devices less often, and shows what has changed. */
/* SPDX-License-Identifier: Apache-2.0 */
const PICKER_MOST = 6; /* the most running tasks that have a button each */
const POLL_MS = 1000, HIDDEN_MS = 10000, GIVE_UP_MS = 5000;
/* The most bytes a second that a page takes: a large fleet is looked at less often. */
const STATUS_BYTES = 36000, DEVICES_BYTES = 18000;
let told = null, seen = null, picked = null, tag = null, aheadMs = 0, lostSince = null, ended = false, drawn = "", drawnTasks = "";

const now_ms = () => Date.now() + aheadMs;

/* ---- several tasks: `told` is the status; in `seen`, task, round and rounds are those of the task that was picked ---- */
const seen_from = (s, one) => Object.assign({}, s, one);
const running_tasks = s => s.running || [];
const is_over = t => t.state === "finished" || t.state === "cancelled";

function pick_task(id) {
  picked = id;
  view.zoom = null;
  if (view.other === id) view.other = null;
  history.replaceState(null, "", id === null ? "/" : "#task-" + id);
  show_all();
  follow_runs();
}
function show_picker(s) {
  const list = running_tasks(s), text = JSON.stringify(list.map(one => [one.task.id, one.task.name, one.task.version, one.task.rounds, s.task.id]));
  show("picker", list.length > 1 && list.length <= PICKER_MOST);
  if ($("picker").dataset.shown === text) return;
  const held = document.activeElement && document.activeElement.dataset.task;
  $("picker").dataset.shown = text;
  $("picker").replaceChildren(...list.map(one => {
    const t = one.task, button = make("button", t.name + " (" + t.id + ")");
    button.type = "button";
    button.dataset.task = t.id;
    button.setAttribute("aria-pressed", t.id === s.task.id);
    button.append(make("small", whole(t.version) + " of " + several(t.rounds, "round")));
    button.onclick = () => pick_task(t.id);
    return button;
  }));
  const again = held && $("picker").querySelector("[data-task='" + held + "']");
  if (again) again.focus();
}
function show_all() {
  const one = running_tasks(told).find(x => x.task.id === picked);
  seen = one ? seen_from(told, one) : picked !== null ? seen_of_past(told) : told;
  show_picker(seen);
  show_now(seen, now_ms());
  show_tasks(told, now_ms());
  show_choices();
  show_differences();
  show_details(seen);
  show_times();
  show_alarms(now_ms());
  if (table.total > 0) draw_devices(now_ms());
  draw(false);
  show("back", seen.task !== null && told.task !== seen.task && !one);
}

function show_now(s, now) {
  const t = s.task, r = s.round, [sentence, hint] = headline(s, now);
  say("headline", sentence);
  show("hint", known(hint));
  say("hint", hint || "");
  document.title = (t ? t.name + " - " : "") + "coordinator";
  say("title", t ? t.name : "Coordinator");
  show("whichtask", t !== null && running_tasks(s).length > PICKER_MOST);
  say("whichtask", t ? t.name + " (" + t.id + "), one of " + several(running_tasks(s).length, "running task") : "");
  show("progress", t !== null);
  if (t) {
    $("fill").style.width = 100 * t.version / Math.max(1, t.rounds) + "%";
    $("bar").setAttribute("aria-valuenow", t.version);
    $("bar").setAttribute("aria-valuemax", t.rounds);
    say("etaword", t.state === "finished" ? "Finished" : "Expected end");
    say("rounds", whole(t.version) + " of " + whole(t.rounds) + " done");
    const measured = s.rounds.find(x => known(x.accuracy));
    say("quality", measured ? percent(measured.accuracy) : "not measured");
  }
  show("round", r !== null);
  if (r) {
    say("received", whole(r.received) + " of " + whole(r.goal) + (r.minimum < r.goal ? ", " + whole(r.minimum) + (r.minimum === 1 ? " is enough" : " are enough") : ""));
    say("out", several(r.out, "device"));
    say("free", whole(r.free) + " of " + whole(r.cohort));
  }
}
function show_times() {
  if (!seen) return;
  show_privacy(seen, now_ms());
  const now = now_ms(), r = seen.round, [eta, level] = finish_time(seen, now);
  say("eta", eta, level);
  const last = seen.rounds.length > 0 ? now - seen.rounds[0].committed_ms : null;
  say("commit", known(last) ? ago(last) : "none yet", seen.round && is_stuck(seen, now) ? "amber" : "");
  if (!r) return;
  say("deadline", !known(r.deadline_ms) ? (r.staleness > 0 ? "set by the first update" : "set when a device comes")
    : r.deadline_ms > now ? clock(r.deadline_ms, now) + ", in " + duration(r.deadline_ms - now) : "now");
}
function show_alarms(now) {
  const list = seen ? alarms(told, table.list, now) : [], text = JSON.stringify(list);
  if ($("alarms").dataset.shown === text) return;
  $("alarms").dataset.shown = text;
  show("alarms", list.length > 0);
  $("alarms").replaceChildren(...list.map(a => {
    const item = make("li", null, "alarm " + a.level);
    item.append(make("b", a.text), make("span", a.todo));
    return item;
  }));
}

/* ---- tasks ---- */
const task_times = {queued: ["queued", "queued_ms"], running: ["since", "started_ms"], finished: ["finished", "finished_ms"], cancelled: ["ended", "finished_ms"]};
const task_order = {running: 0, paused: 1, queued: 2, finished: 3, cancelled: 4};

function declined_words(d) {
  const reasons = (d.reasons || []).map(r => r.reason + (d.reasons.length > 1 ? " (" + several(r.devices, "device") + ")" : ""));
  return several(d.count, "device") + (reasons.length ? ": " + reasons.join("; ") : "");
}
/* The remark on a task: why it waits, how many devices declined it, or how far its open round is. */
function task_remark(t) {
  if (t.waits) return [(t.state === "queued" ? "waits: " : "") + t.waits, "wrap amber"];
  if (t.declined && t.declined.count > 0) return ["declined by " + declined_words(t.declined), "wrap amber"];
  if (t.round) return ["round " + whole(t.round.number) + ": " + whole(t.round.received) + " of " + several(t.round.goal, "update") + ", " + whole(t.round.out) + " training", "left"];
  return ["-", "left extra"];
}
function task_cell(t) {
  const td = cell(null), button = make("button", t.name + " (" + t.id + ")", "link");
  button.type = "button";
  button.dataset.key = "task-" + t.id;
  if (seen && seen.task && seen.task.id === t.id) button.setAttribute("aria-current", "true");
  button.onclick = () => {
    pick_task(t.id);
    scrollTo(0, 0);
  };
  td.append(button);
  return td;
}
function model_cell(t) {
  const td = cell(null, "left"), link = make("a", "Download");
  if (t.version === 0 || t.state === "cancelled") return cell("-", "left extra"); /* a cancel deletes the model */
  link.href = "/model.safetensors?task=" + t.id;
  link.dataset.key = "model-" + t.id;
  link.setAttribute("aria-label", "Download the model of " + t.name + " (" + t.id + ")");
  td.append(link);
  return td;
}
function task_row(t, now) {
  const row = make("tr"), state = cell(null, "left"), [word, key] = task_times[t.state] || ["since", "finished_ms"];
  state.append(make("span", t.state + (t.state === "queued" && t.position_now ? ", position " + t.position_now : ""), "chip " + ({running: "on", finished: "good", paused: "amber"}[t.state] || "")));
  row.append(task_cell(t), state, cell(whole(t.version) + " of " + whole(t.rounds), "", "rounds"),
    cell(known(t.priority) ? whole(t.priority) : "-", "", "priority"), cell(t[key] ? word + " " + clock(t[key], now) : "-"), cell(...task_remark(t)), model_cell(t));
  if (session.acts) row.append(act_cell(t));
  return row;
}
/* How much happens in a task's open round: devices that train, updates that have come. */
const activity = t => t.round ? t.round.out + t.round.received : 0;
const in_order = (a, b) => task_order[a.state] - task_order[b.state] || activity(b) - activity(a) ||
  (a.state === "queued" ? (a.position || 0) - (b.position || 0) : 0) || (a.state === "queued" ? a.id - b.id : b.id - a.id);

/* With more running tasks than buttons are good for, the table of tasks stands first instead of them. */
function place_tasks(s) {
  const many = running_tasks(s).length > PICKER_MOST, card = $("taskcard"), first = card.nextElementSibling === $("nowcard");
  if (many === first) return;
  const key = card.contains(document.activeElement) ? document.activeElement.dataset.key || document.activeElement.id : null;
  if (many) $("nowcard").before(card);
  else $("devicecard").after(card);
  card.classList.toggle("first", many);
  if (key) (document.getElementById(key) || {focus: () => focus_key(key)}).focus();
}
function show_tasks(s, now) {
  const list = (s.tasks || []).slice().sort(in_order), words = $("findtask").value.toLowerCase().split(/\s+/).filter(w => w !== "");
  let position = 0;
  for (const t of list) t.position_now = t.state === "queued" ? ++position : 0;
  const found = list.filter(t => words.every(w => (t.name + " " + t.id + " " + t.state).toLowerCase().includes(w)));
  const text = JSON.stringify([found, list.length, seen && seen.task ? seen.task.id : null]);
  if (drawnTasks === text) return;
  drawnTasks = text;
  show("taskcard", list.length > 0);
  place_tasks(s);
  say("tasksnow", several((s.tasks || []).filter(t => t.state === "running").length, "task runs", "tasks run") + ", " + (position === 0 ? "nothing waits in the queue" : several(position, "task waits", "tasks wait") + " in the queue") +
    (words.length ? "; " + whole(found.length) + " found" : ""));
  redraw_in("tasks", found.map(t => task_row(t, now)));
}

/* ---- rounds ---- */
function show_rounds(newestFirst) {
  const id = seen && seen.task ? seen.task.id : null, rounds = chart_rounds(id, newestFirst), other = other_run();
  const others = other ? chart_rounds(view.other, []) : [];
  const last = key => { const r = newestFirst.find(x => known(x[key])); return r ? r[key] : null; };
  const best = rounds.reduce((a, r) => Math.max(a, r.accuracy || 0), 0);
  say("accuracynow", known(last("accuracy")) ? percent(last("accuracy")) + " now, " + percent(best) + " at best" : known(last("test_loss")) ? "the evaluators tell a loss alone" : "no evaluator has measured it yet");
  say("lossnow", known(last("test_loss")) ? decimal(last("test_loss")) + " now, on test data" : known(last("loss")) ? decimal(last("loss")) + " now, on the devices' data" : "");
  say("bytesnow", known(last("update_bytes")) ? bytes(last("update_bytes")) + " from all devices, " + bytes(last("delta_bytes")) + " to each" : "");
  show("charts", rounds.length > 0);
  show("roundcard", newestFirst.length > 0);
  show_own(rounds, rounds.length ? [rounds[0].number, rounds[rounds.length - 1].number] : [0, 0]);
  show_zoom(rounds.length);
  if (rounds.length === 0) {
    show_marks([]);
    return;
  }
  const ends = rounds.concat(others), span = view.zoom || [Math.min(...ends.map(r => r.number)), Math.max(...ends.map(r => r.number))], empty = "not measured yet";
  const marks = marks_of(id, rounds);
  show_marks(marks);
  const of = (name, key) => series_of(name, key, rounds, others, other);
  chart("accuracy", span, of("accuracy", "accuracy"), {marks, write: x => +(100 * x).toFixed(2) + " %", empty: "An evaluator measures it: fedserver token --role evaluator"});
  chart("loss", span, of("devices' data", "loss").concat(of("test data", "test_loss")), {marks, write: decimal, empty, log: $("losslog").checked});
  chart("bytes", span, of("from all devices", "update_bytes").concat(of("to each device", "delta_bytes")),
    {marks, write: x => bytes(x).replace(/\.0+ /, " "), empty, zero: true, log: $("byteslog").checked});
  $("rows").replaceChildren(...newestFirst.map(r => {
    const row = make("tr");
    for (const text of [whole(r.number), whole(r.attempts), whole(r.updates), whole(r.samples),
      duration(r.committed_ms - r.opened_ms, true), percent(r.accuracy), decimal(r.test_loss),
      decimal(r.loss), bytes(r.update_bytes), bytes(r.delta_bytes),
      r.heaviest ? name_by_digits(r.heaviest.device, table.list) + ", " + (100 * r.heaviest.share).toFixed(0) + " %" : "-",
      r.furthest ? name_by_digits(r.furthest.device, table.list) : "-"]) {
      row.append(cell(text));
    }
    return row;
  }));
}
function draw(again) { /* draw the charts and the table again if the rounds or the window's size have changed */
  const rounds = seen ? seen.rounds : [], text = JSON.stringify([rounds, seen && seen.task ? seen.task.id : null, view.zoom, view.other,
    [seen && seen.task ? seen.task.id : null, view.other].map(id => runs[id] ? runs[id].asked_ms : 0)]);
  if (!again && text === drawn) return;
  drawn = text;
  show_rounds(rounds);
}
/* Is this page that of a follower? The status is the leader's, so the coordinator is asked by itself, again when the lead changes. */
let place = {address: null, leads: null, term: null};
async function fetch_place(term) {
  if (place.term === term) return;
  place = {address: place.address, leads: null, term};
  const answer = await fetch("/v1/coordinator", {cache: "no-store"}); /* the devices' port has no such path */
  if (answer.ok) place = Object.assign(await answer.json(), {term});
  if (told) show_details(seen);
}
function own_place(others) {
  fetch_place(others.term).catch(error => console.warn(error));
  return place.leads === null ? "" : place.leads ? " This page is the leader's." : " This page is of " + place.address + ", which follows.";
}
function show_details(s) {
  const t = s.task, r = s.round;
  facts("task", !t ? [["State", "no task"]] : [
    ...(r && r.waits_for ? [["Waits for", r.waits_for]] : []), ...(r ? [["Attempt", whole(r.attempt)]] : []),
    ["State", t.state], ["Model", net(t.model)], ["Parameters", whole(t.parameters)], ...(t.private_layers ? [["Private layers", t.private_layers + ": on the devices alone"]] : []), ["Codec up", t.codec_up + (t.codec_up_asked ? ", chosen for " + t.codec_up_asked : "")], ["Codec down", t.codec_down],
    ["A device", several(t.local_steps, "step") + " of " + several(t.batch, "sample") + ", " + t.optimizer + ", rate " + t.learning_rate],
    ...(t.phases > 1 ? [["Phase", whole(t.phase) + " of " + whole(t.phases) +
      (known(t.next_phase) ? ", the next from round " + whole(t.next_phase) : "")]] : []),
    ["Digest of the model", t.digest], ["Task number", whole(t.id)]]);
  const x = s.traffic;
  facts("totals", [["Received", bytes(x.received_bytes)], ["Sent", bytes(x.sent_bytes)], ["Requests", whole(x.requests)], ["", "since the coordinator started"]]);
  const others = s.coordinators; /* only the leader answers */
  show("coordinators", known(others));
  if (known(others)) {
    say("coordinators", several(others.followers + 1, "coordinator") + ": " + others.leader + " leads" + (others.since_ms ? " since " + clock(others.since_ms, now_ms()) : "") + " (term " + whole(others.term) + "), " +
      (others.followers === 0 ? "nobody follows: if it stops, nobody takes over." : several(others.followers, "other follows", "others follow") + " and can take over.") + own_place(others), others.followers === 0 ? "amber" : "soft");
  }
  say("version", "fedserver " + s.version + ", protocol " + s.protocol + ".");
  show("downloads", t !== null);
  if (t) {
    $("getmodel").href = "/model.safetensors?task=" + t.id;
    $("getcsv").href = "/rounds.csv?task=" + t.id;
  }
}
/* Shows whether the coordinator answers, and if not, since when. */
function show_line() {
  show("lost", lostSince !== null || ended);
  show("live", lostSince === null && !ended);
  if (ended) {
    const link = make("a", "log in again");
    link.href = "/login";
    if (!$("lost").querySelector("a")) $("lost").replaceChildren("Your login has ended: ", link, ".");
  } else if (lostSince !== null) {
    say("lost", "The coordinator has not answered since " + clock(lostSince, Date.now()) + " (for " + duration(Date.now() - lostSince) + ")." +
      (seen ? " What you see is from before." : "") + " Is it running, and is the network up?");
  } else if (seen) {
    say("live", "live");
  }
}
/* How many bytes came over the line with this answer. */
const line_bytes = (answer, text) => Number(answer.headers.get("Content-Length")) || text.length;

async function poll() {
  let came = 0;
  const give_up = new AbortController();
  const timer = setTimeout(() => give_up.abort(), GIVE_UP_MS);
  try {
    const answer = await fetch("/v1/status", {signal: give_up.signal, cache: "no-store", headers: tag ? {"If-None-Match": tag} : {}});
    const same = answer.status === 304;
    ended = answer.status === 401;
    if (!answer.ok && !ended && !same) throw new Error("status " + answer.status);
    if (!ended && !same) {
      tag = answer.headers.get("ETag");
      const text = await answer.text();
      came = line_bytes(answer, text);
      told = JSON.parse(text);
      aheadMs = told.now_ms - Date.now();
      show_all();
      follow_runs();
    }
    lostSince = null;
  } catch (error) {
    console.warn(error);
    if (lostSince === null) lostSince = Date.now();
  }
  clearTimeout(timer);
  show_line();
  setTimeout(poll, Math.max(document.hidden ? HIDDEN_MS : POLL_MS, 1000 * came / STATUS_BYTES));
}
async function poll_devices() {
  try {
    if (await fetch_devices() && seen) {
      draw_devices(now_ms());
      show_alarms(now_ms());
    }
  } catch (error) {
    console.warn(error); /* poll() shows that the coordinator does not answer */
  }
  setTimeout(poll_devices, Math.max(document.hidden ? 18000 : 3000, 1000 * table.came / DEVICES_BYTES));
}
addEventListener("DOMContentLoaded", () => {
  for (const id of ["accuracy", "loss", "bytes"]) chart_events(id);
  for (const id of ["losslog", "byteslog"]) $(id).onchange = () => draw(true);
  const linked = /^#task-([1-9][0-9]{0,15})$/.exec(location.hash);
  if (linked) picked = Number(linked[1]);
  start_history(show_all);
  $("findtask").oninput = () => { if (told) show_tasks(told, now_ms()); };
  start_acting();
  start_devices(() => draw_devices(now_ms()));
  setInterval(() => { show_times(); show_line(); }, 500);
  document.addEventListener("visibilitychange", show_times);
  new ResizeObserver(() => draw(true)).observe($("accuracy"));
  poll();
  poll_devices();
});
