"use strict";
// What the other parts share. Texts of data and models reach the page through textContent alone.
const $ = (selector, from = document) => from.querySelector(selector);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const count = (number) => number.toLocaleString("en");
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const fill = (select, pairs) =>
  select.append(
    ...pairs.map(([value, text]) => {
      const option = make("option");
      option.value = value;
      option.textContent = text;
      return option;
    }),
  );

const unpack = async () => {
  if (typeof DecompressionStream === "undefined")
    throw new Error("this browser is too old to unpack the data");
  const bytes = Uint8Array.from(atob($("#payload").textContent), (character) =>
    character.charCodeAt(0),
  );
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

// Characters that would steer the line are shown as what they are.
const CONTROLS = "\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f";
const DIRECTIONS = "\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb";
const ODD = new RegExp(`[${CONTROLS}${DIRECTIONS}]`);
const visible = (part) => {
  const nodes = [];
  let plain = "";
  for (const character of part) {
    if (ODD.test(character)) {
      if (plain) nodes.push(plain);
      plain = "";
      const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      nodes.push(
        make("span", { class: "odd", title: "A control character of the text" }, `U+${code}`),
      );
    } else plain += character;
  }
  if (plain) nodes.push(plain);
  return nodes;
};
const block = (tag, attributes, language, [text, length]) => {
  const element = make(tag, { dir: "auto", ...attributes });
  if (/^[A-Za-z0-9-]+$/.test(language)) element.lang = language;
  element.append(...visible(text));
  if (length > text.length) {
    const rest = `${count(length - text.length)} further characters are not in this file`;
    element.append(make("span", { class: "odd" }, rest));
  }
  return element;
};
