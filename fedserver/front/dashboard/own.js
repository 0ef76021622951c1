"use strict";
/* Draws the devices' custom metrics: a chart for each name. */
/* SPDX-License-Identifier: Apache-2.0 */
const OWN_CHARTS = 12;

/* Collect the custom metrics of rounds, which come the oldest first. Returns a list in the order of names:
   {name, devices: [[round, metric] ...], evaluators: [[round, metric] ...]}. */
function own_metrics(rounds) {
  const all = {};
  for (const r of rounds) {
    for (const m of r.metrics || []) {
      const one = all[m.name] = all[m.name] || {name: m.name, devices: [], evaluators: []};
      one[m.by].push([r.number, m]);
    }
  }
  return Object.keys(all).sort().map(name => all[name]);
}
function own_words(one, newest) {
  const list = one.devices.length ? one.devices : one.evaluators, [number, m] = list[list.length - 1];
  const range = m.reports > 1 ? ", " + decimal(m.least) + " to " + decimal(m.most) : "";
  const said = decimal(m.mean) + (number === newest ? " now" : " in round " + whole(number));
  return !known(m.reports) ? said : said + range + " in " + several(m.reports, one.devices.length ? "update" : "evaluation");
}
function own_card(one, k) {
  const card = make("section", null, "card"), head = make("h2", one.name + " "), box = make("div", null, "chart");
  box.id = "own" + k;
  box.tabIndex = 0;
  box.setAttribute("role", "slider");
  box.setAttribute("aria-label", one.name + ", round by round");
  head.append(make("small"));
  card.append(head, box);
  return card;
}
/* Make a card for each name. The cards are made anew only when the names change, so that the keyboard's focus stays. */
function own_cards(list) {
  const names = JSON.stringify(list.map(one => one.name));
  if ($("own").dataset.shown === names) return;
  $("own").dataset.shown = names;
  $("own").replaceChildren(...list.map(own_card));
  list.forEach((one, k) => chart_events("own" + k));
}
function own_rest(hidden, dropped) {
  const words = [];
  if (hidden > 0) words.push(several(hidden, "other metric") + " can be had as CSV.");
  if (dropped > 0) words.push("In the newest round " + several(dropped, "value was", "values were") + " dropped: devices report too many names.");
  return words.join(" ");
}
function show_own(rounds, span) {
  const all = own_metrics(rounds), list = all.slice(0, OWN_CHARTS);
  const rest = own_rest(all.length - list.length, rounds.length ? rounds[rounds.length - 1].metrics_dropped || 0 : 0);
  show("owncard", all.length > 0);
  own_cards(list);
  list.forEach((one, k) => {
    const means = points => points.map(p => [p[0], p[1].mean]);
    $("own" + k).parentElement.querySelector("small").textContent = own_words(one, span[1]);
    const lines = [{name: "devices", points: means(one.devices)}, {name: "evaluators", points: means(one.evaluators)}];
    chart("own" + k, span, lines.filter(s => s.points.length > 0), {write: decimal, empty: "not reported yet"});
  });
  show("ownrest", rest !== "");
  say("ownrest", rest);
}
