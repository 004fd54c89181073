"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
// Tables are sorted by a click on a heading.
for (const button of all("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const column = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const rows = Array.from(body.rows, (row) => [key(row), row]);
    rows.sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }) * (up ? 1 : -1));
    body.append(...rows.map(([, row]) => row));
  });
}
// Folded lists are printed whole.
addEventListener("beforeprint", () => all("details").forEach((list) => (list.open = true)));
const form = document.getElementById("filter");
if (form) {
  const articles = all("article");
  const field = (name, ...children) => {
    const element = document.createElement(name);
    element.append(...children);
    return element;
  };
  const search = field("input");
  search.type = "search";
  search.placeholder = "Search findings and nodes";
  search.setAttribute("aria-label", search.placeholder);
  const rules = field("select", new Option("All rules", ""));
  rules.setAttribute("aria-label", "Rule");
  for (const id of new Set(articles.map((article) => article.dataset.rule))) rules.add(new Option(id));
  const fold = field("input");
  fold.type = "checkbox";
  const boxes = [...new Set(articles.map((article) => article.dataset.severity))].map((severity) => {
    const box = field("input");
    box.type = "checkbox";
    box.value = severity;
    box.checked = true;
    return box;
  });
  const count = field("output");
  form.append(search, ...boxes.map((box) => field("label", box, " " + box.value)), rules, field("label", fold, " titles only"), count);
  form.hidden = false;
  const filter = () => {
    const text = search.value.trim().toLowerCase();
    const has = (element) => !text || element.textContent.toLowerCase().includes(text);
    const wanted = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let shown = 0;
    for (const article of articles) {
      const whole = has(article.querySelector("h3"));
      let any = false;
      for (const group of all(":scope > div", article)) {
        const told = whole || has(group.querySelector("p"));
        let objects = 0;
        for (const object of all("li", group)) {
          object.hidden = !(told || has(object));
          objects += !object.hidden;
        }
        group.hidden = !objects;
        const list = group.querySelector("details");
        if (list && text && !told) list.open = objects > 0;
        any ||= objects > 0;
      }
      const rule = !rules.value || rules.value === article.dataset.rule;
      article.hidden = !(any && rule && wanted.has(article.dataset.severity));
      article.classList.toggle("folded", fold.checked);
      shown += !article.hidden;
    }
    for (const row of all("#nodes tbody tr")) row.hidden = !has(row);
    count.textContent = `${shown} of ${articles.length} shown`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
}
