"use strict";
// Search, filter and sort the table; what is chosen stands in the address, so that it can be sent to a colleague.
const table = document.getElementById("class");
const body = table.tBodies[0];
const headings = [...table.tHead.rows[0].cells];
const rows = [...body.rows].map((row) => ({
  row,
  text: `${row.cells[0].textContent} ${row.lastElementChild.textContent}`.toLowerCase(),
  marks: row.dataset.m.split(" "),
  failed: row.dataset.f.split(" "),
  cells: [...row.cells].map((cell) => cell.textContent.trim()),
}));
const fields = { q: document.getElementById("q"), show: document.getElementById("show"), check: document.getElementById("check") };
const names = [...fields.check.options].slice(1).map((option) => option.value);
const byText = new Intl.Collator(undefined, { numeric: true }).compare;
let order = { sort: "name", dir: "ascending" };

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const [name, field] of Object.entries(fields)) field.value = given.get(name) || "";
  order = { sort: given.get("sort") || "name", dir: given.get("dir") === "descending" ? "descending" : "ascending" };
  sort();
  filter();
}

function write() {
  const chosen = new URLSearchParams();
  for (const [name, field] of Object.entries(fields)) if (field.value) chosen.set(name, field.value);
  if (order.sort !== "name" || order.dir !== "ascending") {
    chosen.set("sort", order.sort);
    chosen.set("dir", order.dir);
  }
  history.replaceState(null, "", "#" + chosen);
}

function filter() {
  const words = fields.q.value.toLowerCase().split(/\s+/).filter(Boolean);
  const number = String(names.indexOf(fields.check.value));
  let shown = 0;
  for (const entry of rows) {
    const fits = words.every((word) => entry.text.includes(word))
      && (!fields.show.value || entry.marks.includes(fields.show.value))
      && (!fields.check.value || entry.failed.includes(number));
    entry.row.hidden = !fits;
    shown += fits;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length} shown`;
}

function sort() {
  const column = Math.max(0, headings.findIndex((heading) => heading.dataset.key === order.sort));
  const sign = order.dir === "descending" ? -1 : 1;
  // What has no number comes last either way.
  const value = (entry) => (entry.cells[column] === "–" ? sign * Infinity : Number(entry.cells[column]));
  rows.sort((a, b) => sign * (column === 0 ? byText(a.cells[0], b.cells[0]) : compare(value(a), value(b))));
  body.append(...rows.map((entry) => entry.row));
  headings.forEach((heading, index) => {
    if (index === column) heading.setAttribute("aria-sort", order.dir);
    else heading.removeAttribute("aria-sort");
  });
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

for (const field of Object.values(fields)) field.addEventListener("input", () => { filter(); write(); });
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
for (const heading of headings.filter((found) => found.dataset.key)) {
  heading.querySelector("button").addEventListener("click", () => {
    const key = heading.dataset.key;
    // Points are looked at from the top first, names from A.
    const first = key === "name" ? "ascending" : "descending";
    const turned = order.dir === "ascending" ? "descending" : "ascending";
    order = { sort: key, dir: order.sort === key ? turned : first };
    sort();
    write();
  });
}
addEventListener("hashchange", read);
read();
