// The leaderboard follows the choice of culture, domain and kind.
const leaderboard = (data) => {
  const table = $("#leaderboard");
  const rows = new Map($$("tbody tr", table).map((row) => [row.dataset.scorer, row]));
  const kinds = [...new Set(data.scorers.map((scorer) => scorer.kind))].sort();
  for (const [name, values] of [["culture", data.cultures], ["domain", data.domains], ["kind", kinds]]) {
    const select = $(`#lead-${name}`);
    fill(select, values.map((value) => [value, value]));
    bind(select, name);
  }
  const show = () => {
    const { culture, domain, kind } = chosen;
    const cells = data.cells[`${culture}/${domain}`] ?? [];
    const [floor, least, most, predictor] = data.floors[`${culture}/${domain}`] ?? [null, null, null, ""];
    const legend = $("#lead-floor");
    if (legend) legend.textContent = floor === null ? "not computed for this choice" : `${percent(floor)}% [${percent(least)} – ${percent(most)}] (${predictor})`;
    const [human, from, to] = data.humans[`${culture}/${domain}`] ?? [null, null, null];
    const people = $("#human-line");
    if (people) people.textContent = human === null ? "no reviews for this choice" : `${percent(human)}% [${percent(from)} – ${percent(to)}]`;
    let shown = 0, sets = 0;
    data.scorers.forEach((scorer, index) => {
      const row = rows.get(String(index));
      const [accuracy, low, high, n, ties, errors] = cells[index] ?? [null, null, null, 0, null, null];
      row.hidden = kind !== "" && scorer.kind !== kind;
      shown += !row.hidden;
      sets = Math.max(sets, n);
      const put = (name, text, value) => {
        const cell = $(`[data-c=${name}]`, row);
        cell.textContent = text;
        cell.dataset.v = value ?? "";
      };
      put("accuracy", percent(accuracy), accuracy);
      put("interval", low === null ? "" : `${percent(low)} – ${percent(high)}`, low);
      put("n", count(n), n);
      put("ties", ties === null ? "–" : count(ties), ties);
      put("errors", errors === null ? "–" : count(errors), errors);
      const bar = $("svg.bar", row);
      bar.setAttribute("aria-label", accuracy === null ? "no sets" : `${percent(accuracy)} percent`);
      const place = (part, from, to) => {
        part.setAttribute("x", 100 * (from ?? 0));
        part.setAttribute("width", accuracy === null ? 0 : Math.max(0, 100 * (to - from)));
      };
      place($(".interval", bar), low, high);
      place($(".value", bar), accuracy - 0.004, accuracy + 0.004);
      for (const [name, at] of [[".floor", floor], [".human", human]]) {
        const line = $(name, bar);
        if (!line) continue;
        line.classList.toggle("unknown", at === null);
        line.setAttribute("x1", 100 * (at ?? 0));
        line.setAttribute("x2", 100 * (at ?? 0));
      }
    });
    const all = culture === "" && domain === "";
    $$(".whole", table).forEach((cell) => { cell.textContent = all ? cell.dataset.all : ""; });
    const references = $("tbody.reference", table);
    if (references) references.hidden = !all || kind !== ""; // they are of all sets
    const sorted = $("th[aria-sort]", table);
    if (!sorted) window.carbSort(table, $("[data-c=accuracy]", table).cellIndex, true);
    else window.carbSort(table, sorted.cellIndex, sorted.getAttribute("aria-sort") === "descending");
    const of = (names, value, at) => value === "" || names[at] === value;
    const main = data.ids.some((_, i) => data.mirrors[i] !== "1" && of(data.domains, domain, data.domain[i]) && of(data.cultures, culture, data.culture[i]));
    const none = main ? "The numbers of a variety are of all domains; choose all to see them" : "No main set has this culture and domain; mirrored families may";
    const what = sets ? `${plural(shown, "scorer")} on ${plural(sets, "set")}` : none;
    $("#lead-status").textContent = `${what}${all ? "" : "; rank, macro and shared are of all sets and hidden here"}.`;
  };
  watchers.push(show);
  $("#lead-controls").hidden = false;
};

// The consistency of one scorer, language by language.
const consistency = (data) => {
  const select = $("#consistency-scorer"), table = $("#consistency");
  if (!select) return;
  const having = data.scorers.map((scorer, index) => [String(index), scorer.label]).filter(([index]) => data.consistency[index].length);
  fill(select, having);
  const show = () => {
    const known = new Map(data.consistency[select.value].map(([a, b, value, n]) => [`${a}\n${b}`, [value, n]]));
    const languages = [...new Set([...known.keys()].flatMap((key) => key.split("\n")))].sort();
    table.tHead.rows[0].replaceChildren(make("th", { scope: "col", class: "text" }, "language"), ...languages.map((name) => make("th", { scope: "col" }, name)));
    table.tBodies[0].replaceChildren(...languages.map((a) => make("tr", {}, make("th", { scope: "row" }, a), ...languages.map((b) => {
      const [value, n] = a === b ? [1, 0] : known.get([a, b].sort().join("\n")) ?? [null, 0];
      const cell = make("td", { class: value === null ? "h" : `h u${Math.round(10 * value)}` }, value === null ? "" : value.toFixed(2));
      if (n) cell.append(make("small", {}, `n ${count(n)}`));
      return cell;
    }))));
  };
  select.addEventListener("change", show);
  $("#consistency-controls").hidden = false;
  if (having.length) show();
};
