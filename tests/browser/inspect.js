/* What a test asks of the page; each function is the body of a script that chromedriver runs. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Return the texts whose contrast with their background is below level AA of WCAG. */
function weak_contrast() {
  const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4);
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const parse = text => { const n = (text.match(/[\d.]+/g) || []).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map(k => top[k] * top[3] + below[k] * (1 - top[3]));
  const behind = e => {
    if (e === null) return [255, 255, 255];
    const own = parse(getComputedStyle(e).backgroundColor);
    return own[3] >= 1 ? own.slice(0, 3) : over(own, behind(e.parentElement));
  };
  const weak = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = walker.nextNode());) {
    const e = text.parentElement, style = getComputedStyle(e);
    if (text.textContent.trim() === "" || !e.checkVisibility() || e.closest("script, style, :disabled")) continue;
    const back = behind(e), colour = parse(e instanceof SVGElement ? style.fill : style.color);
    colour[3] *= Number(style.opacity);
    const pair = [light(over(colour, back)), light(back)].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05), size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    if (ratio < (size >= 24 || (bold && size >= 18.66) ? 3 : 4.5)) weak.push(text.textContent.trim().slice(0, 40) + ": " + ratio.toFixed(2));
  }
  return weak;
}

/* Mark everything that a keyboard must reach, in the document's order. Return how much there is. */
function reachable() {
  const all = document.querySelectorAll("a[href], button:not(:disabled), input, select, summary, [tabindex='0']");
  let count = 0;
  window.marks = {}; /* by data-key: a table may be drawn again meanwhile */
  for (const e of all) {
    if (!e.checkVisibility()) continue;
    e.dataset.mark = ++count;
    if (e.dataset.key) window.marks[e.dataset.key] = count;
  }
  return count;
}

/* Return the mark of the element with the focus, and whether its outline can be seen. */
function focused() {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  return {mark: Number(e.dataset.mark || window.marks[e.dataset.key] || 0), what: e.outerHTML.slice(0, 80),
    outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    inside: box.bottom > 0 && box.top < innerHeight};
}

/* Return by how many pixels the page is wider than its window. */
function overflow() {
  return document.scrollingElement.scrollWidth - innerWidth;
}

/* Return the tables of which a part is cut off at the side. */
function cut_tables() {
  return [...document.querySelectorAll(".scroll")].filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
    .map(e => e.getAttribute("aria-label") + ": " + (e.scrollWidth - e.clientWidth) + " pixels");
}

/* Return what a screen reader could not name: controls, tables, charts and dialogs without a name, names that two different
   controls share, and headings that leave a level out. */
function nameless() {
  const told = [], text = id => (document.getElementById(id) || {textContent: ""}).textContent;
  const name = e => (e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ").map(text).join(" ") ||
    (e.labels && e.labels.length ? e.labels[0].textContent : "") || e.textContent || e.title || "").trim();
  const shown = [...document.querySelectorAll("a[href], button, input, select, summary, dialog[open], section, nav, figure [role=img], [role=slider], [role=progressbar], [role=region], [role=group], [tabindex='0']")]
    .filter(e => e.checkVisibility());
  for (const e of shown) if (!/[A-Za-z0-9]/.test(name(e))) told.push("no name: " + e.outerHTML.slice(0, 100));
  const links = new Map();
  for (const e of shown.filter(x => x.matches("a[href]"))) {
    const before = links.get(name(e));
    if (before && before !== e.getAttribute("href")) told.push("one name, two places: " + name(e));
    links.set(name(e), e.getAttribute("href"));
  }
  let level = 0;
  for (const e of document.querySelectorAll("h1, h2, h3")) {
    if (!e.checkVisibility()) continue;
    if (Number(e.tagName[1]) > level + 1) told.push("a level is left out before " + e.textContent.slice(0, 40));
    level = Number(e.tagName[1]);
  }
  for (const e of document.querySelectorAll("[role=slider]")) {
    if (e.checkVisibility() && !["aria-valuenow"].every(k => e.hasAttribute(k))) told.push("a chart without a value: " + e.id);
  }
  return told;
}
