"use strict";
// Zoom, search and keys of the flame graph. Its boxes stand in the order of the tree, each behind its caller.
(() => {
  const figure = document.querySelector(".flame");
  if (!figure) return;
  const chart = figure.querySelector(".frames");
  const search = document.getElementById("flame-search"), told = figure.querySelector(".window");
  const LETTER_PX = 7.3, LEAST_LETTERS = 4, LEAST_PX = 1;
  const frames = [...chart.querySelectorAll(".frame")].map((element, at) => ({
    element, at, level: Number(element.getAttribute("aria-level")), name: element.dataset.name,
    x: parseFloat(element.getAttribute("x")), width: parseFloat(element.getAttribute("width")),
    text: element.querySelector("text"),
  }));
  const past = []; // zooms, the last one at the end
  let zoomed = frames[0], current = frames[0];

  const callerOf = (frame) => frames.slice(0, frame.at).findLast(({ level }) => level === frame.level - 1);
  const callersOf = (frame) => (frame.level > 1 ? [...callersOf(callerOf(frame)), frame] : [frame]);
  const isInside = (frame, other) => frame.x >= other.x - 1e-3 && frame.x + frame.width <= other.x + other.width + 2e-3 && frame.level >= other.level;

  const name = ({ text, name: whole }, px) => {
    const fits = Math.floor((px - 8) / LETTER_PX);
    text.textContent = whole.length <= fits ? whole : fits > LEAST_LETTERS ? `${whole.slice(0, fits - 1)}…` : "";
  };
  const draw = () => {
    const around = new Set(callersOf(zoomed)), wide = chart.clientWidth || 1;
    for (const frame of frames) {
      const [x, width] = around.has(frame) ? [0, 100] : [(100 * (frame.x - zoomed.x)) / zoomed.width, (100 * frame.width) / zoomed.width];
      const px = (wide * width) / 100;
      const isShown = around.has(frame) || (isInside(frame, zoomed) && px >= LEAST_PX);
      frame.element.classList.toggle("hidden", !isShown);
      frame.element.setAttribute("x", `${x}%`);
      frame.element.setAttribute("width", `${width}%`);
      if (isShown) name(frame, px);
    }
  };
  const isShown = ({ element }) => !element.classList.contains("hidden");
  const focus = (frame) => {
    if (!frame || !isShown(frame)) return;
    current.element.tabIndex = -1;
    current = frame;
    frame.element.tabIndex = 0;
    frame.element.focus();
  };
  const zoom = (frame) => {
    if (frame === zoomed) return;
    past.push(zoomed);
    zoomed = frame;
    draw();
  };
  const whole = () => {
    past.length = 0;
    zoomed = frames[0];
    draw();
  };
  const back = () => {
    zoomed = past.pop() ?? frames[0];
    draw();
  };
  const beside = (by) => {
    const row = frames.filter((frame) => frame.level === current.level && isShown(frame));
    focus(row[row.indexOf(current) + by]);
  };
  const callee = () => focus(frames.slice(current.at + 1).find((frame) => frame.level === current.level + 1 && isInside(frame, current) && isShown(frame)));

  const keys = {
    ArrowDown: callee, ArrowUp: () => focus(callerOf(current)), ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
    Home: () => focus(frames[0]), Enter: () => zoom(current), Backspace: back, Escape: whole,
  };
  onKeys(chart, keys);
  const frameOf = (event) => frames.find(({ element }) => element === event.target.closest(".frame"));
  chart.addEventListener("click", (event) => {
    const frame = frameOf(event);
    if (!frame) return;
    zoom(frame);
    focus(frame);
  });
  document.getElementById("flame-whole").addEventListener("click", whole);

  const mark = () => {
    const wanted = search.value.trim().toLowerCase();
    const found = frames.filter((frame) => {
      const isFound = Boolean(wanted) && frame.name.toLowerCase().includes(wanted);
      frame.element.classList.toggle("found", isFound);
      return isFound;
    });
    chart.classList.toggle("searched", Boolean(wanted));
    told.textContent = wanted ? `${found.length} of ${frames.length} frames` : "";
  };
  onSearch(search, mark);
  addEventListener("resize", draw);
  draw();
})();
