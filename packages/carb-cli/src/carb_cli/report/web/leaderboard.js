// The table of the first screen follows the choice of culture, domain and kind; it offers only what has main sets.
const leaderboard = (data) => {
  const table = $("#board");
  const rows = new Map($$("tbody tr", table).map((row) => [row.dataset.scorer, row]));
  const keys = Object.keys(data.cells).map((key) => key.split("/"));
  const only = (at) => keys.filter((key) => key[at] && !key[1 - at]).map((key) => key[at]).sort();
  const kinds = [...new Set(data.scorers.map((scorer) => scorer.kind))].sort();
  for (const [name, values] of [["culture", only(0)], ["domain", only(1)], ["kind", kinds]]) {
    const select = $(`#lead-${name}`);
    fill(select, values.map((value) => [value, value]));
    bind(select, name);
  }
  const show = () => {
    const { culture, domain, kind } = chosen;
    const cells = data.cells[`${culture}/${domain}`];
    for (const option of $("#lead-culture").options) option.disabled = !(`${option.value}/${domain}` in data.cells);
    for (const option of $("#lead-domain").options) option.disabled = !(`${culture}/${option.value}` in data.cells);
    data.scorers.forEach((scorer, index) => {
      const row = rows.get(String(index));
      const [accuracy, low, high, n, ties, errors] = cells?.[index] ?? [null, null, null, 0, null, null];
      row.hidden = kind !== "" && scorer.kind !== kind;
      const put = (name, text, value, ...more) => {
        const cell = $(`[data-c=${name}]`, row);
        cell.replaceChildren(text, ...more);
        cell.dataset.v = value ?? "";
      };
      put("accuracy", percent(accuracy), accuracy, ...(low === null ? [] : [make("small", {}, `${percent(low)} – ${percent(high)}`)]));
      put("n", count(n), n);
      put("ties", ties === null ? "–" : count(ties), ties);
      put("errors", errors === null ? "–" : count(errors), errors);
    });
    const all = culture === "" && domain === "";
    $$(".whole", table).forEach((cell) => { cell.textContent = all ? cell.dataset.all : ""; });
    const sorted = $("th[aria-sort]", table);
    if (sorted) window.carbSort(table, sorted.cellIndex, sorted.getAttribute("aria-sort") === "descending");
    else window.carbSort(table, all ? 0 : $("[data-c=accuracy]", table).cellIndex, !all);
    const shown = cells ? `On ${plural(Math.max(...cells.map((cell) => cell[3])), "set")}` : "No main set has this culture and domain; mirrored families may";
    $("#lead-status").textContent = `${shown}${all ? "" : "; what is of all sets is hidden here"}.`;
  };
  watchers.push(show);
  $("#lead-controls").hidden = false;
};
