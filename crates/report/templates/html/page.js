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

const COMPARISONS = {
  "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "!=": (a, b) => a !== b,
  "<": (a, b) => a < b, ">": (a, b) => a > b, "=": (a, b) => a === b,
};
const CONDITION = /^(.+?)\s*(<=|>=|!=|<|>|=)\s*(.+)$/;

/** A test of rows for a part of a query: `peak < 500` compares the first column whose heading begins so; others are words. */
function condition(part, headings) {
  const found = part.match(CONDITION);
  const column = found ? headings.findIndex((heading) => heading.startsWith(found[1])) : -1;
  if (column < 0) {
    const words = part.split(/\s+/).filter(Boolean);
    return (row) => words.every((word) => row.textContent.toLowerCase().includes(word));
  }
  const [, , sign, wanted] = found;
  const number = amount(wanted);
  return (row) => {
    const text = row.cells[column]?.textContent.trim().toLowerCase() ?? "";
    const value = amount(text);
    const isNumeric = number !== null && value !== null;
    return isNumeric ? COMPARISONS[sign](value, number) : COMPARISONS[sign](text, wanted);
  };
}

/** The rows that are shown, as CSV. */
function csv(table) {
  const field = (cell) => {
    const text = cell.textContent.trim();
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const shown = [...table.tHead.rows, ...table.tBodies[0].rows].filter((row) => !row.hidden);
  return shown.map((row) => [...row.cells].map(field).join(",")).join("\r\n") + "\r\n";
}

/** A button that saves the rows that are shown. */
function saveButton(table) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "CSV";
  button.title = "Save the rows that are shown";
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
    link.download = `${document.title}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  return button;
}

/** A box above the table hides the rows that lack one of its words, or for which one of its conditions does not hold. */
function makeFilterable(table) {
  const rows = [...table.tBodies[0].rows];
  const headings = [...table.tHead.rows[0].cells].map((heading) => heading.textContent.trim().toLowerCase());
  const box = document.createElement("div");
  box.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Filter rows: words, or peak < 500";
  input.setAttribute("aria-label", "Filter the rows of this table");
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  box.append(input, saveButton(table), count);
  table.closest(".table").before(box);
  input.addEventListener("input", () => {
    const parts = input.value.toLowerCase().split(/\s+and\s+/).map((part) => part.trim()).filter(Boolean);
    const conditions = parts.map((part) => condition(part, headings));
    const shown = rows.filter((row) => {
      row.hidden = !conditions.every((holds) => holds(row));
      return !row.hidden;
    });
    count.textContent = parts.length ? `${shown.length} of ${rows.length} rows` : "";
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
