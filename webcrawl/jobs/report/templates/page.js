"use strict";
// The page works without this script, which updates the first screen.

const reader = new DOMParser();
// By how many seconds the server's clock is ahead of ours, once it is known.
let ahead = NaN;

function tellAge() {
  if (Number.isNaN(ahead)) return;
  const now = Date.now() / 1000 + ahead;
  for (const one of document.querySelectorAll("[data-at]")) {
    const secs = Math.max(0, Math.round(now - one.dataset.at));
    one.textContent = one.textContent.replace(/\(.*\)$/, `(${secs} s ago)`);
  }
}

function show(event) {
  ahead = event.lastEventId - Date.now() / 1000;
  const fresh = reader.parseFromString(event.data, "text/html").getElementById("now");
  const now = document.getElementById("now");
  if (!fresh) return;
  const focused = document.activeElement;
  const kept = [...now.querySelectorAll("details, summary, .scroll")].map((one) => [one, one.scrollTop]);
  now.replaceWith(document.adoptNode(fresh));
  // Opened details, scroll positions and the focus stay as they were.
  for (const [one, top] of kept) {
    const other = fresh.querySelector(`#${CSS.escape(one.closest("figure").id)} ${one.localName}`);
    if (!other) continue;
    other.open = one.open;
    other.scrollTop = top;
    if (one === focused) other.focus({ preventScroll: true });
  }
  tellAge();
}

function listen() {
  const events = new EventSource("events");
  events.addEventListener("now", show);
  const mark = (is_lost) => document.body.classList.toggle("lost", is_lost);
  events.addEventListener("open", () => mark(false));
  events.addEventListener("error", () => mark(true));
}

listen();
setInterval(tellAge, 1000);
