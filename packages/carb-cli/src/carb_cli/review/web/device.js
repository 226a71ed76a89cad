"use strict";
// What this device keeps: items, drafts, and every answer until it is known to be stored. One key
// for each answer, so that two windows never overwrite each other's; the server counts an answer
// once, however often it is sent.

class Device {
  constructor(scope) {
    this.prefix = `carb:${scope}:`;
    this.memory = new Map(); // what the disk did not take; it lives as long as the page
    try {
      this.disk = localStorage;
    } catch {
      this.disk = null; // private windows and some mail programs
    }
  }

  read(name) {
    const key = this.prefix + name;
    return JSON.parse(this.memory.get(key) ?? this.disk?.getItem(key) ?? null);
  }

  write(name, value) {
    const entry = [this.prefix + name, JSON.stringify(value)];
    try {
      this.disk.setItem(...entry);
      this.memory.delete(entry[0]);
    } catch {
      this.memory.set(...entry); // there is no disk, or it is full
    }
  }

  remove(name) {
    this.memory.delete(this.prefix + name);
    this.disk?.removeItem(this.prefix + name);
  }

  // The answers given on this device, oldest first: all, or those in one of some states.
  events(...states) {
    const keys = [...this.memory.keys(), ...Object.keys(this.disk ?? {})];
    const mine = keys.filter((key) => key.startsWith(`${this.prefix}event:`));
    const found = [...new Set(mine)].map((key) => this.read(key.slice(this.prefix.length)));
    const wanted = found.filter(
      (event) => event && (!states.length || states.includes(event.state)),
    );
    return wanted.sort((a, b) => a.number - b.number);
  }

  // Keep an answer before anything is sent, and later what became of it.
  keep(event) {
    const number = (this.events().at(-1)?.number ?? 0) + 1;
    this.write(`event:${event.id}`, { state: "waiting", number, ...event });
  }
}

// The end of a blob's address is a random UUID everywhere; crypto.randomUUID is missing on plain
// http.
const uuid = () => URL.createObjectURL(new Blob()).slice(-36);
const shuffled = (list) =>
  list
    .map((one) => [Math.random(), one])
    .sort()
    .map(([, one]) => one);

// What is sent and saved of an answer, or of a question that was written here; the rest are this
// device's notes.
function plain({ id, item, shown, base, answer, active_ms, question, right, wrong }) {
  return question ? { id, question, right, wrong } : { id, item, shown, base, answer, active_ms };
}

let problem = ""; // why the last request failed
let sending = null;

async function ask(path, body) {
  const headers = {
    "Content-Type": "application/json",
    ...(state && { "X-Reviewer": state.reviewer }),
  };
  let trouble = "offline";
  try {
    const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    const found = await response.json(); // a proxy without a server answers something else
    trouble = response.ok
      ? ""
      : ({ 401: "session_over", 403: "link_bad" }[response.status] ?? "offline");
    if (trouble) throw new Error(found.reason);
    return found;
  } finally {
    problem = trouble;
    refresh();
  }
}

// Send what waits, in one go at a time. Done when nothing waits any more that could be sent.
function send() {
  if (device && !pack)
    sending ??= sendAll()
      .catch(() => {})
      .finally(() => {
        sending = null;
      });
  return sending;
}

async function sendAll() {
  for (;;) {
    // One for each item, since a later one stands on an earlier one's outcome; few, to stay below
    // the largest body.
    const seen = new Set();
    const batch = device
      .events("waiting")
      .filter(({ item }) => !seen.has(item) && seen.add(item))
      .slice(0, 5);
    if (!batch.length) return;
    const outcomes = await ask("api/events", { events: batch.map(plain) });
    batch.forEach((event, place) => settle(event, outcomes[place]));
    refresh();
  }
}

// A refused or contradicted answer stops no other one, but those to the same item.
function settle(event, { state, revision, reason, answer }) {
  const same = device.events("waiting").filter((one) => one.item === event.item);
  for (const one of state === "conflict" ? same : [event])
    device.keep({
      ...one,
      revision,
      reason,
      other: answer,
      state: { kept: "sent", known: "sent" }[state] ?? state,
    });
}

// Answers that a restored backup of the server has lost are sent again.
function compare(revisions) {
  for (const event of device.events("sent"))
    if ((revisions[event.item] ?? 0) < event.revision) device.keep({ ...event, state: "waiting" });
}

function saveFile() {
  const { name, region, places, consent, reviewer } = state;
  const person = { name, region, places, language: chooser.value, consent };
  const content = {
    form: "carb.review.answers/1",
    reviewer,
    person,
    events: device.events().map(plain),
  };
  const href = URL.createObjectURL(
    new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }),
  );
  Object.assign(document.createElement("a"), {
    href,
    download: `answers-${reviewer.slice(0, 8)}.json`,
  }).click();
}
