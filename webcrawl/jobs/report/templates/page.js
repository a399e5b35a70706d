"use strict";
// The page works without this script, which replaces all its figures by newer ones.

const reader = new DOMParser();
const asked = new URLSearchParams(location.search);
// The commands and the answers stay as they are.
for (const name of ["url", "host", "said"]) asked.delete(name);
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

function replace(old, fresh) {
  const focused = document.activeElement;
  const kept = [...old.querySelectorAll("details, summary, .scroll")].map((one) => [one, one.scrollTop]);
  old.replaceWith(document.adoptNode(fresh));
  // Opened details, scroll positions and the focus stay as they were.
  for (const [one, top] of kept) {
    const other = fresh.querySelector(`#${CSS.escape(one.closest("figure").id)} ${one.localName}${one.className && "." + one.className}`);
    if (!other) continue;
    other.open = one.open;
    other.scrollTop = top;
    if (one === focused) other.focus({ preventScroll: true });
  }
}

async function update() {
  if (document.hidden) return;
  try {
    const answer = await fetch(`./?${asked}`);
    const fresh = reader.parseFromString(await answer.text(), "text/html");
    ahead = (Date.parse(answer.headers.get("Date")) - Date.now()) / 1000;
    for (const id of ["now", "further"])
      replace(document.getElementById(id), fresh.getElementById(id));
    tellAge();
    document.body.classList.remove("lost");
  } catch {
    document.body.classList.add("lost");
  }
}

setInterval(update, 5000);
setInterval(tellAge, 1000);
