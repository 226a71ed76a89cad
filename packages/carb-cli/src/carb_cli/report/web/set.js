// One set: its answers, and what every scorer gave each of them and wrote.
const WORDS = { w: "won", l: "lost", t: "tied", e: "error" };
const letter = (index) => String.fromCharCode(65 + index);

// Reads of the data what the page of a set needs.
const reader = (data) => {
  const place = new Map(data.texts.at.map((item, index) => [item, index]));
  const number = new Map(data.ids.map((id, index) => [id, index]));
  const from = [0];
  for (const size of data.sizes) from.push(from.at(-1) + size);
  const families = new Map();
  data.family.forEach((family, item) => {
    if (family >= 0) families.set(family, [...(families.get(family) ?? []), item]);
  });
  const steps = data.digits.length ** 2 - 1;
  const score = (scorer, item, answer) => {
    const start = 2 * (from[item] + answer);
    const [a, b] = data.scores[scorer].slice(start, start + 2);
    if (a === " ") return null;
    const [low, high] = data.scales[scorer];
    return low + (high - low) * (data.digits.indexOf(a) * data.digits.length + data.digits.indexOf(b)) / steps;
  };
  return {
    place,
    number,
    scores: (scorer, item) => Array.from({ length: data.sizes[item] }, (_, answer) => score(scorer, item, answer)),
    family: (item) => families.get(data.family[item]) ?? [],
    question: (item) => {
      const at = place.get(item);
      return at === undefined ? null : data.texts.prompt[at].at(-1)[0].replace(/\s+/g, " ").trim();
    },
    // As many decimals as the file keeps of this scorer's scores.
    round: (value, scorer) => {
      const [low, high] = data.scales[scorer];
      return value.toFixed(high > low ? Math.min(6, Math.max(0, Math.floor(-Math.log10((high - low) / steps)))) : 3);
    },
  };
};
const linkTo = (data, item) => `#${new URLSearchParams({ set: data.ids[item] })}`;

// Which answer stands at each place: in the order in which a scorer was given them, which its letters follow.
const orderOf = (data, read, item, scorer) => data.texts.orders[read.place.get(item)]?.[data.scorers[scorer].order];

// One question of a judge that was not asked in the order shown: its letters, and what they are here.
const asked = (data, read, item, scorer, order) => {
  const own = orderOf(data, read, item, scorer);
  const questions = data.scorers[scorer].asked.map((places) => places.map((place) => letter(order.indexOf(own[place]))));
  const turned = questions.map((said, n) => [n, said]).filter(([, said]) => said.some((one, at) => one !== letter(at)));
  const says = turned.slice(0, 2).map(([n, said]) => `question ${n + 1}: ${said.map((one, at) => `its ${letter(at)} is ${one}`).join(", ")}`);
  return `${questions.length > 1 ? ` · asked ${questions.length} times` : ""}${says.map((one) => ` · ${one}`).join("")}`;
};

// The first question to a judge, word for word.
const sentTo = (data, read, item, scorer) => {
  const at = read.place.get(item);
  const turns = data.scorers[scorer].sent[`${data.cultures[data.culture[item]]}/${data.texts.language[at]}/${data.sizes[item]}`];
  if (!turns) return [];
  const given = orderOf(data, read, item, scorer);
  const question = data.texts.prompt[at].map(([text, , role]) => (data.texts.prompt[at].length > 1 ? `${role}: ${text}` : text)).join("\n\n");
  const filled = (text) => text.replace(/⟦(Q|\d+)⟧/g, (_, key) => (key === "Q" ? question : data.texts.answers[at][given[key]][0]));
  return [make("details", {}, make("summary", { class: "tag" }, `What ${data.scorers[scorer].label} was sent`),
    ...turns.flatMap(([role, text]) => [make("p", { class: "tag" }, role), block("blockquote", {}, "", [filled(text), 0])]))];
};

const setBody = (data, read, item) => {
  const at = read.place.get(item);
  const texts = data.texts;
  const box = make("div", { class: "body" });
  const scorers = data.scorers.map((_, index) => index);
  const scores = scorers.map((scorer) => read.scores(scorer, item));
  const top = scores.map((row) => Math.max(...row.map((value) => value ?? -Infinity)));
  const written = scorers.filter((scorer) => data.rationales[item]?.[scorer]);
  const order = orderOf(data, read, item, written[0] ?? 0) ?? scores[0].map((_, index) => index);
  if (at === undefined) {
    box.append(make("p", {}, "The texts of this set are not in this file; make it with a higher ", make("code", {}, "--texts"), "."));
  } else {
    box.append(make("p", { class: "tag" }, [data.ids[item], texts.language[at], texts.topic[at], texts.source[at]].filter(Boolean).join(" · ")));
    for (const [text, length, role] of texts.prompt[at]) {
      if (role) box.append(make("p", { class: "tag" }, role));
      box.append(block("div", { class: "prompt" }, texts.language[at], [text, length]));
    }
    const answers = make("ol", { class: "answers" });
    order.forEach((index, place) => {
      const [text, length, language, culture, generator, cited] = texts.answers[at][index];
      const right = index === 0;
      const said = [culture ? `follows ${culture}` : "", generator].filter(Boolean).map((word) => ` · ${word}`).join("");
      const box = make("li", { class: right ? "right" : "wrong" },
        make("div", {}, make("span", { class: "judged" }, `${letter(place)} ${right ? "✓ right answer" : "✗ wrong here"}`), make("span", { class: "tag" }, said)),
        block("div", { class: "answer" }, language, [text, length]));
      if (cited) box.append(block("div", { class: "tag" }, "en", [`Fact: ${cited}`, 0]));
      answers.append(box);
    });
    box.append(answers);
    if (texts.gloss[at]) box.append(block("p", { class: "gloss" }, "en", [`The right answer in English: ${texts.gloss[at]}`, 0]));
  }
  const heads = ["scorer", "result", ...order.map((index, place) => `${letter(place)}${index ? "" : " ✓"}`)];
  const rows = scorers.map((scorer) => make("tr", {}, make("th", { scope: "row", title: data.scorers[scorer].name }, data.scorers[scorer].label),
    make("td", { class: `text ${data.outcomes[scorer][item] === "w" ? "good" : "bad"}` }, WORDS[data.outcomes[scorer][item]]),
    ...order.map((index) => {
      const value = scores[scorer][index];
      const cell = make("td", {}, value === null ? "–" : read.round(value, scorer));
      if (value !== null && value === top[scorer]) cell.className = index === 0 ? "pick good" : "pick bad";
      return cell;
    })));
  box.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores of this set" },
    make("table", { class: "scores" },
      make("thead", {}, make("tr", {}, ...heads.map((head, index) => make("th", { scope: "col", ...(index < 2 ? { class: "text" } : {}) }, head)))),
      make("tbody", {}, ...rows))));
  if (written.length) {
    box.append(make("h3", {}, "What they wrote"), make("div", { class: "beside" }, ...written.map((scorer) => make("div", {},
      make("p", { class: "tag" }, `${data.scorers[scorer].label} · ${WORDS[data.outcomes[scorer][item]]}${asked(data, read, item, scorer, order)}`),
      block("blockquote", {}, "", [data.rationales[item][scorer], 0])))));
  }
  if (at !== undefined) box.append(...scorers.flatMap((scorer) => sentTo(data, read, item, scorer)));
  const others = read.family(item);
  if (others.length > 1 && at !== undefined) box.append(...familyTable(data, read, item, others, order));
  return box;
};

// The same answers under other places: which answer is right there, and which each scorer picks.
const familyTable = (data, read, item, others, order) => {
  const texts = data.texts.answers[read.place.get(item)].map(([text]) => text);
  const known = order.map((index) => texts[index]);
  const named = (other, index) => {
    const at = read.place.get(other);
    const found = at === undefined ? -1 : known.indexOf(data.texts.answers[at][index][0]);
    return found < 0 ? "?" : letter(found);
  };
  const rows = others.map((other) => {
    const culture = data.cultures[data.culture[other]];
    const name = other === item ? make("b", {}, culture) : make("a", { href: linkTo(data, other) }, culture);
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, named(other, 0)), ...data.scorers.map((_, scorer) => {
      const scores = read.scores(scorer, other);
      const top = Math.max(...scores.map((value) => value ?? -Infinity));
      const picks = scores.flatMap((value, index) => (value !== null && value === top ? [named(other, index)] : []));
      return make("td", { class: data.outcomes[scorer][other] === "w" ? "good" : "bad" }, picks.join(" = ") || "–");
    }));
  });
  const head = ["place", "right", ...data.scorers.map((scorer) => scorer.label)];
  return [make("h3", {}, "The same answers under other places"),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picks under other places" },
      make("table", { class: "scores" },
        make("thead", {}, make("tr", {}, ...head.map((text, index) => make("th", { scope: "col", class: index ? "name" : "text" }, text)))),
        make("tbody", {}, ...rows)))];
};

// The page of one set, over the report. `list` gives the sets among which previous and next lead.
const setPage = (data, read, list) => {
  const dialog = $("#set-page"), body = $("#set-body"), title = $("#set-title"), status = $("#set-place"), link = $("#set-link");
  const step = (by) => {
    const items = list();
    const next = items[items.indexOf(read.number.get(chosen.set)) + by];
    if (next !== undefined) choose({ set: data.ids[next] }, true);
  };
  $("#set-before").addEventListener("click", () => step(-1));
  $("#set-after").addEventListener("click", () => step(1));
  $("#set-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => { if (chosen.set) choose({ set: "" }); });
  let shown = "";
  watchers.push(() => {
    if (chosen.set === shown) return;
    shown = chosen.set;
    if (shown === "") return dialog.close();
    const item = read.number.get(shown);
    const items = list();
    const at = items.indexOf(item);
    title.textContent = item === undefined ? "No such set" : `${data.cultures[data.culture[item]]}, ${data.domains[data.domain[item]]}`;
    body.replaceChildren(item === undefined ? make("p", {}, "This report has no set of the id ", make("code", {}, shown), ".") : setBody(data, read, item));
    link.setAttribute("href", addressOf({ set: shown }));
    status.textContent = at < 0 ? "" : `${count(at + 1)} of ${count(items.length)}`;
    $("#set-before").disabled = at <= 0;
    $("#set-after").disabled = at < 0 || at >= items.length - 1;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  });
};
