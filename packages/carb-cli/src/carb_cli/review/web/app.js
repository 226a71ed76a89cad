"use strict";
// The page: one item at a time.

const main = document.querySelector("main");
let state = null,
  device = null,
  view = null,
  stopped = "";

// What is shown besides the screen, and with which values.
function refresh() {
  // A changed answer counts once.
  const waiting = new Set(device?.events("waiting").map((event) => event.item)).size;
  const shown = {
    footer: Boolean(state),
    progress: Boolean(state?.consent) && {
      n: Math.min(answered().size, state.total),
      total: state.total,
    },
    problem: Boolean(state && problem) && { say: problem },
    waiting: !pack && waiting > 0 && { n: waiting },
    all_sent: !pack && !waiting && !problem && device?.events().length > 0,
    no_storage: device?.memory.size > 0,
    conflict: held()?.state === "conflict",
    refused: held()?.state === "refused" && { reason: held().reason },
    ending: { say: stopped || "done_title" },
    done_text: !stopped && !pack,
    send_file: Boolean(pack),
    again: Boolean(stopped),
    back: Boolean(earlier()),
    write: Boolean(state?.writes),
  };
  for (const [key, values] of Object.entries(shown))
    for (const element of document.querySelectorAll(`#${key}, [data-say=${key}]`)) {
      element.hidden = !values;
      Object.assign(element.dataset, values);
    }
  tell();
  check();
}

function show(template, answer = {}) {
  view = null;
  // A screen that was shown without a connection stays as it is when there is one again.
  stopped = problem;
  main.replaceChildren(document.getElementById(template).content.cloneNode(true));
  fill(main, answer);
  main.querySelector("h1").focus();
  scrollTo(0, 0);
  refresh();
}

// What is still missing: the browser says it at its place. What does not apply is disabled: neither
// seen nor sent.
function check() {
  const demand = (input, met, key) => input.setCustomValidity(met ? "" : say(key));
  const { agree, status, comment, question, right, wrong } =
    main.querySelector("form")?.elements ?? {};
  if (agree) demand(agree, agree.checked, "missing_agree");
  if (question) {
    for (const area of [question, right, wrong]) demand(area, area.value.trim(), "write_missing");
    if (right.value.trim() === wrong.value.trim()) demand(wrong, false, "write_missing");
  }
  if (status) {
    document.getElementById("cards").disabled = status.checked;
    document.getElementById("note").open ||= status.checked || Boolean(comment.value);
  }
  const best = main.querySelector("[value=best]:checked");
  main.querySelectorAll("[data-token]").forEach((card, place) => {
    const verdict = card.querySelector("[type=radio]:checked")?.value;
    const depends = card.querySelector("fieldset");
    depends.disabled = verdict !== "depends";
    card.querySelector("textarea").disabled = !card.querySelector("[value=false]").checked;
    demand(
      card.querySelector("[type=radio]"),
      verdict && (best || place),
      best ? "missing_other" : "missing",
    );
    demand(depends.querySelector("input"), depends.querySelector(":checked"), "missing_on");
  });
}

// Store what a reviewer says of themselves.
async function introduce({ name, region, places }) {
  const person = { name, region, places, language: chooser.value, consent: 1 };
  Object.assign(state, pack ? person : await ask("api/person", person));
  if (pack) state.total = state.items.filter(askable).length;
  remember();
}

// What a reviewer says of themselves in the form.
function person_in(form) {
  const data = new FormData(form);
  const said = ["lives", "grew_up", "knows"].flatMap((name) => data.getAll(name));
  const places = [...new Set(said.filter(Boolean))];
  return { name: data.get("name"), region: data.get("region"), places };
}

// People are asked about the whole country, and about the regions that they know.
function askable({ region }) {
  const known = state.places ?? [];
  return !region || known.some((place) => place === region || place.startsWith(`${region}-`));
}

// The regions of the form.
function offer(regions) {
  document.getElementById("places").hidden = !regions.length;
  for (const select of main.querySelectorAll("select")) {
    const other = Object.assign(new Option("", ""), { selected: !select.multiple });
    other.dataset.say = "elsewhere";
    if (!select.multiple) select.add(other);
    for (const { code, name } of regions) select.add(new Option(name, code));
  }
}

// Two reviews on one host have people of their own, and two people on one device have answers of
// their own.
const shared = new Device(pack ? pack.fingerprint.slice(0, 16) : location.pathname);

// The people who have answered on this device, the last one first.
function people() {
  const ids = shared.read("people") ?? [shared.read("reviewer")];
  return ids.map((id) => new Device(id).read("state")).filter((person) => person?.consent);
}

// Keep who answers here.
function remember() {
  const others = people().map(({ reviewer }) => reviewer).filter((id) => id !== state.reviewer);
  shared.write("reviewer", state.reviewer);
  shared.write("people", [state.reviewer, ...others]);
  device.write("state", state);
}

// From here on a person answers.
function take(person) {
  state = person;
  device = new Device(state.reviewer);
  const inside = shuffled(pack?.items ?? []).map((item) => ({
    ...item,
    shown: shuffled(item.shown),
  }));
  state.items = device.read("state")?.items ?? inside;
  chooser.value = state.language || state.suggested || DATA.language;
  navigator.storage?.persist?.().catch(() => {});
}

// A file is handed on with its device: whoever opens it says who they are.
function welcome() {
  show("consent", state);
  offer((pack ?? state).regions ?? []);
  const known = document.getElementById("known");
  const button = ({ reviewer, name }) => {
    const made = Object.assign(document.createElement("button"), { type: "button" });
    Object.assign(made.dataset, { say: "still_yes", reviewer, name: name || reviewer.slice(0, 4) });
    return made;
  };
  const buttons = pack ? people().map(button) : [];
  known.hidden = !buttons.length;
  known.lastElementChild.before(...buttons);
  refresh();
}

// The last answer of this device to each item.
function mine() {
  const counted =
    device?.events("waiting", "sent", "conflict").filter((event) => !event.question) ?? [];
  return new Map(counted.map((event) => [event.item, event]));
}

// The ids of what was answered, here or on another device.
function answered() {
  return new Set([...Object.keys(state.revisions), ...mine().keys()]);
}

// What a reviewer must decide about, one after another.
function held() {
  return device?.events("conflict", "refused")[0];
}

function open_items() {
  const done = answered();
  return state.items.filter((item) => !done.has(item.id) && askable(item));
}

async function next() {
  if (!pack && open_items().length < 5) {
    // Without a connection it goes on with what is here.
    const found = await ask("api/next", {}).catch(open_items);
    const known = mine();
    state.items = [
      ...state.items.filter(({ id }) => known.has(id)),
      ...found.filter(({ id }) => !known.has(id)),
    ];
    device.write("state", state);
  }
  const [item] = open_items();
  if (item) present(item);
  else show("done");
}

// The item before: back goes through what was answered on this device.
function earlier() {
  const known = mine();
  const list = (state?.items ?? []).filter((item) => known.has(item.id));
  const place = list.indexOf(view?.item);
  return place < 0 ? list.at(-1) : list[place - 1];
}

function present(item, answer = { opinions: {} }) {
  const before = device.read(`draft:${item.id}`) ?? answer;
  show("item", before);
  const last = mine().get(item.id);
  const base = Math.max(state.revisions[item.id] ?? 0, last ? (last.revision ?? last.base + 1) : 0);
  view = { item, base, active: 0 }; // an answer given now stands on this revision
  if (item.place)
    Object.assign(main.querySelector("h1").dataset, { say: "pick_title_in", place: item.place });
  const question = main.querySelector(".question");
  question.lang = item.language;
  question.textContent = item.turns.join("\n\n");
  const cards = item.shown.map((token, place) =>
    card(item, token, place + 1, before.opinions[token] ?? {}),
  );
  document.getElementById("cards").append(...cards);
  refresh();
}

function card(item, token, n, opinion) {
  const option = item.options.find((one) => one.token === token);
  const made = document.getElementById("card").content.firstElementChild.cloneNode(true);
  made.dataset.token = token;
  made.querySelector("legend").dataset.n = n;
  made.querySelector(".text").lang = option.language;
  made.querySelector(".text").append(...textOf(option, item.options));
  for (const input of made.querySelectorAll("[name]")) input.name += `-${token}`;
  fill(made, opinion);
  return made;
}

function collect() {
  const data = new FormData(main.querySelector("form"));
  const opinion = (token) => ({
    verdict: data.get(`verdict-${token}`),
    on: data.getAll(`on-${token}`),
    which: data.get(`which-${token}`) ?? "",
    natural: !data.has(`natural-${token}`),
    better: data.get(`better-${token}`) ?? "",
  });
  const opinions = data.has("status")
    ? []
    : view.item.shown.map((token) => [token, opinion(token)]);
  const status = data.get("status") ?? "answered";
  return { status, opinions: Object.fromEntries(opinions), comment: data.get("comment") };
}

function store(changes = {}) {
  if (!view) return; // a second click
  const { item, base, active } = view;
  const answer = { ...collect(), ...changes };
  device.keep({
    id: uuid(),
    item: item.id,
    shown: item.shown,
    base,
    answer,
    active_ms: Math.min(active, 86400000),
  });
  device.remove(`draft:${item.id}`);
  view = null;
  send();
  next();
}

// Keep a question of the reviewer's own like an answer; then the model is asked, if there is one.
async function storeOwn(form) {
  const { question, right, wrong } = Object.fromEntries(new FormData(form));
  const id = uuid();
  device.keep({ id, item: id, question, right, wrong });
  device.remove("written");
  form.reset();
  form.elements.question.focus();
  const [about, said] = form.querySelector("[role=status]").children;
  const report = (key) => {
    about.textContent = question.slice(0, 80);
    said.dataset.say = key;
    refresh();
  };
  report(state.model ? "beat_wait" : "write_thanks");
  await send();
  if (!state.model) return;
  const { verdict } = await ask("api/beat", { id }).catch(() => ({ verdict: "failed" }));
  report(`beat_${verdict.replace(" ", "_")}`);
}

// What the buttons do, by their words.
const ACTIONS = {
  start: (form) =>
    introduce(person_in(form)).then(next, () => scrollTo(0, 0)),
  still_yes: ({ dataset }) => {
    take(people().find(({ reviewer }) => reviewer === dataset.reviewer));
    remember();
    next();
  },
  save: () => store(),
  unknown: () => store({ status: "unknown", opinions: {} }),
  back: () => present(earlier(), mine().get(earlier().id).answer),
  write: () => show("own", device.read("written") ?? {}),
  write_save: storeOwn,
  write_back: next,
  again: () => (state ? next() : start()),
  save_file: saveFile,
  understood: () => device.remove(`event:${held().id}`),
  conflict_other: () => device.keep({ ...held(), answer: held().other, state: "sent" }),
  conflict_mine: () =>
    device.keep({ ...held(), base: held().revision, revision: undefined, state: "waiting" }),
};

document.addEventListener("click", ({ target }) => {
  if (target.type !== "button") return;
  ACTIONS[target.dataset.say](target);
  refresh();
  send();
});
document.addEventListener("submit", (event) => {
  event.preventDefault();
  ACTIONS[event.submitter.dataset.say](event.target);
});
main.addEventListener("input", ({ target }) => {
  if (target.value === "best")
    // only one is best
    for (const other of main.querySelectorAll("[value=best]:checked"))
      other.checked = other === target;
  check();
  if (view) device.write(`draft:${view.item.id}`, collect());
  else if (target.form.elements.question)
    device.write("written", Object.fromEntries(new FormData(target.form)));
});
chooser.addEventListener("change", () => {
  refresh();
  if (state?.consent) introduce(state).catch(() => {});
});
setInterval(() => {
  if (view && !document.hidden) view.active += 100;
}, 100);
setInterval(send, 15000);
addEventListener("online", send);
addEventListener("storage", refresh); // another window of this device has answered

async function start() {
  const own = navigator.language.slice(0, 2);
  chooser.value = own in DATA.texts ? own : "en";
  if (pack) {
    take({ reviewer: uuid(), total: pack.items.length, revisions: {} });
    return welcome();
  }
  const kept = new Device(shared.read("reviewer")).read("state");
  const token = location.hash.slice(1);
  const link = token.slice(0, 8); // it names a link, and opens nothing
  try {
    if (token) await ask("api/enter", { token });
    state = await ask("api/me", {});
  } catch {
    if (problem === "offline" && (!token || link === shared.read("link"))) state = kept;
    if (!state) return show("done");
  }
  take(state);
  if (token) {
    shared.write("link", link);
    // A screenshot or a shared address must not give it away.
    history.replaceState(null, "", location.pathname);
  }
  if (!problem) compare({ ...state.revisions, ...state.written });
  remember();
  send();
  // A reload offline; it needs https.
  navigator.serviceWorker?.register("worker.js").catch(() => {});
  if (state.consent) return next();
  welcome();
}

start().finally(() => {
  chooser.disabled = false;
  document.documentElement.dataset.ready = "yes";
});
