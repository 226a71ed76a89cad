"use strict";
// Words and fields of the templates in review.html. Every text goes into the document as text,
// never as markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
// The page as a file: it has its items inside, and sends nothing.
const pack = DATA.items ? DATA : null;
const chooser = document.querySelector("select");
for (const one of Object.keys(DATA.texts))
  chooser.add(new Option(new Intl.DisplayNames(one, { type: "language" }).of(one), one));

function say(key, values = {}) {
  return DATA.texts[chooser.value][key].replace(/\{(\w+)\}/g, (whole, name) => values[name]);
}

// Whatever has data-say says these words in the chosen language, with the values of its other data.
function tell() {
  document.documentElement.lang = chooser.value;
  document.documentElement.dir = chooser.value === "ar" ? "rtl" : "ltr";
  chooser.setAttribute("aria-label", say("language"));
  for (const element of document.querySelectorAll("[data-say]")) {
    const text = element.hidden ? "" : say(element.dataset.say, element.dataset);
    // What is written again is read aloud again.
    if (element.textContent !== text) element.textContent = text;
  }
}

// Put an answer into its fields. They are called as the parts of the answer, in a card with a token
// behind.
function fill(root, answer) {
  for (const input of root.querySelectorAll("[name]")) {
    const value = answer[input.name.split("-")[0]] ?? "";
    if (["radio", "checkbox"].includes(input.type))
      input.checked = [value].flat().map(String).includes(input.value);
    else input.value = value;
  }
}

// Where the answers share most of their words, the others are marked: nobody should have to search
// for them.
function textOf(option, options) {
  if (!Intl.Segmenter) return [option.text];
  const split = new Intl.Segmenter(option.language, { granularity: "word" });
  const parts = ({ text }) => [...split.segment(text)];
  const others = options
    .filter((one) => one !== option)
    .map((one) => new Set(parts(one).map((part) => part.segment)));
  const own = (part) => part.isWordLike && others.some((known) => !known.has(part.segment));
  const found = parts(option);
  const length = found.filter(own).reduce((sum, part) => sum + part.segment.length, 0);
  if (!length || length * 2 >= option.text.length) return [option.text];
  const marked = (text) => Object.assign(document.createElement("mark"), { textContent: text });
  return found.map((part) => (own(part) ? marked(part.segment) : part.segment));
}
