// One set: its answers, and what every scorer gave each of them and wrote.
const WORDS = { w: "won", l: "lost", t: "tied", e: "error" };
const letter = (index) => String.fromCharCode(65 + index);

const linkTo = (item) => `#${new URLSearchParams({ set: item.id })}`;

// Which answer stands at each place: in the order in which a scorer was given them, which its
// letters follow.
const orderOf = (item, scorer) => item.orders[scorer.order];
const topOf = (scores) => Math.max(...scores.map((value) => value ?? -Infinity));

// One question of a judge that was not asked in the order shown: its letters, and what they are
// here.
const asked = (item, scorer, order) => {
  const own = orderOf(item, scorer);
  const questions = scorer.asked.map((places) =>
    places.map((place) => letter(order.indexOf(own[place]))),
  );
  const turned = questions
    .map((said, n) => [n, said])
    .filter(([, said]) => said.some((one, at) => one !== letter(at)));
  if (questions.length && !turned.length) return " · asked in the order shown";
  const says = turned.slice(0, 2).map(([n, said]) => {
    const letters = said.map((one, at) => `its ${letter(at)} is ${one}`);
    return ` · question ${n + 1}: ${letters.join(", ")}`;
  });
  return `${questions.length > 1 ? ` · asked ${questions.length} times` : ""}${says.join("")}`;
};

// The first text that a scorer was sent, word for word.
const sentTo = (item, scorer) => {
  const turns =
    scorer.sent[""] ?? scorer.sent[`${item.culture}/${item.language}/${item.answers.length}`];
  const lost =
    `What ${scorer.label} was sent is not here: ` +
    "a run keeps no facts, no forms in files and nothing of other packages' scorers.";
  if (!turns) return scorer.kind === "baseline" ? [] : [make("p", { class: "tag" }, lost)];
  const given = orderOf(item, scorer);
  const alone = item.prompt.length === 1;
  const question = item.prompt
    .map(([text, , role]) => (alone ? text : `${role}: ${text}`))
    .join("\n\n");
  const named = (_, key) => (key === "Q" ? question : item.answers[given[key]][0]);
  const filled = (text) => text.replace(/⟦(Q|\d+)⟧/g, named);
  return [
    make(
      "details",
      {},
      make("summary", { class: "tag" }, `What ${scorer.label} was sent`),
      ...turns.flatMap(([role, text]) => [
        make("p", { class: "tag" }, role),
        block("blockquote", {}, "", [filled(text), 0]),
      ]),
    ),
  ];
};

// A table of scorers or places under a set; `heads` and `rows` hold what its cells show.
const tableOf = (label, heads, rows) => {
  const headed = heads.map((head, index) =>
    make("th", { scope: "col", class: index ? "name" : "text" }, head),
  );
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    make(
      "table",
      { class: "scores" },
      make("thead", {}, make("tr", {}, ...headed)),
      make("tbody", {}, ...rows),
    ),
  );
};

const setBody = (data, item) => {
  const box = make("div", { class: "body" });
  const judges = data.scorers.filter((scorer, n) => item.written[n] || scorer.asked.length);
  const order = orderOf(item, judges[0] ?? data.scorers[0]);
  const tags = [item.id, item.language, item.topic, item.source].filter(Boolean);
  box.append(make("p", { class: "tag" }, tags.join(" · ")));
  for (const [text, length, role] of item.prompt) {
    if (role) box.append(make("p", { class: "tag" }, role));
    box.append(block("div", { class: "prompt" }, item.language, [text, length]));
  }
  box.append(
    make(
      "ol",
      { class: "answers" },
      ...order.map((index, place) => {
        const [text, length, language, culture, generator, cited] = item.answers[index];
        const right = index === 0;
        const said = [culture ? `follows ${culture}` : "", generator]
          .filter(Boolean)
          .map((word) => ` · ${word}`)
          .join("");
        return make(
          "li",
          { class: right ? "right" : "wrong" },
          make(
            "div",
            {},
            make(
              "span",
              { class: "judged" },
              `${letter(place)} ${right ? "✓ right answer" : "✗ wrong here"}`,
            ),
            make("span", { class: "tag" }, said),
          ),
          block("div", { class: "answer" }, language, [text, length]),
          ...(cited ? [block("div", { class: "tag" }, "en", [`Fact: ${cited}`, 0])] : []),
        );
      }),
    ),
  );
  if (item.gloss)
    box.append(
      block("p", { class: "gloss" }, "en", [`The right answer in English: ${item.gloss}`, 0]),
    );
  const rows = data.scorers.map((scorer, n) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", title: scorer.name }, scorer.label),
      make(
        "td",
        { class: `text ${item.outcomes[n] === "w" ? "good" : "bad"}` },
        WORDS[item.outcomes[n]],
      ),
      ...order.map((index) => {
        const value = item.scores[n][index];
        const cell = make("td", {}, value === null ? "–" : String(Number(value.toPrecision(5))));
        if (value !== null && value === topOf(item.scores[n]))
          cell.className = index === 0 ? "pick good" : "pick bad";
        return cell;
      }),
    ),
  );
  const letters = order.map((index, place) => `${letter(place)}${index ? "" : " ✓"}`);
  box.append(tableOf("Scores of this set", ["scorer", "result", ...letters], rows));
  if (judges.length) {
    const wrote = judges.map((scorer) => {
      const n = data.scorers.indexOf(scorer);
      const how = `${scorer.label} · ${WORDS[item.outcomes[n]]}${asked(item, scorer, order)}`;
      return make(
        "div",
        {},
        make("p", { class: "tag" }, how),
        ...(item.written[n] ? [block("blockquote", {}, "", [item.written[n], 0])] : []),
      );
    });
    box.append(
      make("h3", {}, "How they were asked, and what they wrote"),
      make("div", { class: "beside" }, ...wrote),
    );
  }
  box.append(...data.scorers.flatMap((scorer) => sentTo(item, scorer)));
  const others = item.family ? data.sets.filter((other) => other.family === item.family) : [];
  if (others.length > 1) box.append(...familyTable(data, item, others, order));
  return box;
};

// The same answers under other places: which answer is right there, and which each scorer picks.
const familyTable = (data, item, others, order) => {
  const known = order.map((index) => item.answers[index][0]);
  const named = (other, index) => {
    const found = known.indexOf(other.answers[index][0]);
    return found < 0 ? "?" : letter(found);
  };
  const rows = others.map((other) => {
    const name =
      other === item
        ? make("b", {}, other.place)
        : make("a", { href: linkTo(other) }, other.place);
    const cells = other.scores.map((scores, n) => {
      const top = topOf(scores);
      const picks = scores.flatMap((value, index) =>
        value !== null && value === top ? [named(other, index)] : [],
      );
      return make(
        "td",
        { class: other.outcomes[n] === "w" ? "good" : "bad" },
        picks.join(" = ") || "–",
      );
    });
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", {}, named(other, 0)),
      ...cells,
    );
  });
  return [
    make("h3", {}, "The same answers under other places"),
    tableOf(
      "Picks under other places",
      ["place", "right", ...data.scorers.map((scorer) => scorer.label)],
      rows,
    ),
  ];
};
