"use strict";
/* The history of runs: a past task is opened by its name, charts show all rounds of a run or a part of them, and a second
   run may be laid over. /v1/rounds thins a long run to what a chart shows. */
/* SPDX-License-Identifier: Apache-2.0 */
const RUN_AGAIN_MS = 10000, RESUMES_AT_ONCE = 3;
const resumes = {}; /* by a task's number: {attempt, at: when the task was resumed} */
const runs = {}; /* by a task's number: {task, count, rounds (the oldest first), part: {from, to, rounds} or null, asked_ms} */
const view = {zoom: null, other: null, busy: false, again: false}; /* zoom: [first, last] or null, for all rounds; other: a task's number */

function rounds_of(columns, own) {
  return columns.number.map((_, k) => {
    const round = {};
    for (const name in columns) round[name] = columns[name][k];
    round.metrics = (own || []).filter(o => known(o.mean[k])).map(o => ({name: o.name, by: o.by, mean: o.mean[k]}));
    return round;
  });
}
async function ask_rounds(id, query) {
  const answer = await fetch("/v1/rounds?task=" + id + query, {cache: "no-store"});
  return answer.ok ? answer.json() : null;
}
async function fetch_run(id) {
  const told = await ask_rounds(id, ""), before = runs[id];
  if (told === null) {
    runs[id] = before || {task: null, count: 0, rounds: [], part: null};
  } else {
    runs[id] = {task: told.task, count: told.count, rounds: rounds_of(told.rounds, told.own), part: null, events: told.events || []};
  }
  runs[id].asked_ms = now_ms();
}
const is_part = (part, zoom) => part !== null && zoom !== null && part.from === zoom[0] && part.to === zoom[1];

async function fetch_part(id, zoom) {
  const told = await ask_rounds(id, "&first=" + zoom[0] + "&last=" + zoom[1]);
  runs[id].part = {from: zoom[0], to: zoom[1], rounds: told === null ? [] : rounds_of(told.rounds, told.own)};
}
const task_entry = id => (told.tasks || []).find(t => t.id === id);

/* How often the open round has failed: each failure and each resume opens an attempt. null: not known yet. */
function failures(s) {
  const r = s.round, known_of = resumes[s.task.id];
  return known_of && known_of.attempt === r.attempt ? r.attempt - 1 - known_of.at.filter(at => at >= r.opened_ms).length : null;
}
/* Fetch when tasks were resumed, of a few that are in a later attempt. The rounds themselves are not wanted. */
async function fetch_resumes() {
  const all = running_tasks(told).length ? running_tasks(told) : [told];
  const late = all.filter(s => s.task && s.round && s.round.attempt > 1 && failures(s) === null).slice(0, RESUMES_AT_ONCE);
  for (const s of late) {
    const of = await ask_rounds(s.task.id, "&first=1&last=1");
    resumes[s.task.id] = {attempt: s.round.attempt, at: ((of && of.events) || []).filter(e => e.event === "task_resumed").map(e => e.at_ms)};
  }
  return late.length > 0;
}
/* Is what is known of this run too old or too little? */
function wants_run(id) {
  const run = runs[id], now = task_entry(id), version = now ? now.version : seen.task && seen.task.id === id ? seen.task.version : 0;
  if (!run) return version > 0 || id === picked || id === view.other;
  const changed = run.task === null || version > run.task.version || (now && run.task.state !== now.state);
  return changed && now_ms() - run.asked_ms >= RUN_AGAIN_MS;
}
const wants_part = id => view.zoom !== null && runs[id] && runs[id].rounds.length < runs[id].count && !is_part(runs[id].part, view.zoom);

/* Fetch what the page shows of runs and does not have yet; then show it. */
async function follow_runs() {
  view.again = view.busy;
  if (view.busy || !told) return;
  view.busy = true;
  try {
    let fetched = await fetch_resumes();
    for (const id of [picked, seen.task && seen.task.id, view.other].filter(known)) {
      if (wants_run(id)) { await fetch_run(id); fetched = true; }
      if (wants_part(id)) { await fetch_part(id, view.zoom); fetched = true; }
    }
    if (fetched) {
      show_all();
      draw(true);
    }
  } catch (error) {
    console.warn(error); /* poll() shows that the coordinator does not answer */
  }
  view.busy = false;
  if (view.again) follow_runs(); /* the page shows something else by now */
}

/* What the page shows of a task that does not run: its history in the place of the status' rounds. */
function seen_of_past(s) {
  const run = runs[picked];
  return run && run.task ? seen_from(s, {task: run.task, round: null, rounds: run.rounds.slice().reverse()}) : s;
}
/* The rounds that charts draw, the oldest first: the history, then what the status has beyond it. The status tells more of a
   round. */
function chart_rounds(id, newestFirst) {
  const run = runs[id], base = !run ? [] : is_part(run.part, view.zoom) ? run.part.rounds : run.rounds;
  const last = run && run.rounds.length ? run.rounds[run.rounds.length - 1].number : 0;
  const newest = new Map(newestFirst.map(r => [r.number, r]));
  const all = base.map(r => newest.get(r.number) || r).concat(newestFirst.filter(r => r.number > last).reverse());
  return view.zoom === null ? all : all.filter(r => r.number >= view.zoom[0] && r.number <= view.zoom[1]);
}
const other_run = () => view.other !== null && runs[view.other] && runs[view.other].task ? runs[view.other] : null;

const mark_words = {task_queued: "queued", task_paused: "paused", task_resumed: "resumed", task_cancelled: "cancelled", task_moved: "moved", task_prioritized: "given another priority",
  task_unreadable: "could not be read"};

/* What people did to the task while it ran, from the audit log: [{at: a place between two rounds, words}]. */
function marks_of(id, rounds) {
  const run = runs[id];
  if (!run || rounds.length === 0) return [];
  return (run.events || []).filter(e => mark_words[e.event] && e.event !== "task_queued").map(e => {
    const before = rounds.filter(r => r.committed_ms <= e.at_ms);
    const at = before.length === 0 ? rounds[0].number : before[before.length - 1].number + (before.length < rounds.length ? 0.5 : 0);
    return {at, words: mark_words[e.event] + " " + clock(e.at_ms, now_ms())};
  });
}
function show_marks(marks) {
  const words = marks.slice(-6).map(m => m.words).join(", ");
  show("marks", words !== "");
  say("marks", "Dotted lines: " + words + (marks.length > 6 ? "; before that " + several(marks.length - 6, "other deed") : "") + ".");
}

/* The last round of what is shown, without the zoom. */
function last_round() {
  const own = seen && seen.task ? seen.task.version : 0, other = other_run();
  return Math.max(own, other ? other.task.version : 0);
}
function set_zoom(from, to) {
  const last = last_round(), a = Math.max(1, Math.round(from)), b = Math.min(last, Math.round(to));
  view.zoom = (a <= 1 && b >= last) || b - a < 1 ? null : [a, b];
  draw(true);
  follow_runs();
}
/* Zoom about the chart's cursor, or about the newest rounds. */
function zoom_by(factor, about) {
  const [a, b] = view.zoom || [1, last_round()], width = (b - a) * factor, middle = known(about) ? about : factor < 1 ? b : (a + b) / 2;
  const from = Math.max(1, Math.min(middle - width / 2, last_round() - width));
  set_zoom(from, from + Math.max(1, width));
}
function show_zoom(shown) {
  const last = last_round(), [a, b] = view.zoom || [1, last];
  const thin = shown > 0 && shown < b - a + 1 ? ", " + whole(shown) + " of them drawn" : "";
  say("zoomed", view.zoom === null ? "All " + several(last, "round") + thin : "Rounds " + whole(a) + " to " + whole(b) + " of " + whole(last) + thin);
  $("zoomout").disabled = $("zoomall").disabled = view.zoom === null;
  $("zoomin").disabled = b - a < 2;
  show("zoombar", last > 1);
}

/* ---- a second run ---- */
function show_choices() {
  const mine = seen.task ? seen.task.id : null, list = (told.tasks || []).filter(t => t.id !== mine && t.version > 0), text = JSON.stringify([mine, list.map(t => [t.id, t.name])]);
  if (view.other !== null && !list.some(t => t.id === view.other)) view.other = null;
  show("comparing", list.length > 0);
  if ($("compare").dataset.shown === text) return;
  $("compare").dataset.shown = text;
  $("compare").replaceChildren(...[["", "no other run"], ...list.map(t => [String(t.id), t.name + " (" + t.id + ")"])].map(([value, words]) => {
    const one = make("option", words);
    one.value = value;
    return one;
  }));
  $("compare").value = view.other === null ? "" : String(view.other);
}
const not_settings = ["id", "name", "state", "version", "parameters", "digest", "phase", "phases", "next_phase", "privacy", "helper"];

function setting(value) {
  return !known(value) || value === "" ? "-" : String(value);
}
/* The settings in which the two runs differ. */
function show_differences() {
  const other = other_run(), own = seen.task;
  show("comparedcard", other !== null && own !== null);
  if (!other || !own) return;
  const keys = Object.keys(other.task).filter(k => !not_settings.includes(k) && k in own && setting(own[k]) !== setting(other.task[k]));
  say("comparedhead", own.name + " (" + own.id + ") and " + other.task.name + " (" + other.task.id + ")");
  facts("differs", keys.length ? keys.map(k => [k, setting(own[k]) + " and " + setting(other.task[k])]) : [["Settings", "the same in both"]]);
}
/* The series of one measure: of this run and, if one is laid over, of the other. */
function series_of(name, key, rounds, others, other) {
  const pick = list => list.filter(r => known(r[key])).map(r => [r.number, r[key]]);
  return [{name, points: pick(rounds)}, ...(other ? [{name: name + ", " + other.task.name + " (" + other.task.id + ")", points: pick(others), other: true}] : [])];
}
function start_history(redraw) {
  $("zoomin").onclick = () => zoom_by(0.5);
  $("zoomout").onclick = () => zoom_by(2);
  $("zoomall").onclick = () => set_zoom(1, last_round());
  $("back").onclick = () => pick_task(null);
  $("compare").onchange = () => {
    view.other = $("compare").value === "" ? null : Number($("compare").value);
    view.zoom = null;
    redraw();
    follow_runs();
  };
}
