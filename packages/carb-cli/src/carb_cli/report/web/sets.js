// The list of sets: failures first, or any others; by whose, how, culture, domain and words. A link
// shows one set.
const PAGE = 20;
const ANY = "any",
  EVERY = "",
  SETS = "sets";

const setList = (data) => {
  const list = $("#set-list"),
    more = $("#fail-more");
  const models = data.scorers.flatMap((one, index) => (one.model ? [index] : []));
  const indexOf = new Map(data.scorers.map((one, index) => [one.name, index]));
  const named = data.scorers.map((one) => [one.name, one.label]);
  const main = data.sets.filter((item) => !item.mirror);
  const values = (keys) => {
    const found = new Set(main.flatMap((item) => keys.map((key) => item[key])));
    return [...found].sort().map((name) => [name, name]);
  };
  fill($("#fail-scorer"), [
    [EVERY, "every model gets it wrong"],
    [ANY, "any scorer gets it wrong"],
    [SETS, "all sets, right or wrong"],
    ...named.map(([name, label]) => [name, `${label} gets it wrong`]),
  ]);
  fill(
    $("#fail-rival"),
    named.map(([name, label]) => [name, `${label} gets it right`]),
  );
  fill($("#fail-culture"), values(["culture", "root"]));
  fill($("#fail-domain"), values(["domain"]));
  $("#fail-sets").parentElement.hidden = !data.sets.some((item) => item.mirror);
  for (const name of ["rival", "culture", "domain", "sets"]) bind($(`#fail-${name}`), name);
  bind($("#fail-scorer"), "whose");
  bind($("#fail-outcome"), "how");
  const search = $("#fail-search");
  watchers.push(() => {
    if (document.activeElement !== search) search.value = chosen.find;
  });
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => choose({ find: search.value.trim() }, true), 150);
  });

  const wrong = (item) => [...item.outcomes].filter((one) => one !== "w").length;
  let found = [],
    shown = 0,
    last = null;

  const open = (details, item) => {
    if (details.children.length > 1) return;
    const body = setBody(data, item);
    body.append(make("p", { class: "tag" }, make("a", { href: linkTo(item) }, "Link to this set")));
    details.append(body);
  };
  const next = () => {
    for (const item of found.slice(shown, shown + PAGE)) {
      const question = item.prompt.at(-1)[0].replace(/\s+/g, " ").trim();
      const title = make(
        "bdi",
        {},
        ...visible(question.slice(0, 240) + (question.length > 240 ? "…" : "")),
      );
      const tags = [
        item.culture,
        item.domain,
        `wrong for ${wrong(item)} of ${data.scorers.length}`,
      ];
      const tag = make(
        "span",
        { class: "tag" },
        ["", ...tags, ...(item.mirror ? ["mirror"] : [])].join(" · "),
      );
      const details = make("details", {}, make("summary", {}, title, tag));
      details.addEventListener("toggle", () => {
        if (details.open) open(details, item);
      });
      list.append(details);
    }
    shown = Math.min(shown + PAGE, found.length);
    more.hidden = shown >= found.length;
    more.textContent = `Show more (${count(found.length - shown)} left)`;
  };

  const select = () => {
    const { whose, rival, how, culture, domain, sets, find, set } = chosen;
    const now = JSON.stringify(chosen);
    if (now === last) return;
    last = now;
    const words = find.toLowerCase();
    const fits = (one) => one !== undefined && one !== "w" && (how === "" || one === how);
    const failed = (item) => {
      if (whose === SETS) return true;
      if (whose === EVERY) return models.every((index) => fits(item.outcomes[index]));
      if (whose === ANY) return [...item.outcomes].some(fits);
      return fits(item.outcomes[indexOf.get(whose)]);
    };
    const says = (item) => {
      const texts = [...item.prompt, ...item.answers].map(([text]) => text);
      return [item.id, ...texts].some((text) => text.toLowerCase().includes(words));
    };
    found = data.sets.filter((item) =>
      set !== ""
        ? item.id === set
        : failed(item) &&
          (rival === "" || item.outcomes[indexOf.get(rival)] === "w") &&
          (culture === "" || item.culture === culture || item.root === culture) &&
          (domain === "" || item.domain === domain) &&
          (sets === "" || item.mirror === (sets === "mirrors")) &&
          says(item),
    );
    found.sort((a, b) => wrong(b) - wrong(a));
    list.replaceChildren();
    shown = 0;
    next();
    const status = [`${count(found.length)} of ${plural(data.sets.length, "set")}.`];
    if (set !== "") {
      status.push(
        " The id is ",
        ...visible(set),
        ". ",
        make("a", { href: "#whose=sets" }, "All sets"),
      );
      for (const one of list.children) one.open = true;
    }
    $("#fail-status").replaceChildren(...status);
  };
  watchers.push(select);
  more.addEventListener("click", next);
  $("#fail-controls").hidden = false;
};

// Unpacks the data and starts the parts.
const unfold = () => {
  const named = location.hash.includes("=")
    ? null
    : document.getElementById(location.hash.slice(1));
  if (named?.tagName === "DETAILS") named.open = true;
};
addEventListener("hashchange", unfold);
unfold();
const start = async () => {
  const data = await unpack();
  setList(data);
  startHeat(data);
  showChoices();
  readAddress();
  addEventListener("hashchange", readAddress);
  document.documentElement.dataset.ready = "yes";
};
start().catch((error) => {
  $("#fail-status").textContent =
    `The list of sets is off: ${error.message}. All tables are complete.`;
  document.documentElement.dataset.ready = "no";
});
