"use strict";

// Units in their smallest one, so that cells of one column can be compared: bytes, seconds, and ones.
const UNITS = {
  "": 1, "%": 1, "×": 1, "x": 1,
  "B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30, "kB": 1e3, "MB": 1e6, "GB": 1e9,
  "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600,
  "tokens/s": 1,
};
const NUMBER = "[<>≤≥~+]?\\s*([-−]?[0-9][0-9,]*(?:\\.[0-9]+)?(?:e[-+]?[0-9]+)?)";
const AMOUNT = new RegExp(`^${NUMBER}\\s*([^0-9\\s]*)`);
// What may stand behind a number without changing its place: a deviation, an end, a remark.
const REST = /^\s*(?:(±|→|–|\().*)?$/;

/** The number that a cell's text begins with, in the smallest unit; null if the text is not a number. */
function amount(text) {
  let rest = text.trim();
  let sum = null;
  // "2 min 05 s" has two numbers; "12.0 ± 0.3 MiB" has its unit at the end.
  const deviation = rest.match(/^(.*?)\s*±\s*[0-9.,]+\s*(\S*)$/);
  if (deviation) rest = `${deviation[1]} ${deviation[2]}`.trim();
  while (rest) {
    const found = rest.match(AMOUNT);
    if (!found) return sum !== null && REST.test(rest) ? sum : null;
    const isMark = /^[±→–(]/.test(found[2]);
    const unit = isMark ? "" : found[2].replace(/[,;]$/, "");
    if (!(unit in UNITS)) return null;
    const value = Number(found[1].replaceAll(",", "").replace("−", "-"));
    sum = (sum ?? 0) + value * UNITS[unit];
    rest = rest.slice(found[0].length - (isMark ? found[2].length : 0)).trim();
    if (REST.test(rest)) return sum;
    if (!["min", "h"].includes(unit)) return null;
  }
  return sum;
}

const isEmpty = (text) => text === "" || text === "—";

/** A comparison of two rows by a column. Empty cells are last in both directions. */
function comparison(rows, column, direction) {
  const texts = new Map(rows.map((row) => [row, row.cells[column]?.textContent.trim() ?? ""]));
  const filled = [...texts.values()].filter((text) => !isEmpty(text));
  const isNumeric = filled.every((text) => amount(text) !== null);
  return (a, b) => {
    const [left, right] = [texts.get(a), texts.get(b)];
    if (isEmpty(left) || isEmpty(right)) return isEmpty(left) - isEmpty(right);
    const order = isNumeric
      ? amount(left) - amount(right)
      : left.localeCompare(right, "en", { numeric: true });
    return direction * order;
  };
}

/** A click on a heading sorts by it: rising, falling, and then as the report has it. */
function makeSortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.title = "Sort by this column";
    heading.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[heading.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      if (order) heading.setAttribute("aria-sort", order);
      const direction = order === "descending" ? -1 : 1;
      body.append(...(order ? original.toSorted(comparison(original, column, direction)) : original));
    });
  });
}

/** A box above the table hides the rows that lack one of its words. */
function makeFilterable(table) {
  const rows = [...table.tBodies[0].rows];
  const box = document.createElement("div");
  box.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Filter rows";
  input.setAttribute("aria-label", "Filter the rows of this table");
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  box.append(input, count);
  table.closest(".table").before(box);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      return !row.hidden;
    });
    count.textContent = words.length ? `${shown.length} of ${rows.length} rows` : "";
  });
}

const says = document.getElementById("says");
let talking = null;

/** Shows what a place of a chart says, above it and inside the window. */
function show(place) {
  talking = place;
  says.textContent = place.dataset.says;
  says.hidden = false;
  const at = place.getBoundingClientRect();
  const { width, height } = says.getBoundingClientRect();
  const left = Math.min(Math.max(at.left + at.width / 2 - width / 2, 8), innerWidth - width - 8);
  const above = Math.max(at.top, 0) - height - 8;
  says.style.left = `${Math.max(left, 8)}px`;
  says.style.top = `${above > 8 ? above : Math.min(at.bottom + 8, innerHeight - height - 8)}px`;
}

function hide() {
  talking = null;
  says.hidden = true;
}

/** Places say their values on hover, touch and focus. The tab key reaches a chart, the arrows its places. */
function makeTalk(svg) {
  const title = svg.querySelector(":scope > title");
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", title?.textContent ?? "chart");
  // The browser's own tooltips would stand over ours.
  title?.remove();
  const places = [...svg.querySelectorAll(".value")];
  places.forEach((place, at) => {
    const text = place.querySelector("title");
    place.dataset.says = text.textContent;
    text.remove();
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", place.dataset.says);
    place.setAttribute("tabindex", at === 0 ? "0" : "-1");
    place.addEventListener("pointerenter", () => show(place));
    place.addEventListener("pointerleave", hide);
    place.addEventListener("focus", () => show(place));
    place.addEventListener("blur", hide);
    place.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = { Home: places[0], End: places.at(-1) }[event.key] ?? (step && places[at + step]);
      if (event.key === "Escape") hide();
      if (!next) return;
      event.preventDefault();
      place.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}

const FEWEST_TO_SORT = 2;
const FEWEST_TO_FILTER = 4;
for (const table of document.querySelectorAll(".table > table")) {
  const rows = table.tBodies[0]?.rows.length ?? 0;
  if (rows >= FEWEST_TO_SORT) makeSortable(table);
  if (rows >= FEWEST_TO_FILTER) makeFilterable(table);
}
document.querySelectorAll(".chart svg").forEach(makeTalk);
// A key may scroll to a place.
addEventListener("scroll", () => talking && show(talking), { capture: true, passive: true });
