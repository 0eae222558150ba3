"use strict";
document.documentElement.classList.add("js");

// What all drawings and searches share.
const make = (tag, className, text = "") => {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  if (tag === "button") made.type = "button";
  return made;
};
const onKeys = (chart, keys) => chart.addEventListener("keydown", (event) => {
  const action = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
const onSearch = (search, show) => {
  search.addEventListener("input", show);
  onKeys(search, { Escape: () => { search.value = ""; show(); } });
};

// Copies the lines of a change; where the clipboard is closed they are selected for the user to copy.
(() => {
  const say = (button, text) => {
    button.textContent = text;
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  };
  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };
  const copySelected = (button, code) => {
    select(code);
    let copied = false;
    try { copied = document.execCommand("copy"); } catch { copied = false; }
    say(button, copied ? "Copied" : "Selected");
  };
  const copy = (button) => {
    const code = button.closest(".typed").querySelector("code");
    const text = [...code.querySelectorAll(".line")].map((line) => line.textContent).join("\n");
    if (!navigator.clipboard) return copySelected(button, code);
    navigator.clipboard.writeText(text).then(() => say(button, "Copied"), () => copySelected(button, code));
  };
  for (const button of document.querySelectorAll(".copy")) {
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", () => copy(button));
  }
})();

// A link to a finding opens it; paper shows everything that a click would.
(() => {
  const open = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", open);
  open();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open], .name, .every)")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
})();

// The figures of a point, beside its drawing.
(() => {
  for (const figure of document.querySelectorAll("figure")) {
    const details = figure.querySelector(".details");
    const show = (event) => {
      const found = event.target.closest("[data-tip], .frame");
      if (found) details.textContent = found.dataset.tip ?? found.querySelector("title").textContent;
    };
    for (const kind of ["pointerover", "focusin", "click"]) figure.addEventListener(kind, show);

    // Tab enters the points once, and arrows go from one to the next.
    const points = [...figure.querySelectorAll(".point")];
    const enter = (at) => points.forEach((point, i) => { point.tabIndex = i === at ? 0 : -1; });
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (points.length) enter(0);
    figure.addEventListener("keydown", (event) => {
      const at = points.indexOf(document.activeElement) + (by[event.key] ?? 0);
      if (!points.includes(document.activeElement) || !by[event.key]) return;
      event.preventDefault();
      enter(Math.min(Math.max(at, 0), points.length - 1));
      points.find((point) => point.tabIndex === 0).focus();
    });
  }
})();

// The link to the section that is on the screen.
(() => {
  const links = [...document.querySelectorAll("nav a[href^='#']")];
  const parts = links.map((link) => document.getElementById(link.hash.slice(1)));
  const seen = () => {
    const at = Math.max(parts.findLastIndex((part) => part.getBoundingClientRect().top <= innerHeight / 3), 0);
    links.forEach((link, i) => { i === at ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"); });
  };
  if (!links.length) return;
  addEventListener("scroll", seen, { passive: true });
  seen();
})();
