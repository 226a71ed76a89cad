// Unpacks the data and starts the parts.
const unfold = () => {
  const named = location.hash.includes("=") ? null : document.getElementById(location.hash.slice(1));
  if (named?.tagName === "DETAILS") named.open = true;
};
addEventListener("hashchange", unfold);
unfold();
const start = async () => {
  const data = await unpack();
  readAddress();
  setPage(data, setList(data));
  showChoices();
  listenToAddress();
  if (["whose", "rival", "how", "find"].some((name) => chosen[name]) && !chosen.set) showSets();
  document.documentElement.dataset.ready = "yes";
};
start().catch((error) => {
  $("#fail-status").textContent = `The list of sets is off: ${error.message}. All tables are complete.`;
  document.documentElement.dataset.ready = "no";
});
