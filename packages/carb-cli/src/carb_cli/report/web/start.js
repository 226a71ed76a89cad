// Unpacks the data and starts the parts.
const unfold = () => {
  const named = location.hash.includes("=") ? null : document.getElementById(location.hash.slice(1));
  if (named?.tagName === "DETAILS") named.open = true;
};
addEventListener("hashchange", unfold);
unfold();
const start = async () => {
  const data = await unpack();
  const read = reader(data);
  readAddress();
  leaderboard(data);
  setPage(data, read, setList(data, read));
  showChoices();
  listenToAddress();
  if (["whose", "rival", "how", "find"].some((name) => chosen[name]) && !chosen.set) showSets();
  document.documentElement.dataset.ready = "yes";
};
start().catch((error) => {
  $("#lead-status").textContent = `The filters and the list of sets are off: ${error.message}. All tables are complete.`;
  document.documentElement.dataset.ready = "no";
});
