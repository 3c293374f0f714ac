// Refreshes the page when the server sends an event, and replaces the parts that have changed. Every page also works without this file.
"use strict";

const LOOK_AGAIN_MS = 10000;
const pulse = document.getElementById("pulse");
let isLooking = false;

function show(text, kind) {
  if (pulse.textContent !== text) pulse.textContent = text;
  pulse.className = `pulse ${kind}`;
}

function isBeingUsed(part) {
  const selection = document.getSelection();
  return part.contains(document.activeElement) && document.activeElement !== part
    || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

function putInPlace(text) {
  const next = new DOMParser().parseFromString(text, "text/html");
  const names = (doc) => [...doc.querySelectorAll("[data-live]")].map((part) => part.dataset.live).join();
  if (names(document) !== names(next)) {
    document.getElementById("main").replaceChildren(...next.getElementById("main").childNodes);
    document.title = next.title;
    return;
  }
  document.querySelectorAll(".more").forEach((one) => one.remove()); // so that they do not count as changes
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = next.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
    if (part.innerHTML === fresh.innerHTML || isBeingUsed(part)) continue;
    const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    part.replaceChildren(...fresh.childNodes);
    part.querySelectorAll(".scroll").forEach((one, n) => { one.scrollLeft = scrolled[n] || 0; });
  }
}

// Adds a hint below each table that is wider than the screen.
function sayWhereThereIsMore() {
  document.querySelectorAll(".more").forEach((one) => one.remove());
  for (const table of document.querySelectorAll(".scroll")) {
    if (table.scrollWidth <= table.clientWidth + 1) continue;
    const more = document.createElement("p");
    more.className = "more";
    more.textContent = "more columns to the right →";
    table.after(more);
  }
}

// The condition of the page that is shown, whose data may be old.
function showCondition() {
  if (document.querySelector("[data-away]")) show("unavailable", "bad");
  else show("live", "good");
}

async function look() {
  if (isLooking || document.hidden) return;
  isLooking = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    putInPlace(await answer.text());
    sayWhereThereIsMore();
    showCondition();
  } catch {
    show("the console does not answer", "bad");
  } finally {
    isLooking = false;
  }
}

sayWhereThereIsMore();
window.addEventListener("resize", sayWhereThereIsMore);

if (document.querySelector("[data-live]")) {
  const events = new EventSource("/events");
  events.addEventListener("open", showCondition);
  events.addEventListener("look", look);
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) setInterval(look, LOOK_AGAIN_MS);
    else show("the console does not answer", "bad");
  });
  window.addEventListener("pagehide", () => events.close());
}
