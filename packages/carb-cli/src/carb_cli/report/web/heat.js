// The heat map of the first screen: another family, or another scorer, in the same drawing.
const rightOf = (item) => item.answers[0][0];

// The families of the page that are complete and of the size that is drawn.
const completeFamilies = (data, size) => {
  const families = new Map();
  for (const item of data.sets)
    if (item.family) families.set(item.family, [...(families.get(item.family) ?? []), item]);
  const complete = [...families].filter(([, sets]) => {
    const right = new Set(sets.map(rightOf));
    const same = (item) => item.answers.every(([text]) => right.has(text));
    return right.size === size && sets.length === size && sets.every(same);
  });
  for (const [, sets] of complete) sets.sort((a, b) => (a.id < b.id ? -1 : 1));
  return new Map(complete.sort(([a], [b]) => a.localeCompare(b)));
};

// Under how many other places the answer `text` scores lower than under `item`, ties half.
const beatenBy = (sets, item, text, scorer) => {
  const scoreOf = (one) => one.scores[scorer][one.answers.findIndex(([known]) => known === text)];
  const others = sets.filter((one) => one !== item).map(scoreOf);
  const value = scoreOf(item);
  if (value === null || others.includes(null)) return null;
  return others.reduce((sum, other) => sum + (value > other ? 1 : value === other ? 0.5 : 0), 0);
};

const drawHeat = (data, sets, scorer) => {
  const figure = $("#heat");
  const size = sets.length;
  const [places, cells, numbers] = [".row", "rect", ".beaten"].map((one) => [
    ...figure.querySelectorAll(one),
  ]);
  const answers = figure.querySelectorAll(".answers bdi");
  let won = 0;
  sets.forEach((item, row) => {
    const name = item.place.length > 22 ? `${item.place.slice(0, 21)}…` : item.place;
    places[row].replaceChildren(...visible(name));
    answers[row].replaceChildren(...visible(rightOf(item)));
    sets.forEach((other, column) => {
      const beaten = beatenBy(sets, item, rightOf(other), scorer);
      if (row === column) won += beaten ?? (size - 1) / 2;
      cells[row * size + column].setAttribute("fill-opacity", (0.7 * (beaten ?? 0)) / (size - 1));
      numbers[row * size + column].textContent = beaten ?? "–";
    });
  });
  $(".question", figure).replaceChildren(...visible(sets[0].prompt.at(-1)[0]));
  const label = data.scorers[scorer].label;
  $("#heat-won").textContent = `${label} wins ${won} of ${size * (size - 1)} comparisons.`;
};

// The styles that the drawing has on the page, written into the file.
const saveHeat = () => {
  const drawn = $("#heat svg");
  const copy = drawn.cloneNode(true);
  const kept = ["fill", "stroke", "stroke-width", "font-size", "font-family", "text-anchor"];
  const pairs = [...copy.querySelectorAll("*")].map((one, n) => [
    one,
    getComputedStyle(drawn.querySelectorAll("*")[n]),
  ]);
  for (const [one, style] of pairs)
    for (const name of kept) one.setAttribute(name, style.getPropertyValue(name));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const text = new XMLSerializer().serializeToString(copy);
  const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  make("a", { href: address, download: "family.svg" }).click();
};

// A group of the picker for each language and domain.
const offerFamilies = (select, families) => {
  const groups = new Map();
  for (const [name, [first]] of families) {
    const label = `${first.language} · ${first.domain}`;
    if (!groups.has(label)) groups.set(label, make("optgroup", { label }));
    const prefix = `${first.language}-${first.domain}-`;
    const short = name.startsWith(prefix) ? name.slice(prefix.length) : name;
    fill(groups.get(label), [[name, short]]);
  }
  select.append(...[...groups].sort(([a], [b]) => a.localeCompare(b)).map(([, group]) => group));
};

const startHeat = (data) => {
  const figure = $("#heat");
  if (!figure) return;
  const size = figure.querySelectorAll(".row").length;
  const families = completeFamilies(data, size);
  if (!families.size) return;
  const [family, scorer] = [$("#heat-family"), $("#heat-scorer")];
  offerFamilies(family, families);
  fill(
    scorer,
    data.scorers.map((one, index) => [String(index), one.label]),
  );
  if (families.has(figure.dataset.family)) family.value = figure.dataset.family;
  scorer.value = data.scorers.findIndex((one) => one.model);
  const draw = () => drawHeat(data, families.get(family.value), Number(scorer.value));
  family.addEventListener("change", draw);
  scorer.addEventListener("change", draw);
  $("#heat-save").addEventListener("click", saveHeat);
  $("#heat-controls").hidden = $("#heat-save").hidden = false;
};
