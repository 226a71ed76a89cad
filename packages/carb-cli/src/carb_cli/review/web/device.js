"use strict";
// What this device keeps: items, drafts, and every answer until it is known to be stored. One key for each answer, so
// that two windows never overwrite each other's; the server counts an answer once, however often it is sent.

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
    const text = this.memory.get(name) ?? this.disk?.getItem(this.prefix + name);
    return text ? JSON.parse(text) : null;
  }

  write(name, value) {
    const text = JSON.stringify(value);
    try {
      this.disk.setItem(this.prefix + name, text);
      this.memory.delete(name);
    } catch {
      this.memory.set(name, text); // there is no disk, or it is full
    }
  }

  remove(name) {
    this.memory.delete(name);
    this.disk?.removeItem(this.prefix + name);
  }

  // All answers given on this device, oldest first.
  events() {
    const stored = Object.keys(this.disk ?? {}).filter((key) => key.startsWith(this.prefix));
    const names = new Set([...this.memory.keys(), ...stored.map((key) => key.slice(this.prefix.length))]);
    const found = [...names].filter((name) => name.startsWith("event:")).map((name) => this.read(name));
    return found.filter(Boolean).sort((a, b) => a.number - b.number);
  }

  // Keep an answer before anything is sent.
  keep(event) {
    const numbers = this.events().map((one) => one.number);
    this.write(`event:${event.id}`, { state: "waiting", number: Math.max(0, ...numbers) + 1, ...event });
  }

  mark(event, state, more = {}) {
    this.write(`event:${event.id}`, { ...event, ...more, state });
  }

  // The last answer of this device to an item.
  last(item) {
    return this.events().filter((event) => event.item === item && event.state !== "refused").at(-1) ?? null;
  }
}

// The end of a blob's address is a random UUID everywhere; crypto.randomUUID is missing on plain http.
function uuid() {
  const address = URL.createObjectURL(new Blob());
  URL.revokeObjectURL(address);
  return address.slice(-36);
}

function shuffled(list) {
  const drawn = list.map((one) => ({ one, place: Math.random() }));
  return drawn.sort((a, b) => a.place - b.place).map(({ one }) => one);
}

// The fields of an answer, or of a question that was written here, that are sent and saved; the others are this device's own notes.
function plain({ id, item, shown, base, answer, active_ms, question, right, wrong }) {
  return question ? { id, question, right, wrong } : { id, item, shown, base, answer, active_ms };
}

class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function ask(path, body, reviewer) {
  const headers = { "Content-Type": "application/json" };
  if (reviewer) headers["X-Reviewer"] = reviewer;
  const options = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(path, options); // throws without a connection
  const found = await response.json().catch(() => ({}));
  if (response.status >= 500) throw new Error(response.statusText); // a proxy without a server is no refusal
  if (!response.ok) throw new Refused(response.status, found.reason ?? String(response.status));
  return found;
}

// Sends what waits. A refused or contradicted answer stops no other one.
class Sender {
  constructor(device, reviewer, changed) {
    Object.assign(this, { device, reviewer, changed, running: null, pause: 1000, timer: null, problem: "" });
    addEventListener("online", () => this.send());
    document.addEventListener("visibilitychange", () => this.send());
  }

  waiting() {
    return this.device.events().filter((event) => event.state === "waiting");
  }

  batch() {
    const seen = new Set(); // one for each item: a later one stands on an earlier one's outcome
    return this.waiting().filter((event) => !seen.has(event.item) && seen.add(event.item)).slice(0, 5); // below the largest body
  }

  // Done when nothing waits any more that could be sent.
  send() {
    this.running ??= this.sendAll().finally(() => { this.running = null; });
    return this.running;
  }

  async sendAll() {
    clearTimeout(this.timer);
    try {
      for (let batch = this.batch(); batch.length; batch = this.batch()) {
        const outcomes = await ask("api/events", { events: batch.map(plain) }, this.reviewer);
        batch.forEach((event, place) => this.settle(event, outcomes[place]));
        this.pause = 1000;
        this.problem = "";
        this.changed();
      }
      this.problem = "";
    } catch (error) {
      this.failed(error);
      this.pause = Math.min(this.pause * 2, 30000);
      this.timer = setTimeout(() => this.send(), this.pause);
    }
    this.changed();
  }

  failed(error) {
    this.problem = error instanceof Refused && [401, 403].includes(error.status) ? "session_over" : "offline";
  }

  settle(event, { state, revision, reason, answer }) {
    if (state === "kept" || state === "known") this.device.mark(event, "sent", { revision });
    else if (state === "refused") this.device.mark(event, "refused", { reason });
    else
      for (const other of this.waiting().filter((one) => one.item === event.item))
        this.device.mark(other, "conflict", { revision, other: answer });
  }

  // Answers that a restored backup of the server has lost are sent again.
  compare(revisions) {
    const last = new Map(this.device.events().filter((one) => one.state === "sent").map((one) => [one.item, one]));
    for (const event of last.values())
      if ((revisions[event.item] ?? 0) < event.revision) this.device.mark(event, "waiting");
  }
}

function saveFile() {
  const { name, region, language, consent, reviewer } = state;
  const content = { form: "carb.review.answers/1", reviewer, person: { name, region, language, consent }, events: device.events().map(plain) };
  const url = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }));
  make("a", { href: url, download: `answers-${reviewer.slice(0, 8)}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
