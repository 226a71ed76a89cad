"use strict";
// Keeps the page itself for a reload without a connection. Answers and items are not its business.
const NAME = "carb-review-1";
const PARTS = ["./", "parts.js", "device.js", "app.js", "review.css"];

addEventListener("install", (event) =>
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(PARTS))),
);
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  const fresh = fetch(event.request).then((response) => {
    if (response.ok) {
      const copy = response.clone();
      event.waitUntil(caches.open(NAME).then((cache) => cache.put(event.request, copy)));
    }
    return response;
  });
  event.respondWith(fresh.catch(() => caches.match(event.request, { ignoreSearch: true })));
});
