// The leaderboard site: rows by a part of their text, and columns to pick. What is chosen stands in the address.
(() => {
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  const given = new URLSearchParams(location.hash.slice(1));
  const hidden = new Set((given.get("hide") ?? "").split("|").filter(Boolean));
  const find = document.querySelector("#find");
  const show = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const table of $$("table.board")) {
      const heads = [...table.tHead.rows[0].cells];
      heads.forEach((head, index) => {
        for (const row of table.rows) if (row.cells.length > 1) row.cells[index].hidden = hidden.has(head.textContent.trim());
      });
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => row.cells.length > 1);
        for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
        body.hidden = rows.every((row) => row.hidden);
      }
    }
    const choices = new URLSearchParams();
    if (wanted) choices.set("find", find.value.trim());
    if (hidden.size) choices.set("hide", [...hidden].join("|"));
    history.replaceState(null, "", choices.size ? `#${choices}` : location.pathname + location.search);
  };
  if (!find) return;
  find.value = given.get("find") ?? "";
  find.addEventListener("input", show);
  for (const box of $$("input[data-column]")) {
    box.checked = !hidden.has(box.dataset.column);
    box.addEventListener("change", () => {
      hidden[box.checked ? "delete" : "add"](box.dataset.column);
      show();
    });
  }
  document.querySelector("#choices").hidden = false;
  show();
})();
