"use strict";
/* Acting: dialogs in which an operator who has logged in pauses, resumes or cancels a task, sets its priority, admits a
   device, revokes one. Each sends one POST with the token of the session, and shows what the coordinator answers. */
/* SPDX-License-Identifier: Apache-2.0 */
let session = {acts: false, act_token: null, why_not: null};

async function fetch_session() {
  const answer = await fetch("/v1/session", {cache: "no-store"}), acted = session.acts;
  if (answer.ok) session = await answer.json();
  show("admit", session.acts);
  show("acthead", session.acts);
  say("whoacts", session.acts ? "You are logged in, and may act." : session.why_not ? upper(session.why_not) + "." : "");
  if (acted !== session.acts) drawnTasks = ""; /* the rows get a button, or lose it */
}
const upper = text => text.charAt(0).toUpperCase() + text.slice(1);

/* Send one wish. Returns {ok, told, text}: told is the answer, text says what went wrong. */
async function act(path, wish) {
  try {
    const answer = await fetch(path, {method: "POST", cache: "no-store", body: JSON.stringify(wish),
      headers: {"Content-Type": "application/json", "Fed-Act": session.act_token || ""}});
    const words = await answer.text(), told = words === "" ? {} : JSON.parse(words);
    if (answer.status === 401 || told.error === "act_token") await fetch_session();
    return {ok: answer.ok, told, text: told.message ? upper(told.message) + "." :
      "The coordinator is busy (" + answer.status + "), and has done nothing. Try again."};
  } catch (error) {
    console.warn(error);
    return {ok: false, told: {}, text: "There was no answer. Perhaps it was done all the same: look, and try again, which does no harm."};
  }
}

/* ---- dialogs ---- */
/* key: data-key of the button that opens the dialog, to which the keyboard's focus goes back. */
function open_dialog(id, key, title, parts) {
  const box = $(id), head = make("h2", title), close = make("button", "Close", "plain"), outcome = make("p", null, "outcome");
  head.id = id + "head";
  close.type = "button";
  close.onclick = () => box.close();
  outcome.setAttribute("role", "status");
  box.setAttribute("aria-labelledby", head.id);
  box.replaceChildren(head, ...parts, outcome, close);
  box.onclose = () => {
    if (box.open) return; /* the event comes late: the dialog was opened again */
    box.replaceChildren(); /* a token is not kept in a closed dialog */
    focus_key(key);
  };
  if (!box.open) box.showModal();
}
function focus_key(key) {
  const e = key ? [...document.querySelectorAll("[data-key]")].find(x => x.dataset.key === key) : null;
  if (e) e.focus();
}
/* Replace an element's children, and keep the keyboard's focus at the same thing. */
function redraw_in(id, children) {
  const key = $(id).contains(document.activeElement) ? document.activeElement.dataset.key : null;
  $(id).replaceChildren(...children);
  focus_key(key);
}
function tell_outcome(id, ok, text) {
  const e = $(id).querySelector(".outcome");
  if (!e) return; /* the dialog was closed meanwhile */
  e.className = "outcome " + (ok ? "did" : "failed");
  e.textContent = text;
}
/* A form of a dialog: `send` gets called when it is submitted, and its button rests meanwhile. */
function form(legend, parts, button, send) {
  const box = make("form"), group = make("fieldset");
  button.type = "submit";
  group.append(make("legend", legend), ...parts, button);
  box.append(group);
  box.onsubmit = async event => {
    event.preventDefault();
    if (group.disabled) return;
    group.disabled = true;
    await send();
    group.disabled = false;
  };
  return box;
}
function field(label, input) {
  const box = make("label", label + " ");
  input.autocomplete = "off";
  input.spellcheck = false;
  box.append(input);
  return box;
}
function text_field(id, most) {
  const input = make("input");
  input.type = "text";
  input.id = id;
  input.maxLength = most;
  return input;
}
function choice(id, list, chosen) {
  const box = make("select");
  box.id = id;
  for (const [value, words] of list) {
    const one = make("option", words);
    one.value = value;
    one.selected = value === chosen;
    box.append(one);
  }
  return box;
}
/* Let the button wait until the operator has typed `word`. */
function confirmed(input, button, word) {
  button.disabled = true;
  input.oninput = () => { button.disabled = input.value !== word; };
}

/* ---- a task ---- */
async function act_on_task(wish, done) {
  const answer = await act("/v1/task", wish);
  tell_outcome("taskdialog", answer.ok, answer.ok ? done(answer.told) : answer.text);
  return answer.ok;
}
function pause_form(t) {
  const rests = t.state === "paused", button = make("button", rests ? "Resume" : "Pause");
  button.id = rests ? "doresume" : "dopause";
  return form(rests ? "Go on with it" : "Let it rest", [make("p", rests ? "It comes first in the queue, and devices that declined it are asked again." :
    "No device trains for it until it is resumed. Its open round keeps the updates that have arrived.", "soft")], button, async () => {
    const ok = await act_on_task({task: t.id, do: rests ? "resume" : "pause"}, told => t.name + " is " + told.state + ".");
    if (ok) button.disabled = true;
  });
}
function priority_form(t) {
  const box = choice("priority", [1, 2, 3, 4, 5, 6, 7, 8, 9].map(k => [String(k), String(k)]), String(t.priority)), button = make("button", "Set the priority");
  button.id = "dopriority";
  return form("Where devices could serve several tasks", [field("Priority (9 comes first)", box)], button, () =>
    act_on_task({task: t.id, do: "priority", priority: Number(box.value)}, told => t.name + " has priority " + told.priority + "."));
}
function cancel_form(t) {
  const input = text_field("cancelname", 63), button = make("button", "Cancel this task", "danger");
  button.id = "docancel";
  confirmed(input, button, t.name);
  return form("End it for good", [make("p", "Its model is deleted; its rounds stay in the list. This can't be undone.", "soft"),
    field("Type its name, " + t.name + ",", input)], button, () =>
    act_on_task({task: t.id, do: "cancel", name: input.value}, () => t.name + " is cancelled."));
}
function open_task_dialog(t) {
  open_dialog("taskdialog", "act-" + t.id, t.name + " (" + t.id + ")", [make("p", upper(t.state) + ", " + whole(t.version) + " of " + several(t.rounds, "round") + "."),
    pause_form(t), priority_form(t), cancel_form(t)]);
}
function act_cell(t) {
  const td = cell(null, "left"), over = is_over(t), button = make("button", "Act", "plain");
  if (over) return td;
  button.type = "button";
  button.dataset.key = "act-" + t.id;
  button.setAttribute("aria-label", "Act on " + t.name + " (" + t.id + ")");
  button.setAttribute("aria-haspopup", "dialog");
  button.onclick = () => open_task_dialog(t);
  td.append(button);
  return td;
}

/* ---- a new device ---- */
function copy_button(text) {
  const button = make("button", "Copy", "plain");
  button.type = "button";
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch (error) {
      button.textContent = "Can't copy: select the text";
    }
  };
  return button;
}
function show_token(told) {
  const line = "fedclientd --server " + location.origin + " --ca ca.pem --state STATE --data DATA --token " + told.token + (told.role === "evaluator" ? " --evaluate" : "");
  const command = make("code", line, "block");
  command.id = "newcommand";
  const box = make("div", null, "made");
  box.append(make("p", "This token is good for one device, until " + clock(told.expires_ms, now_ms()) + ". It is shown only now."),
    command, copy_button(line), make("p", "Copy ca.pem from the coordinator's directory to the device; it is no secret. STATE is a folder of the device, DATA its samples.", "soft"));
  return box;
}
const random_digits = count => [...crypto.getRandomValues(new Uint8Array(count / 2))].map(x => x.toString(16).padStart(2, "0")).join("");
function open_admit_dialog() {
  const name = text_field("newname", 63), label = text_field("newtag", 31), role = choice("newrole", [["device", "trains"], ["evaluator", "measures models"]], "device");
  const hours = choice("newhours", [["1", "an hour"], ["24", "a day"], ["168", "a week"]], "24"), button = make("button", "Make a token"), made = make("div");
  let wish = {}; /* the last one: sent again after a lost answer, it makes no second token */
  button.id = "dotoken";
  open_dialog("admitdialog", "admit", "Admit a device", [form("A token for one device", [field("What it does", role), field("Name", name), field("Tag", label), field("Good for", hours)], button, async () => {
    const asked = {role: role.value, name: name.value, tag: label.value, hours: Number(hours.value)};
    if (Object.keys(asked).some(k => asked[k] !== wish[k])) wish = {...asked, key: random_digits(32)};
    const answer = await act("/v1/token", wish);
    if (answer.told.token || answer.told.error) wish = {};
    made.replaceChildren(...(answer.ok ? [show_token(answer.told)] : []));
    tell_outcome("admitdialog", answer.ok, answer.ok ? "A token was made." : answer.text);
  }), made]);
}

/* ---- one device ---- */
function revoke_form(d) {
  const input = text_field("revokedigits", 8), button = make("button", "Revoke this device", "danger"), digits = d.fingerprint.slice(0, 8);
  button.id = "dorevoke";
  confirmed(input, button, digits);
  return form("Shut it out", [make("p", "Its next request is refused. Its acknowledged updates stay counted. It needs a new token to come back.", "soft"),
    field("Type the first digits of its fingerprint, " + digits + ",", input)], button, async () => {
    const answer = await act("/v1/revoke", {fingerprint: d.fingerprint});
    tell_outcome("devicedialog", answer.ok, answer.ok ? name_of(d) + " is revoked." : answer.text);
    if (answer.ok) button.disabled = true;
  });
}
function device_facts(d, now) {
  const list = make("dl", null, "facts");
  for (const [name, value] of [["State", state_words[d.state] || d.state], ["Fingerprint", d.fingerprint], ["Last seen", d.last_seen_ms ? clock(d.last_seen_ms, now) + ", " + short_ago(now - d.last_seen_ms) : "never"],
    ["Updates", whole(d.counted) + " counted, " + whole(d.late) + " late, " + whole(d.refused) + " refused"], ["Samples", d.samples ? whole(d.samples) : "-"],
    ["Role", d.role + (d.tag ? ", tag " + d.tag : "")], ["Software", d.software || "-"], ["Computes on", computes_on(d)], ["Enrolled", clock(d.enrolled_ms, now)],
    ["Certificate", (d.expires_ms <= now ? "expired " : "good until ") + clock(d.expires_ms, now)],
    ...(d.declined_until_ms ? [["Declined a task", "asked again after its next start, or from " + clock(d.declined_until_ms, now) + " on"]] : []),
    ...(d.cloned_ms > 0 ? [["Runs twice", "seen " + clock(d.cloned_ms, now)]] : [])]) {
    list.append(make("dt", name), make("dd", value));
  }
  return list;
}
const event_words = event => upper(event.replace(/_/g, " "));

/* What has happened to the device, the newest first; only operators who have logged in may see it. */
async function show_life(d, box) {
  const answer = await fetch("/v1/device?id=" + d.id, {cache: "no-store"});
  if (!answer.ok) return;
  const told = await answer.json(), list = make("ul", null, "life");
  list.append(...told.declines.map(x => make("li", clock(x.at_ms, now_ms()) + ": declined " + x.name + " (" + x.task + "): " + x.reason)),
    ...told.events.slice().reverse().map(x => make("li", clock(x.at_ms, now_ms()) + ": " + event_words(x.event) + ", " + x.detail)));
  if (list.children.length > 0) box.append(make("h3", "What has happened, newest first"), list);
}
function open_device_dialog(d) {
  const life = make("div");
  if (session.acts) show_life(d, life).catch(error => console.warn(error));
  open_dialog("devicedialog", "device-" + d.id, name_of(d), [device_facts(d, now_ms()), life, ...(session.acts && d.state !== "revoked" ? [revoke_form(d)] : [])]);
}
function device_button(d) {
  const button = make("button", d.name || "device " + d.fingerprint.slice(0, 8), "link");
  button.type = "button";
  button.dataset.key = "device-" + d.id;
  button.setAttribute("aria-haspopup", "dialog");
  button.onclick = () => open_device_dialog(d);
  return button;
}
function start_acting() {
  $("admit").onclick = open_admit_dialog;
  fetch_session().catch(error => console.warn(error));
}
