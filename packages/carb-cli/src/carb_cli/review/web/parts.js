"use strict";
// What the page is built of. Every text goes into the document as text, never as markup.

function say(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

function number(value) {
  return new Intl.NumberFormat(state?.language || "en").format(value);
}

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") for (const [event, action] of Object.entries(value)) element.addEventListener(event, action);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function button(key, action, kind = "") {
  return make("button", { type: "button", className: kind, textContent: say(key), on: { click: action } });
}

function field(key, input) {
  return make("label", { className: "field" }, make("span", { textContent: say(key) }), input);
}

function choice(name, value, key, type = "radio", checked = false) {
  const input = make("input", { type, name, value, checked });
  return make("label", { className: type === "radio" ? "choice" : "tick" }, input, make("span", { textContent: say(key) }));
}

// Where the answers share most of their words, the others are marked: nobody should have to search for them.
function textOf(option, options) {
  const shown = make("p", { className: "text", lang: option.language, dir: "auto", textContent: option.text });
  if (!Intl.Segmenter) return shown;
  const split = new Intl.Segmenter(option.language, { granularity: "word" });
  const parts = ({ text }) => [...split.segment(text)];
  const others = options.filter((one) => one !== option).map((one) => new Set(parts(one).map((part) => part.segment)));
  const own = (part) => part.isWordLike && others.some((known) => !known.has(part.segment));
  const found = parts(option);
  const length = found.filter(own).reduce((sum, part) => sum + part.segment.length, 0);
  if (length && length * 2 < option.text.length)
    shown.replaceChildren(...found.map((part) => (own(part) ? make("mark", { textContent: part.segment }) : part.segment)));
  return shown;
}
