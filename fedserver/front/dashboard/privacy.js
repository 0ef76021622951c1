"use strict";
/* Says in plain words how a private task protects its devices: from whom, with which promise, and how much of it is spent. */
/* SPDX-License-Identifier: Apache-2.0 */
const HELPER_PATIENCE_MS = 60000;

const privacy_of = s => s && s.task ? s.task.privacy || null : null;
const runs_helper = p => p.helper_is === "ours" ? "your own helper" : p.helper_is ? "the helper of " + p.helper_is : "the helper";
/* For how long the open round has waited for its helper; null: it does not wait. */
const helper_wait = (s, now) => privacy_of(s) && known(privacy_of(s).since_ms) && s.round ? Math.max(0, now - privacy_of(s).since_ms) : null;

/* Who could read single updates. */
function reader_words(p) {
  if (!p.helper) return "No helper opens the sums: the coordinator gets each update, and is trusted not to read it.";
  if (p.helper_is === "ours") {
    return "The coordinator reads sums of rounds, and no single update. But you run its helper, too: that protects against a stolen disk, a leaked backup or one curious person, and not against you.";
  }
  return "No single update can be read unless the coordinator and " + runs_helper(p) + " break their word together." +
    (p.helper_is ? "" : " The task does not say who runs it.");
}
function promise_words(p) {
  if (!known(p.epsilon)) return "No epsilon is promised: the models may tell something of single devices.";
  return "The models of all rounds hardly tell whether a device sent its training or zeros: epsilon " + decimal(p.epsilon) + " at delta " + p.delta.toExponential(0) + ".";
}
function left_words(t, p) {
  if (is_over(t)) return "Its rounds are over, and so is what it spends.";
  return several(p.left, "device", "devices") + " may take part once more; each in at most " + several(p.participations, "round") + ".";
}
function spent_words(p) {
  return decimal(p.spent) + " of " + decimal(p.epsilon) + " spent, by the device that took part most often";
}
function show_privacy(s, now) {
  const p = privacy_of(s), wait = helper_wait(s, now);
  show("privacycard", p !== null);
  if (!p) return;
  say("privacyreader", reader_words(p));
  say("privacypromise", promise_words(p));
  show("budget", known(p.epsilon));
  if (known(p.epsilon)) {
    const part = Math.min(1, p.spent / p.epsilon);
    $("spent").style.width = 100 * part + "%";
    $("spent").className = "fill" + (part >= 0.9 ? " much" : "");
    $("budgetbar").setAttribute("aria-valuenow", Math.round(100 * part));
    $("budgetbar").setAttribute("aria-valuetext", spent_words(p));
    say("spentwords", spent_words(p) + ". " + left_words(s.task, p));
  }
  facts("privacyfacts", [
    ...(p.helper ? [["Helper", (p.helper_is === "ours" ? "yours" : p.helper_is || "of whom nobody has said") + ", with the key " + p.helper + "..."],
      ...(is_over(s.task) ? [] : [["The helper now", wait === null ? "owes nothing" : "has not opened this round's sum yet, for " + duration(wait)]])] : []),
    ...(known(p.z) ? [["Noise of a round", decimal(p.z) + " of the longest update"]] : []), ["Longest update", decimal(p.clip)],
    ...(known(p.groups) ? [["Sums of a round", whole(p.groups) + ", of which a robust strategy takes the middle"]] : [])]);
}

/* ---- alarms ---- */
/* Devices that are in the worst of the groups again and again. */
function alarm_outliers(s) {
  const p = privacy_of(s), found = p && p.outliers || [];
  if (found.length === 0) return null;
  const one = found[0], more = found.length - 1;
  return alarm("amber", (one.name || "The device " + one.device.slice(0, 8)) + " was in the worst group in " + whole(one.worst) + " of its " +
    several(one.rounds, "round") + ", by chance in " + decimal(one.expected) + (more > 0 ? ", and " + several(more, "other device") + " likewise." : "."),
    "Its data are unlike all others', or it ignores the clip. If you do not trust it: fedserver revoke --dir DIR " + one.device.slice(0, 8));
}
function alarm_helper(s, now) {
  const wait = helper_wait(s, now);
  if (wait === null || wait < HELPER_PATIENCE_MS) return null;
  const who = runs_helper(privacy_of(s));
  return alarm(wait > 10 * HELPER_PATIENCE_MS ? "red" : "amber", "Round " + whole(s.round.number) + " has waited for " + who + " for " + duration(wait) + ".",
    "Its updates are safe. Is " + who + " running, and does it reach this coordinator? What it refuses is in both logs.");
}
function alarm_ledger(s) {
  const p = privacy_of(s);
  if (!p || !known(p.epsilon) || is_over(s.task)) return null;
  if (p.complete === false) {
    return alarm("red", "The ledger is that of a backup, and does not know which devices took part since.",
      "Rounds are refused until you say how many may have been lost: fedserver ledger --dir DIR --lost N " + s.task.id);
  }
  if (!s.round || p.left >= s.round.minimum) return null;
  return alarm("amber", "A round needs " + several(s.round.minimum, "update") + ", and only " + several(p.left, "device has", "devices have") + " a participation left.",
    "The others have spent the promised epsilon of this task. Admit devices, or let the task end.");
}
