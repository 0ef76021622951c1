"use strict";
/* Says what the numbers mean: a sentence on the open round, the expected end, and alarms with what to do. */
/* SPDX-License-Identifier: Apache-2.0 */
const DAY_MS = 86400000;

function median(values) {
  const v = values.slice().sort((a, b) => a - b);
  return v.length === 0 ? null : (v[v.length >> 1] + v[(v.length - 1) >> 1]) / 2;
}
/* The time of a round, from commit to commit, over the last rounds. */
function pace_ms(rounds) {
  const recent = rounds.slice(0, 11), gaps = [];
  for (let k = 0; k + 1 < recent.length; k++) gaps.push(recent[k].committed_ms - recent[k + 1].committed_ms);
  return median(gaps);
}
/* When the open round began: at the last commit or, for the first round, when it opened. */
function last_ms(s) {
  return s.rounds.length > 0 ? s.rounds[0].committed_ms : s.round ? s.round.opened_ms : null;
}
function is_stuck(s, now) {
  const pace = pace_ms(s.rounds), since = last_ms(s);
  return known(pace) && known(since) && s.round !== null && now - since > Math.max(4 * pace, 60000);
}
/* When the task is expected to end: [text, level of alarm]. */
function finish_time(s, now) {
  const t = s.task;
  if (!t) return ["-", ""];
  if (t.state === "finished") return [s.rounds.length ? clock(s.rounds[0].committed_ms, now) : "yes", ""];
  if (t.state !== "running") return ["not while it is " + t.state, ""];
  const pace = pace_ms(s.rounds), left = t.rounds - t.version;
  if (!known(pace)) return ["known after two rounds", ""];
  if (is_stuck(s, now)) return ["unknown: this round takes long", "amber"];
  const at = Math.max(now, s.rounds[0].committed_ms + left * pace);
  return ["about " + clock(at, now), ""];
}
const running_task = s => (s.tasks || []).find(t => t.state === "running" && s.task && t.id === s.task.id);
function headline(s, now) {
  const t = s.task, r = s.round, enrolled = several(s.devices, "device is", "devices are") + " enrolled";
  if (!t) return ["No task is queued. " + (s.devices > 0 ? enrolled.charAt(0).toUpperCase() + enrolled.slice(1) + "." : "No device is enrolled yet."),
    "To begin, queue a task on the coordinator's machine: fedserver task --dir DIR FILE.json" +
    (s.devices > 0 ? "" : ". Then admit devices: fedserver token --dir DIR")];
  if (t.state === "finished") {
    const best = s.rounds.find(x => known(x.accuracy));
    return [t.name + " is finished after " + several(t.version, "round") + (best ? ", with " + percent(best.accuracy) + " accuracy." : "."), null];
  }
  if (!r) {
    return [t.name + " is " + t.state + " after " + whole(t.version) + " of " + several(t.rounds, "round") + ".",
      t.state === "paused" ? "To resume it: fedserver resume --dir DIR " + t.id : null];
  }
  const where = "Round " + whole(r.number) + " of " + whole(t.rounds) + ": ";
  if (helper_wait(s, now) !== null) {
    return [where + "all updates are in (" + whole(r.received) + "), and " + runs_helper(t.privacy) + " must open their sum.", null];
  }
  const missing = Math.max(0, r.goal - r.received);
  if (r.out === 0 && r.received === 0) {
    const refused = running_task(s), nobody = refused && refused.declined && refused.declined.count >= s.devices;
    return [where + (s.devices === 0 ? "no device is enrolled yet." : nobody ? "no device can serve this task." :
      "waiting for the first device to check in."), null];
  }
  return [where + whole(r.received) + " of " + several(r.goal, "update") + (r.received === 1 ? " is in, " : " are in, ") +
    (r.out > 0 ? several(r.out, "device is", "devices are") + " training." : "waiting for " + several(missing, "more device") + "."), null];
}

/* ---- alarms: {level, text, what to do}, the worst first ---- */
const alarm = (level, text, todo) => ({level, text, todo});

/* Who was late or away when a round failed: at most four names. */
function missing_words(s, list) {
  const absent = list.filter(d => d.role === "device" && (d.state === "late" || d.state === "away")), late = absent.filter(d => d.state === "late"), who = late.length ? late : absent;
  if (who.length === 0) return "";
  return (late.length ? " Late: " : " Away: ") + who.slice(0, 4).map(name_of).join(", ") + (who.length > 4 ? " and " + several(who.length - 4, "other") : "") + ".";
}
function alarm_attempts(s, list) {
  const r = s.round, failed = r && r.attempt > 1 ? failures(s) : 0;
  if (!failed || failed < 1) return null;
  return alarm(failed < 3 ? "amber" : "red",
    "Round " + whole(r.number) + " has failed " + (failed === 1 ? "once" : several(failed, "time")) + ": fewer than " +
    several(r.minimum, "update") + " came before the deadline." + missing_words(s, list),
    "Look below for devices that are away or late. Else queue a task with a longer deadline_s or a smaller minimum.");
}
/* The device that moved the model furthest in most of the last rounds, if there is one: its name, and the digits of its
   fingerprint that `fedserver revoke` takes. */
function prime_mover(s, list) {
  const recent = s.rounds.slice(0, 5).map(r => r.furthest && r.furthest.device).filter(known);
  const id = recent.find(d => recent.filter(x => x === d).length > 2 && recent.filter(x => x === d).length * 2 > recent.length);
  return id ? {name: name_by_digits(id, list), id: id.slice(0, 8), count: recent.filter(x => x === id).length} : null;
}
function name_by_digits(digits, list) {
  const device = list.find(d => d.fingerprint.startsWith(digits));
  return device ? name_of(device) : "the device " + digits.slice(0, 8);
}
function alarm_loss(s, list) {
  const key = s.rounds.filter(r => known(r.test_loss)).length >= 8 ? "test_loss" : "loss";
  const values = s.rounds.map(r => r[key]).filter(known).reverse();
  if (values.some(v => !Number.isFinite(v))) {
    return alarm("red", "The loss is not a number any more.", "Stop this task, and queue it with a smaller learning_rate.");
  }
  if (values.length < 8) return null;
  const smooth = values.slice(2).map((v, k) => median([values[k], values[k + 1], v]));
  const now = smooth[smooth.length - 1], best = Math.min(...smooth);
  if (now < 1.25 * best + 1e-3 || smooth.slice(-2).some(v => v < 1.1 * best)) return null;
  const mover = prime_mover(s, list);
  return alarm(now > 2 * best ? "red" : "amber",
    "The model gets worse: its loss was " + decimal(best) + " at best and is " + decimal(now) + " now.",
    mover ? "In " + several(mover.count, "of the last rounds", "of the last rounds") + " " + mover.name + " moved the model furthest. To revoke the device: " +
    "fedserver revoke --dir DIR " + mover.id : "Look below for a device whose updates are refused. If there is none, queue the task with a smaller learning_rate, or a strategy " +
    "such as median, which one bad device can't move far.");
}
const able_of = list => list.filter(d => d.role === "device" && d.state !== "revoked" && d.state !== "expired");
/* Without staleness a device gives one update to a round, so a round needs as many devices as its minimum. */
function alarm_few(s, list) {
  const r = s.round, t = s.task, able = able_of(list).filter(d => !t || !t.tag || d.tag === t.tag).length;
  const count = list.length > 0 && list.length >= s.devices ? able : s.devices;
  const own = running_task(s), all_declined = own && own.declined && own.declined.count >= s.devices;
  const nobody = s.devices === 0 || (list.length > 0 && able_of(list).length === 0); /* alarm_devices tells this */
  if (!r || r.staleness > 0 || nobody || count >= r.minimum || all_declined) return null;
  return alarm("red", "A round needs " + several(r.minimum, "update") + ", and only " + several(count, "device is", "devices are") + " enrolled that may train" + (t && t.tag ? " with the tag " + t.tag : "") + ".",
    "Admit devices: fedserver token --dir DIR prints a token for each. Else cancel the task, and queue it with a smaller minimum.");
}
function alarm_devices(s, list, now) {
  if (!s.round) return null;
  if (s.devices === 0) {
    return alarm("red", "No device is enrolled, so nobody can train.", "Admit devices: fedserver token --dir DIR prints a token for each.");
  }
  const able = able_of(list);
  if (list.length > 0 && able.length === 0) {
    return alarm("red", "No device may train: each is revoked, expired, or has another role.", "Admit devices: fedserver token --dir DIR prints a token for each.");
  }
  const seen = Math.max(0, ...able.map(d => d.last_seen_ms || 0));
  if (list.length > 0 && s.round.out === 0 && (seen === 0 || now - seen > 30 * 60000)) {
    return alarm("red", seen === 0 ? "No device has checked in yet." : "No device has checked in since " + clock(seen, now) + ".",
      "Can devices reach the devices' port? On a device, the log of fedclientd says why it does not check in.");
  }
  return null;
}
function alarm_declined(s) {
  const t = running_task(s);
  if (!t || !t.declined || t.declined.count === 0) return null;
  const reason = t.declined.reasons && t.declined.reasons.length ? " The first reason: " + t.declined.reasons[0].reason + "." : "";
  if (t.declined.count >= s.devices) {
    return alarm("red", "Every device has declined " + t.name + "." + reason,
      "No device can serve this task. Cancel it with fedserver cancel --dir DIR " + t.id + ", and queue one that fits.");
  }
  return alarm("amber", several(t.declined.count, "device has", "devices have") + " declined " + t.name + "." + reason,
    "The other devices go on. To use these too, queue a task that fits their data.");
}
function alarm_certificate(s, now) {
  const end = s.certificate_ends_ms;
  if (!known(end) || end - now > 30 * DAY_MS) return null;
  return alarm(end - now > 7 * DAY_MS ? "amber" : "red",
    end <= now ? "The coordinator's certificate has expired: devices refuse to talk to it." :
      "The coordinator's certificate ends in " + duration(end - now) + ".", "Renew it: fedserver cert --dir DIR");
}
function alarm_commit(s, now) {
  if (!is_stuck(s, now) || s.round.attempt > 1) return null;
  const since = now - last_ms(s), pace = pace_ms(s.rounds);
  return alarm(since > 20 * pace ? "red" : "amber",
    "No round has been committed for " + duration(since) + ". Lately a round took " + duration(pace) + ".",
    "\"Details of the task\" below says what this round waits for.");
}
const name_of = d => d.name || "the device " + d.fingerprint.slice(0, 8);
function alarm_bad(list) {
  const clones = list.filter(d => d.cloned_ms > 0 && d.state !== "revoked");
  if (clones.length > 0) {
    return alarm("red", "Two machines use the key of " + name_of(clones[0]) + (clones.length > 1 ? " (and " + several(clones.length - 1, "other device") + " likewise)" : "") + ".",
      "Revoke the device with fedserver revoke --dir DIR " + clones[0].fingerprint.slice(0, 8) + ", and enrol both machines with tokens of their own.");
  }
  const bad = list.filter(is_bad).sort((a, b) => b.refused - a.refused);
  if (bad.length === 0) return null;
  return alarm("amber", several(bad[0].refused, "update") + " of " + name_of(bad[0]) + (bad[0].refused === 1 ? " was" : " were") + " refused" +
    (bad.length > 1 ? ", and those of " + several(bad.length - 1, "other device") + "." : "."),
    "Its data or its software may be broken. To revoke the device: fedserver revoke --dir DIR " + bad[0].fingerprint.slice(0, 8));
}
/* The alarms of one task. If several tasks run, each text begins with the task's name. */
function task_alarms(s, list, now, several_run) {
  const found = [alarm_declined(s), alarm_few(s, list) || alarm_attempts(s, list), alarm_ledger(s), alarm_helper(s, now) || alarm_commit(s, now), alarm_outliers(s), alarm_loss(s, list)].filter(known);
  return several_run ? found.map(a => alarm(a.level, s.task.name + " (" + s.task.id + "): " + a.text, a.todo)) : found;
}
function alarms(s, list, now) {
  const all = s.running || [], views = all.length > 1 ? all.map(one => Object.assign({}, s, one)) : [s];
  const found = [alarm_devices(s, list, now), ...views.flatMap(one => task_alarms(one, list, now, all.length > 1)),
    alarm_bad(list), alarm_worker_groups(s, list, now), alarm_certificate(s, now)].filter(known);
  return found.sort((a, b) => (b.level === "red") - (a.level === "red"));
}
