// What is chosen stands in the address, after the #: a link shows what its sender saw, and the back
// button works.
const CHOICES = ["culture", "domain", "whose", "rival", "how", "sets", "find", "set"];
const chosen = Object.fromEntries(CHOICES.map((name) => [name, ""]));
const watchers = [];

const addressOf = (choices) => {
  const named = CHOICES.filter((name) => choices[name]).map((name) => [name, choices[name]]);
  return named.length ? `#${new URLSearchParams(named)}` : "#";
};
const showChoices = () => watchers.forEach((watcher) => watcher());
const readAddress = () => {
  const text = location.hash.slice(1);
  if (text && !text.includes("=")) return; // a section of the page: the choices stay
  const given = new URLSearchParams(text);
  for (const name of CHOICES) chosen[name] = given.get(name) ?? "";
  showChoices();
  if (!text) return;
  $("#sets").open = true;
  $("#sets").scrollIntoView();
};
// Typing replaces the last step of the history; everything else is a step of its own.
const choose = (changes, replace = false) => {
  const before = addressOf(chosen);
  Object.assign(chosen, { set: "" }, changes);
  const now = addressOf(chosen);
  if (now !== before) history[replace ? "replaceState" : "pushState"](null, "", now);
  showChoices();
};
// A control that holds a choice; a value that it has no option for is added, so that no link is
// silently ignored.
const bind = (control, name) => {
  control.addEventListener("change", () => choose({ [name]: control.value }));
  watchers.push(() => {
    const known =
      !control.options || [...control.options].some((option) => option.value === chosen[name]);
    if (!known) fill(control, [[chosen[name], chosen[name]]]);
    control.value = chosen[name];
  });
};
