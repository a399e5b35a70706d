"use strict";
// The page works without this: it brings the first screen up to date, and copies command lines.

const reader = new DOMParser();

function show(event) {
  const fresh = reader.parseFromString(event.data, "text/html").getElementById("now");
  const now = document.getElementById("now");
  if (!fresh || now.contains(document.activeElement)) return;
  // What somebody has opened stays open.
  for (const one of now.querySelectorAll("details[open]")) {
    const figure = fresh.querySelector("#" + CSS.escape(one.closest("figure").id) + " details");
    if (figure) figure.open = true;
  }
  now.replaceWith(document.adoptNode(fresh));
}

function listen() {
  const events = new EventSource("events");
  events.addEventListener("now", show);
  const mark = (is_lost) => document.body.classList.toggle("lost", is_lost);
  events.addEventListener("open", () => mark(false));
  events.addEventListener("error", () => mark(true));
}

function offer(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

document.querySelectorAll(".copy").forEach(offer);
listen();
