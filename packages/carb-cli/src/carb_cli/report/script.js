"use strict";
// Sorting, filters and the failure browser. Texts of data and models reach the page through textContent alone.
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const percent = (share) => (share === null ? "–" : (100 * share).toFixed(1));
  const count = (number) => number.toLocaleString("en");

  const sortBy = window.carbSort;

  const unpack = async () => {
    const bytes = Uint8Array.from(atob($("#payload").textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  const fill = (select, pairs) => select.append(...pairs.map(([value, text]) => {
    const option = make("option");
    option.value = value;
    option.textContent = text;
    return option;
  }));

  // Leaderboard.
  const leaderboard = (data) => {
    const table = $("#leaderboard");
    const rows = new Map($$("tbody tr", table).map((row) => [row.dataset.scorer, row]));
    const culture = $("#lead-culture"), domain = $("#lead-domain"), kind = $("#lead-kind");
    fill(culture, data.rolled.map((name) => [name, name]));
    fill(domain, data.domains.map((name) => [name, name]));
    fill(kind, [...new Set(data.scorers.map((scorer) => scorer.kind))].sort().map((name) => [name, name]));
    const show = () => {
      const cells = data.cells[`${culture.value}/${domain.value}`] ?? [];
      // The floor is known for all sets and for each culture; in a domain there is no line rather than a wrong one.
      const [floor, predictor] = (domain.value === "" && data.floors[culture.value]) || [null, ""];
      const legend = $("#lead-floor");
      if (legend) legend.textContent = floor === null ? "not computed for this choice" : `${percent(floor)}% (${predictor})`;
      const [human, from, to] = data.humans[`${culture.value}/${domain.value}`] ?? [null, null, null];
      const people = $("#human-line");
      if (people) people.textContent = human === null ? "no reviews for this choice" : `${percent(human)}% [${percent(from)} – ${percent(to)}]`;
      let shown = 0, sets = 0;
      data.scorers.forEach((scorer, index) => {
        const row = rows.get(String(index));
        const [accuracy, low, high, n, ties, errors] = cells[index] ?? [null, null, null, 0, null, null];
        row.hidden = kind.value !== "" && scorer.kind !== kind.value;
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
        [[".floor", floor], [".human", human]].forEach(([name, at]) => {
          const line = $(name, bar);
          if (!line) return;
          line.style.display = at === null ? "none" : "";
          line.setAttribute("x1", 100 * (at ?? 0));
          line.setAttribute("x2", 100 * (at ?? 0));
        });
      });
      const all = culture.value === "" && domain.value === "";
      $$(".whole", table).forEach((cell) => { cell.textContent = all ? cell.dataset.all : ""; });
      const sorted = $("th[aria-sort]", table);
      if (!sorted) sortBy(table, $("[data-c=accuracy]", table).cellIndex, true);
      else sortBy(table, sorted.cellIndex, sorted.getAttribute("aria-sort") === "descending");
      $("#lead-status").textContent = `${shown} scorers on ${count(sets)} sets${all ? "" : "; rank, macro and shared are of all sets and hidden here"}.`;
    };
    [culture, domain, kind].forEach((select) => select.addEventListener("change", show));
    $("#lead-controls").hidden = false;
  };

  // Consistency matrices.
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
        if (n) cell.title = `${n} pairs`;
        return cell;
      }))));
    };
    select.addEventListener("change", show);
    $("#consistency-controls").hidden = false;
    show();
  };

  // Texts of the world: what would steer the line is shown as what it is.
  const ODD = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]/;
  const FIRST = 3000;
  const put = (element, [text, length]) => {
    const render = (part) => {
      const nodes = [];
      let plain = "";
      for (const character of part) {
        if (ODD.test(character)) {
          if (plain) nodes.push(plain);
          plain = "";
          const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
          nodes.push(make("span", { class: "odd", title: "A control character of the text" }, `U+${code}`));
        } else plain += character;
      }
      if (plain) nodes.push(plain);
      return nodes;
    };
    element.append(...render(text.slice(0, FIRST)));
    const rest = text.slice(FIRST);
    if (rest) {
      const button = make("button", { type: "button", class: "more" }, `Show ${count(rest.length)} more characters`);
      button.addEventListener("click", () => button.replaceWith(...render(rest)));
      element.append(" ", button);
    }
    if (length > text.length) {
      element.append(make("span", { class: "odd" }, `${count(length - text.length)} further characters are not in this file`));
    }
    return element;
  };
  const block = (tag, attributes, language, pair) => {
    const element = make(tag, { dir: "auto", ...attributes });
    if (/^[A-Za-z0-9-]+$/.test(language)) element.lang = language;
    return put(element, pair);
  };

  // Failure browser.
  const PAGE = 20;
  const WORDS = { w: "won", l: "lost", t: "tied", e: "error" };
  const failures = (data) => {
    const place = new Map(data.texts.at.map((item, index) => [item, index]));
    const scorer = $("#fail-scorer"), outcome = $("#fail-outcome"), culture = $("#fail-culture");
    const domain = $("#fail-domain"), search = $("#fail-search"), list = $("#items"), more = $("#fail-more");
    const models = data.scorers.map((one, index) => [one.kind, index]).filter(([kind]) => kind !== "baseline").map(([, index]) => index);
    const group = models.length ? models : data.scorers.map((_, index) => index);
    fill(scorer, [["all", models.length ? "every model gets it wrong" : "every scorer gets it wrong"], ["any", "any scorer gets it wrong"],
      ...data.scorers.map((one, index) => [String(index), one.label])]);
    fill(culture, data.cultures.map((name, index) => [String(index), name]));
    fill(domain, data.domains.map((name, index) => [String(index), name]));
    const wrong = (item) => data.outcomes.reduce((sum, letters) => sum + (letters[item] !== "w"), 0);
    // Scores are in the file for those who do not win a set: two digits for each answer, one scorer after another.
    const STEPS = data.digits.length ** 2;
    const losers = (item, among) => data.scorers.map((_, index) => index)
      .filter((index) => data.outcomes[index][item] !== "w" && (among === null || among.includes(index)));
    const scoresOf = (item, at, selected) => {
      const from = losers(item, null).indexOf(selected) * 2 * data.texts.answers[at].length;
      const [low, high] = data.scales[selected];
      return data.texts.answers[at].map((_, index) => {
        const digits = data.texts.scores[at].slice(from + 2 * index, from + 2 * index + 2);
        if (digits === "  ") return null;
        const step = data.digits.indexOf(digits[0]) * data.digits.length + data.digits.indexOf(digits[1]);
        return low + (high - low) * step / (STEPS - 1);
      });
    };
    const round = (value, selected) => {
      const [low, high] = data.scales[selected];
      const places = high > low ? Math.min(6, Math.max(0, Math.ceil(-Math.log10((high - low) / STEPS)))) : 3;
      return value.toFixed(places);
    };
    let found = [], shown = 0;

    const body = (item) => {
      const at = place.get(item);
      const box = make("div", { class: "body" });
      if (at === undefined) {
        box.append(make("p", {}, "The texts of this set are not in this file; make it with a higher "), make("code", {}, "--texts"));
        return box;
      }
      const texts = data.texts;
      const selected = /^\d+$/.test(scorer.value) ? Number(scorer.value) : losers(item, scorer.value === "all" ? group : null)[0];
      box.append(make("p", { class: "tag" }, [texts.language[at], texts.topic[at], texts.source[at]].filter(Boolean).join(" · ")));
      box.append(block("div", { class: "prompt" }, texts.language[at], texts.prompt[at]));
      const scores = scoresOf(item, at, selected);
      const order = texts.answers[at].map((_, index) => index).sort((a, b) => (scores[b] ?? -Infinity) - (scores[a] ?? -Infinity) || b - a);
      const answers = make("ol", { class: "answers" });
      for (const index of order) {
        const [text, length, language, from, generator] = texts.answers[at][index];
        const right = index === 0;
        const entry = make("li", { class: right ? "right" : "wrong" });
        const where = from ? ` · follows ${from}` : "";
        const score = scores[index] === null ? "no score" : `score ${round(scores[index], selected)}`;
        entry.append(
          make("div", {}, make("span", { class: "verdict" }, right ? "✓ right answer" : "✗ wrong here"),
            make("span", { class: "tag" }, ` · ${score}${where}${generator ? ` · ${generator}` : ""}`)),
          block("div", { class: "answer" }, language, [text, length]));
        answers.append(entry);
      }
      box.append(make("p", { class: "tag" }, `Ordered by the scores of ${data.scorers[selected].label}, which are rounded to a part in ${count(STEPS)} of its range:`), answers);
      const rationale = texts.rationales[at][String(selected)];
      if (rationale) box.append(make("h3", {}, "What it wrote"), block("blockquote", {}, "", [rationale, rationale.length]));
      const others = data.scorers.map((one, index) => `${one.label}: ${WORDS[data.outcomes[index][item]]}`).join(" · ");
      box.append(make("p", { class: "tag" }, others));
      return box;
    };

    const next = () => {
      for (const item of found.slice(shown, shown + PAGE)) {
        const details = make("details", { "data-item": data.ids[item] });
        const at = place.get(item);
        const summary = make("summary", {});
        const title = make("bdi", {});
        title.textContent = data.ids[item];
        const tags = [data.cultures[data.culture[item]], data.domains[data.domain[item]], `wrong for ${wrong(item)} of ${data.scorers.length}`];
        summary.append(title, make("span", { class: "tag" }, ` · ${tags.join(" · ")}${at === undefined ? " · without texts" : ""}`));
        details.append(summary);
        details.addEventListener("toggle", () => {
          if (details.open && details.children.length === 1) details.append(body(item));
        });
        list.append(details);
      }
      shown = Math.min(shown + PAGE, found.length);
      more.hidden = shown >= found.length;
    };

    const select = () => {
      const one = /^\d+$/.test(scorer.value) ? Number(scorer.value) : null;
      const words = search.value.toLowerCase().trim();
      const fits = (letter) => letter !== "w" && (outcome.value === "" || letter === outcome.value);
      const speaks = (item) => {
        if (words === "") return true;
        if (data.ids[item].toLowerCase().includes(words)) return true;
        const at = place.get(item);
        if (at === undefined) return false;
        return [data.texts.prompt[at], ...data.texts.answers[at]].some(([text]) => text.toLowerCase().includes(words));
      };
      found = data.ids.map((_, index) => index).filter((item) =>
        (one !== null ? fits(data.outcomes[one][item])
          : scorer.value === "all" ? group.every((index) => fits(data.outcomes[index][item]))
            : data.outcomes.some((letters) => fits(letters[item])))
        && (culture.value === "" || data.culture[item] === Number(culture.value))
        && (domain.value === "" || data.domain[item] === Number(domain.value))
        && speaks(item));
      found.sort((a, b) => place.has(b) - place.has(a) || wrong(b) - wrong(a) || a - b);
      list.replaceChildren();
      shown = 0;
      next();
      const without = found.filter((item) => !place.has(item)).length;
      $("#fail-status").textContent = `${count(found.length)} of ${count(data.ids.length)} sets${without ? `, ${count(without)} of them without texts` : ""}.`;
    };
    let waiting;
    search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(select, 150); });
    [scorer, outcome, culture, domain].forEach((control) => control.addEventListener("change", select));
    more.addEventListener("click", next);
    $("#fail-controls").hidden = false;
    select();
  };

  const start = async () => {
    if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack the data");
    const data = await unpack();
    leaderboard(data);
    consistency(data);
    failures(data);
    document.documentElement.dataset.ready = "yes";
  };
  start().catch((error) => {
    $("#fail-status").textContent = `The filters and the failure browser are off: ${error.message}. All tables above are complete.`;
    document.documentElement.dataset.ready = "no";
  });
})();
