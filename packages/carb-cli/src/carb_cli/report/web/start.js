// Unpacks the data and starts the parts.
const start = async () => {
  const data = await unpack();
  const read = reader(data);
  readAddress();
  leaderboard(data);
  consistency(data);
  setPage(data, read, setList(data, read));
  showChoices();
  listenToAddress();
  if (["whose", "rival", "how", "find"].some((name) => chosen[name]) && !chosen.set) $("#failures").scrollIntoView();
  document.documentElement.dataset.ready = "yes";
};
start().catch((error) => {
  $("#fail-status").textContent = `The filters and the list of sets are off: ${error.message}. All tables above are complete.`;
  document.documentElement.dataset.ready = "no";
});
