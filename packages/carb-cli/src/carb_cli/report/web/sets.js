// The list of sets: failures first, or any others; by whose, how, culture, domain and words.
const PAGE = 20;
const ANY = "any", EVERY = "", SETS = "sets";

const setList = (data, read) => {
  const list = $("#set-list"), more = $("#fail-more");
  const models = data.scorers.map((one, index) => [one.kind, index]).filter(([kind]) => kind !== "baseline" && kind !== "open-book control").map(([, index]) => index);
  const group = models.length ? models : data.scorers.map((_, index) => index);
  const indexOf = new Map(data.scorers.map((one, index) => [one.name, index]));
  const named = data.scorers.map((one) => [one.name, one.label]);
  fill($("#fail-scorer"), [[EVERY, models.length ? "every model gets it wrong" : "every scorer gets it wrong"], [ANY, "any scorer gets it wrong"],
    [SETS, "all sets, right or wrong"], ...named.map(([name, label]) => [name, `${label} gets it wrong`])]);
  fill($("#fail-rival"), named.map(([name, label]) => [name, `${label} gets it right`]));
  fill($("#fail-culture"), data.cultures.map((name) => [name, name]));
  fill($("#fail-domain"), data.domains.map((name) => [name, name]));
  $("#fail-sets").parentElement.hidden = data.mirrors === "";
  for (const [id, name] of [["scorer", "whose"], ["rival", "rival"], ["outcome", "how"], ["culture", "culture"], ["domain", "domain"], ["sets", "sets"]]) bind($(`#fail-${id}`), name);
  const search = $("#fail-search");
  watchers.push(() => { if (document.activeElement !== search) search.value = chosen.find; });
  let waiting;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => choose({ find: search.value.trim() }, true), 150); });

  const wrong = data.ids.map((_, item) => data.outcomes.reduce((sum, letters) => sum + (letters[item] !== "w"), 0));
  let found = [], shown = 0, last = null;

  const open = (details) => {
    if (details.children.length > 1) return;
    const item = Number(details.dataset.item);
    const body = setBody(data, read, item);
    body.append(make("p", { class: "tag" }, make("a", { href: linkTo(data, item) }, "Link to this set")));
    details.append(body);
  };
  const next = () => {
    for (const item of found.slice(shown, shown + PAGE)) {
      const question = read.question(item);
      const title = make("bdi", {}, ...visible(question === null ? data.ids[item] : question.slice(0, 240) + (question.length > 240 ? "…" : "")));
      const tags = [data.cultures[data.culture[item]], data.domains[data.domain[item]], `wrong for ${wrong[item]} of ${data.scorers.length}`];
      if (data.mirrors[item] === "1") tags.push("mirror");
      if (question === null) tags.push("without texts");
      const details = make("details", { "data-item": item }, make("summary", {}, title, make("span", { class: "tag" }, ` · ${tags.join(" · ")}`)));
      details.addEventListener("toggle", () => { if (details.open) open(details); });
      list.append(details);
    }
    shown = Math.min(shown + PAGE, found.length);
    more.hidden = shown >= found.length;
    more.textContent = `Show more (${count(found.length - shown)} left)`;
  };

  const select = () => {
    const { whose, rival, how, culture, domain, sets, find } = chosen;
    const now = JSON.stringify([whose, rival, how, culture, domain, sets, find]);
    if (now === last) return;
    last = now;
    const words = find.toLowerCase();
    const fits = (letters, item) => letters[item] !== "w" && (how === "" || letters[item] === how);
    const failed = (item) => {
      if (whose === SETS) return true;
      if (whose === EVERY) return group.every((index) => fits(data.outcomes[index], item));
      if (whose === ANY) return data.outcomes.some((letters) => fits(letters, item));
      return indexOf.has(whose) && fits(data.outcomes[indexOf.get(whose)], item);
    };
    const says = (item) => {
      if (words === "" || data.ids[item].toLowerCase().includes(words)) return true;
      const at = read.place.get(item);
      return at !== undefined && [...data.texts.prompt[at], ...data.texts.answers[at]].some(([text]) => text.toLowerCase().includes(words));
    };
    const one = data.cultures.indexOf(culture), part = data.domains.indexOf(domain);
    found = data.ids.map((_, item) => item).filter((item) => failed(item)
      && (rival === "" || (indexOf.has(rival) && data.outcomes[indexOf.get(rival)][item] === "w"))
      && (culture === "" || data.culture[item] === one || data.root[item] === one)
      && (domain === "" || data.domain[item] === part)
      && (sets === "" || data.mirrors === "" || (data.mirrors[item] === "1") === (sets === "mirrors"))
      && says(item));
    found.sort((a, b) => read.place.has(b) - read.place.has(a) || wrong[b] - wrong[a] || a - b);
    list.replaceChildren();
    shown = 0;
    next();
    const without = found.filter((item) => !read.place.has(item)).length;
    $("#fail-status").textContent = `${count(found.length)} of ${plural(data.ids.length, "set")}${without ? `, ${count(without)} of them without texts` : ""}.`;
  };
  watchers.push(select);
  more.addEventListener("click", next);
  $("#fail-controls").hidden = false;
  // On paper nothing can be opened: what is listed, and every table, is printed whole.
  addEventListener("beforeprint", () => $$("details:not([open])").forEach((details) => {
    if (list.contains(details)) open(details);
    details.open = true;
    details.dataset.printed = "";
  }));
  addEventListener("afterprint", () => $$("details[data-printed]").forEach((details) => {
    details.open = false;
    delete details.dataset.printed;
  }));
  return () => found;
};
