"use strict";
const at = (id) => document.getElementById(id);

async function enter() {
  const token = location.hash.slice(1);
  if (!token) return;
  const body = JSON.stringify({ token });
  const response = await fetch("api/enter", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (response.ok) history.replaceState(null, "", location.pathname);
}

async function refresh() {
  const response = await fetch("api/board").catch(() => null);
  if (!response?.ok) {
    at("status").textContent = response ? "This link is not valid, or no longer. Start the review again for a new one." : "No connection to the review.";
  } else {
    const board = await response.json();
    at("data").textContent = board.data;
    at("reviewers").replaceChildren(...board.reviewers.map((row) => {
      const line = document.createElement("tr");
      const last = row.last === null ? "–" : new Date(row.last * 1000).toLocaleString();
      for (const [place, text] of [row.name, row.answered, row.of, last].entries()) {
        const cell = document.createElement(place ? "td" : "th");
        if (!place) cell.scope = "row";
        cell.dir = "auto";
        cell.textContent = text;
        line.append(cell);
      }
      return line;
    }));
    const { keep, fix, retire, open } = board.verdicts;
    at("sets").textContent = `Verified so far: ${keep}. To fix: ${fix}. To retire: ${retire}. Too few reviews: ${open}. Reviews still needed: ${board.needed}.`;
    at("status").textContent = "";
  }
  document.documentElement.dataset.ready = "yes";
}

enter().then(refresh);
setInterval(refresh, 10000);
