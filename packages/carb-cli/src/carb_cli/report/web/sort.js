// Sortable tables: a cell's data-v is its number; without one, its text.
const sortBy = (table, index, descending) => {
  const value = (row) => {
    const cell = row.cells[index];
    const text = cell.dataset.v ?? cell.textContent.trim();
    const number = text === "" || text === "–" ? NaN : Number(text);
    return Number.isNaN(number) && cell.dataset.v === undefined ? text : number;
  };
  const body = table.tBodies[0];
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (typeof x === "number" && typeof y === "number") {
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // without a value: last
      return descending ? y - x : x - y;
    }
    return (descending ? -1 : 1) * String(x).localeCompare(String(y));
  };
  body.append(...[...body.rows].sort(compare));
};
for (const table of $$("table.sortable")) {
  $$("thead tr:last-child th", table).forEach((head, index) => {
    const button = $("button", head);
    if (!button) return;
    button.addEventListener("click", () => {
      const text = head.classList.contains("text");
      const before = head.getAttribute("aria-sort");
      const descending = before === null ? !text : before === "ascending";
      $$("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, index, descending);
    });
  });
}
