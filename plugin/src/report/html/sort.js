"use strict";
for (const button of document.querySelectorAll("th button")) {
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
