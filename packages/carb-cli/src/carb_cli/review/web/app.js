"use strict";
// The page: one item at a time.

const main = document.getElementById("main");
const pack = document.getElementById("pack") ? JSON.parse(document.getElementById("pack").textContent) : null;
const NAMES = { ar: "العربية", de: "Deutsch", en: "English", es: "Español", ja: "日本語", ko: "한국어", ru: "Русский", th: "ไทย", vi: "Tiếng Việt", zh: "中文" };
const ON = ["region", "generation", "religion", "other"];
let words = {}, state = null, device = null, sender = null, items = [], view = null;

function show(...children) {
  main.replaceChildren(...children);
  const heading = main.querySelector("h1, h2");
  if (heading) heading.tabIndex = -1;
  (heading ?? main).focus();
  scrollTo(0, 0);
  status();
}

function status() {
  const n = device ? Math.min(answered().size, state.total) : 0;
  document.getElementById("progress").textContent = state?.consent ? say("progress", { n: number(n), total: number(state.total) }) : "";
  const waiting = new Set(sender?.waiting().map((event) => event.item)).size; // a changed answer counts once
  const parts = [];
  if (sender?.problem === "session_over") parts.push(say("session_over"));
  if (sender?.problem === "offline" && waiting) parts.push(say("offline"));
  if (waiting) parts.push(say("waiting", { n: number(waiting) }));
  else if (sender && (n || device.events().length)) parts.push(say("all_sent"));
  if (device?.memory.size) parts.push(say("no_storage"));
  const text = parts.join(" ");
  const line = document.getElementById("sending");
  if (line.textContent !== text) line.textContent = text;
  notices();
}

// What could not be stored is shown until the reviewer has decided.
function notices() {
  document.querySelectorAll(".notice").forEach((element) => element.remove());
  for (const event of device?.events() ?? []) {
    if (event.state === "conflict") {
      const keep = () => {
        device.remove(`event:${event.id}`);
        device.keep({ ...plain(event), id: uuid(), base: event.revision });
        sender.send();
      };
      const drop = () => {
        device.mark({ ...event, answer: event.other }, "sent");
        status();
      };
      notice(say("conflict"), button("conflict_mine", keep), button("conflict_other", drop));
    }
    if (event.state === "refused") {
      const away = () => {
        device.remove(`event:${event.id}`);
        status();
      };
      notice(say("refused", { reason: event.reason }), button("understood", away));
    }
  }
}

function notice(text, ...buttons) {
  const row = make("div", { className: "row" }, ...buttons);
  main.before(make("div", { className: "notice", role: "alert" }, make("p", { textContent: text }), row));
}

// Without a connection the words are those that the worker has kept.
async function learn(language) {
  words = pack ? pack.texts[language] : await ask(`texts/${language}.json`).catch(() => words);
  document.documentElement.lang = language;
  document.documentElement.dir = language === "ar" ? "rtl" : "ltr";
  document.title = say("title");
}

async function speak(language) {
  await learn(language);
  state.language = language;
  const options = Object.entries(NAMES).map(([value, name]) => make("option", { value, textContent: name, selected: value === language, lang: value }));
  const chosen = async (event) => {
    await speak(event.target.value);
    if (state.consent) await introduce({}).catch(next);
    else consent();
  };
  const chooser = make("select", { name: "language", "aria-label": say("language"), on: { change: chosen } }, ...options);
  document.getElementById("language").replaceChildren(chooser);
  const guide = make("ol", {}, ...[1, 2, 3, 4, 5, 6, 7].map((n) => make("li", { textContent: say(`guide_${n}`) })));
  document.getElementById("footer").replaceChildren(
    make("details", {}, make("summary", { textContent: say("help") }), guide),
    make("div", { className: "row" }, button("save_file", saveFile)),
  );
}

function consent() {
  view = null;
  const texts = [1, 2, 3].map((n) => make("p", { textContent: say(`consent_${n}`) }));
  const agree = make("input", { type: "checkbox", name: "agree", required: true, on: { invalid: () => agree.setCustomValidity(say("missing_agree")), change: () => agree.setCustomValidity("") } });
  const name = make("input", { type: "text", name: "name", maxLength: 80, value: state.name, autocomplete: "off", dir: "auto" });
  const region = make("input", { type: "text", name: "region", maxLength: 80, value: state.region, autocomplete: "off", dir: "auto" });
  const problem = make("p", { className: "problem", role: "alert" });
  const form = make("form", { on: { submit: async (event) => {
    event.preventDefault();
    try {
      await introduce({ name: name.value, region: region.value });
    } catch (error) {
      problem.textContent = error instanceof Refused ? error.message : say("offline");
    }
  } } },
  make("label", { className: "tick" }, agree, make("span", { textContent: say("consent_agree") })),
  field("name", name), field("region", region), problem,
  make("div", { className: "row" }, make("button", { type: "submit", className: "first", textContent: say("start") })));
  show(make("h1", { textContent: say("consent_title") }), ...texts, form);
}

async function introduce(changes) {
  const { name, region, language } = { ...state, ...changes };
  const person = { name, region, language, consent: 1 };
  if (pack) Object.assign(state, person);
  else Object.assign(state, await ask("api/person", person, state.reviewer));
  remember();
  await next();
}

function remember() {
  device.write("state", state);
  device.write("items", items);
}

// The ids of what was answered, here or on another device. A question that was written here is no answer.
function answered() {
  const here = device.events().filter((event) => !event.question);
  return new Set([...Object.keys(state.revisions), ...here.map((event) => event.item)]);
}

function open_items() {
  const done = answered();
  return items.filter((item) => !done.has(item.id));
}

async function next() {
  if (!pack && open_items().length < 5) {
    try {
      const seen = new Set(items.map((item) => item.id));
      const found = await ask("api/next", {}, state.reviewer);
      items = [...items.filter((item) => device.last(item.id) || !(item.id in state.revisions)), ...found.filter((item) => !seen.has(item.id))];
      remember();
    } catch (error) {
      sender.failed(error);
    }
  }
  const [item] = open_items();
  if (item) present(item);
  else finished();
}

function finished() {
  view = null;
  const missing = sender?.problem;
  const children = [make("h1", { textContent: say(missing || "done_title") })];
  if (!missing) children.push(make("p", { textContent: say(pack ? "send_file" : "done_text") }));
  const row = make("div", { className: "row" }, pack ? button("save_file", saveFile, "first") : null, missing ? button("again", next, "first") : null, backButton(), writeButton());
  show(...children, row);
}

function writeButton() {
  return state.writes ? button("write", write) : null;
}

// A question of the reviewer's own. It is kept like an answer; then the model is asked, if there is one.
function write() {
  view = null;
  const draft = device.read("written") ?? {};
  const area = (name, rows, maxLength) => make("textarea", { name, rows, maxLength, value: draft[name] ?? "", dir: "auto" });
  const said = make("p", { role: "status" });
  const form = make("form", { noValidate: true }, field("write_question", area("question", 3, 1000)), field("write_right", area("right", 2, 500)),
    field("write_wrong", area("wrong", 2, 500)), said, make("p", { textContent: say("write_licence") }),
    make("div", { className: "row" }, make("button", { type: "submit", className: "first", textContent: say("write_save") }), button("write_back", next)));
  form.addEventListener("input", () => device.write("written", Object.fromEntries(new FormData(form))));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [question, right, wrong] = ["question", "right", "wrong"].map((name) => form.elements[name].value.trim());
    if (!question || !right || !wrong || right === wrong) {
      said.textContent = say("write_missing");
      return;
    }
    const id = uuid();
    device.keep({ id, item: id, question, right, wrong });
    device.remove("written");
    form.reset();
    form.elements.question.focus();
    said.textContent = say(state.model ? "beat_wait" : "write_thanks");
    await sender.send();
    if (!state.model) return;
    const found = await ask("api/beat", { id }, state.reviewer).catch(() => ({ verdict: "failed" }));
    said.textContent = `${question.slice(0, 80)} – ${say(`beat_${found.verdict.replace(" ", "_")}`)}`;
  });
  show(make("h1", { textContent: say("write") }), make("p", { textContent: say("write_guide") }), form);
}

// Back goes through what was answered on this device.
function backButton() {
  const list = items.filter((item) => device.last(item.id));
  const place = list.indexOf(view?.item);
  const before = place < 0 ? list.at(-1) : list[place - 1];
  return before ? button("back", () => present(before, device.last(before.id).answer)) : null;
}

// The revision that an answer given now stands on.
function base(id) {
  const mine = device.events().filter((event) => event.item === id && ["waiting", "sent"].includes(event.state));
  return Math.max(state.revisions[id] ?? 0, ...mine.map((event) => event.revision ?? event.base + 1), 0);
}

function present(item, answer = null) {
  const before = device.read(`draft:${item.id}`) ?? answer ?? { status: "answered", opinions: {} };
  view = { item, event: uuid(), base: base(item.id), active: 0, since: document.hidden ? null : performance.now() };
  const form = make("form", { noValidate: true, on: { submit: (event) => { event.preventDefault(); save(form); } } });
  form.addEventListener("input", () => {
    device.write(`draft:${item.id}`, collect(form, item));
    document.getElementById("problem").textContent = "";
  });
  const question = item.turns.map((turn) => make("p", { className: "text question", lang: item.language, dir: "auto", textContent: turn }));
  const objected = choice("objected", "yes", "objected", "checkbox", before.status === "objected");
  const cards = make("div", {}, ...choiceCards(item, before));
  const more = make("details", { open: Boolean(before.comment) }, make("summary", { textContent: say("more") }),
    field("comment", make("textarea", { name: "comment", maxLength: 2000, rows: 2, value: before.comment ?? "", dir: "auto" })));
  const toggle = () => {
    cards.hidden = objected.control.checked;
    more.open ||= objected.control.checked;
  };
  objected.control.addEventListener("change", toggle);
  const problem = make("p", { className: "problem", role: "alert", id: "problem" });
  form.append(make("h1", { textContent: say("pick_title") }), ...question, cards, objected, more, problem,
    make("div", { className: "row" }, make("button", { type: "submit", className: "first", textContent: say("save") }), button("unknown", () => store({ status: "unknown", opinions: {}, comment: form.elements.comment.value.trim() })), backButton(), writeButton()));
  toggle();
  show(form);
}

function choiceCards(item, before) {
  return item.shown.map((token, place) => {
    const option = item.options.find((one) => one.token === token);
    const opinion = before.opinions[token] ?? {};
    const name = `verdict-${token}`;
    const verdicts = ["best", "right", "wrong", "depends"].map((value) => choice(name, value, value, "radio", opinion.verdict === value));
    const on = make("fieldset", { hidden: opinion.verdict !== "depends" }, make("legend", { textContent: say("depends_title") }),
      ...ON.map((value) => choice(`on-${token}`, value, `on_${value}`, "checkbox", opinion.on?.includes(value))),
      field("which", make("input", { type: "text", name: `which-${token}`, maxLength: 2000, value: opinion.which ?? "", dir: "auto", autocomplete: "off" })));
    const unnatural = choice(`unnatural-${token}`, "yes", "unnatural", "checkbox", opinion.natural === false);
    const better = field("better", make("textarea", { name: `better-${token}`, maxLength: 2000, rows: 2, value: opinion.better ?? "", dir: "auto" }));
    better.hidden = opinion.natural !== false;
    unnatural.control.addEventListener("change", () => { better.hidden = !unnatural.control.checked; });
    const box = make("fieldset", { "data-token": token }, make("legend", { textContent: say("answer", { n: number(place + 1) }) }), textOf(option, item.options),
      make("div", { className: "choices" }, ...verdicts), on, unnatural, better);
    box.addEventListener("change", (event) => {
      if (event.target.name !== name) return;
      on.hidden = event.target.value !== "depends";
      if (event.target.value === "best") // only one is best
        for (const other of box.parentElement.querySelectorAll("input[value=best]:checked")) if (other !== event.target) other.checked = false;
    });
    return box;
  });
}

function collect(form, item) {
  const data = new FormData(form);
  if (data.get("objected")) return { status: "objected", opinions: {}, comment: form.elements.comment.value.trim() };
  const answer = { status: "answered", opinions: {}, comment: form.elements.comment.value.trim() };
  for (const token of item.shown) {
    const opinion = { verdict: data.get(`verdict-${token}`), natural: !data.get(`unnatural-${token}`) };
    if (opinion.verdict === "depends") Object.assign(opinion, { on: data.getAll(`on-${token}`), which: data.get(`which-${token}`) });
    if (!opinion.natural) opinion.better = data.get(`better-${token}`);
    answer.opinions[token] = opinion;
  }
  return answer;
}

// The key of what is missing, and where the focus goes.
function lacking(answer, item, form) {
  if (answer.status !== "answered") return null;
  const first = (token) => form.elements[`verdict-${token}`][0];
  if (!Object.values(answer.opinions).some((opinion) => opinion.verdict === "best")) return ["missing", first(item.shown[0])];
  for (const token of item.shown) {
    if (!answer.opinions[token].verdict) return ["missing_other", first(token)];
    if (answer.opinions[token].verdict === "depends" && !answer.opinions[token].on.length) return ["missing_on", form.elements[`on-${token}`][0]];
  }
  return null;
}

function save(form) {
  const answer = collect(form, view.item);
  const missing = lacking(answer, view.item, form);
  if (missing) {
    const problem = document.getElementById("problem");
    problem.textContent = say(missing[0]);
    missing[1].closest(".choices, fieldset").after(problem); // a phone shows only what is near the focus
    missing[1].focus();
    return;
  }
  store(answer);
}

function store(answer) {
  if (!view) return; // a second click
  const { item, event, base: revision } = view;
  clock();
  device.keep({ id: event, item: item.id, shown: item.shown, base: revision, answer, active_ms: Math.min(Math.round(view.active), 86400000) });
  device.remove(`draft:${item.id}`);
  view = null;
  remember();
  sender?.send();
  next();
}

function clock() {
  if (!view) return;
  if (view.since !== null) view.active += performance.now() - view.since;
  view.since = document.hidden ? null : performance.now();
}

async function startFile() {
  device = new Device(pack.fingerprint.slice(0, 16));
  const fresh = { reviewer: uuid(), name: "", region: "", language: pack.language, consent: null, total: pack.items.length, revisions: {} };
  state = device.read("state") ?? fresh;
  items = device.read("items") ?? shuffled(pack.items).map((item) => ({ ...item, shown: shuffled(item.shown) }));
  remember();
  await speak(state.language || pack.language);
}

async function startServer() {
  const token = location.hash.slice(1);
  const shared = new Device(location.pathname); // two reviews on one host have people of their own
  try {
    if (token) await ask("api/enter", { token });
    state = await ask("api/me", {});
    shared.write("reviewer", state.reviewer);
  } catch (error) {
    if (error instanceof Refused) throw error;
    const reviewer = shared.read("reviewer"); // no connection: go on with what this device has
    state = reviewer && new Device(reviewer).read("state");
    if (!state) throw error;
  }
  history.replaceState(null, "", location.pathname); // a screenshot or a shared address must not give the link away
  device = new Device(state.reviewer);
  sender = new Sender(device, state.reviewer, status);
  items = device.read("items") ?? [];
  sender.compare({ ...state.revisions, ...state.written });
  await speak(state.language || state.suggested);
  sender.send();
  navigator.serviceWorker?.register("worker.js").catch(() => {}); // a reload without a connection; needs https
  navigator.storage?.persist?.().catch(() => {});
}

async function start() {
  try {
    await (pack ? startFile() : startServer());
    if (state.consent) await next();
    else consent();
  } catch (error) {
    const own = navigator.language.slice(0, 2);
    await learn(own in NAMES ? own : "en");
    show(make("h1", { textContent: say(error instanceof Refused ? "link_bad" : "offline") }));
  }
  document.documentElement.dataset.ready = "yes";
}

document.addEventListener("visibilitychange", clock);
addEventListener("storage", status); // another window of this device has answered
start();
