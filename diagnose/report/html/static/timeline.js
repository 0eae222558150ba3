"use strict";
// Zoom, pan and details of a drawing of lanes: of one step below, of several ranks in ranks.js, which has `ownKeys`.
const laneChart = (section, data, { drawn = () => {}, ownKeys = () => ({}) } = {}) => {
  const chart = section.querySelector(".timeline");
  const details = section.querySelector(".details");
  const windowText = section.querySelector(".window");
  const ticks = [...section.querySelectorAll(".ticks span")];
  let tracks = [...section.querySelectorAll(".lane[data-lane] .track")];
  const UNITS = 1e6, SHORTEST_PART = 5000, NEAR_PX = 5, READABLE_PX = 44;
  const narrow = matchMedia("(max-width: 720px)");
  let from = 0, to = data.length, chosen = null;

  const duration = (ns) => {
    const units = [["s", 1e9], ["ms", 1e6], ["us", 1e3]];
    const [name, size] = units.find(([, one]) => Math.abs(ns) >= one) ?? ["ns", 1];
    return `${(ns / size).toFixed(size === 1 ? 0 : size === 1e3 || to - from > size / 2 ? 1 : 3)} ${name}`;
  };
  const width = () => tracks[0].clientWidth || 1;
  const element = (className, left, right) => {
    const found = make("span", className);
    found.style.left = `${(100 * left) / width()}%`; // not in pixels: paper is as wide as it is
    found.style.width = `${(100 * (right - left)) / width()}%`;
    return found;
  };

  // The first slice of a lane that ends after a time.
  const firstAfter = (lane, time) => {
    let low = 0, high = lane.start.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.start[middle] + lane.length[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const texts = (lane, track) => {
    const scale = width() / (to - from);
    for (let i = firstAfter(lane, from); i < lane.start.length && lane.start[i] < to; i++) {
      const left = Math.max((lane.start[i] - from) * scale, 0);
      const right = Math.min((lane.start[i] + lane.length[i] - from) * scale, width());
      if (right - left < READABLE_PX) continue;
      if (data.waits?.has(lane.label[i])) continue; // too thin for a name
      const text = element("text", left, right);
      text.append(make("span", "", lane.count[i] > 1 ? `${lane.count[i]} short ones` : data.labels[lane.label[i]][0]));
      track.append(text);
    }
  };

  // On a narrow screen a name that does not fit its slice is left to the line below the drawing.
  const fit = () => {
    if (!narrow.matches) return;
    const cut = [...chart.querySelectorAll(".text")].filter(({ firstChild: name }) => name.scrollWidth > name.clientWidth);
    for (const text of cut) text.remove();
  };

  const mark = (lane, track, i) => {
    const scale = width() / (to - from);
    const left = (lane.start[i] - from) * scale;
    track.append(element("mark", left, left + lane.length[i] * scale));
  };

  const draw = () => {
    tracks.forEach((track, number) => {
      const unit = UNITS / data.length;
      track.querySelector("svg").setAttribute("viewBox", `${from * unit} 0 ${(to - from) * unit} 1`);
      for (const old of track.querySelectorAll(".text, .mark")) old.remove();
      texts(data.lanes[number], track);
      if (chosen && chosen.lane === number) mark(data.lanes[number], track, chosen.at);
    });
    fit();
    ticks.forEach((tick, i) => { tick.textContent = duration(from + ((to - from) * i) / (ticks.length - 1)); });
    const whole = from <= 0 && to >= data.length;
    drawn(from, to);
    windowText.textContent = whole ? "" : `${duration(to - from)} of ${duration(data.length)}`;
  };

  // Draws other lanes, in the same part of the step if it is the same step.
  const use = (next) => {
    const another = next.length !== data.length;
    data = next;
    tracks = [...section.querySelectorAll(".lane[data-lane] .track")];
    chosen = null;
    if (another) look(0, data.length);
    else draw();
  };

  const look = (start, end) => {
    const length = Math.min(Math.max(end - start, data.length / SHORTEST_PART), data.length);
    from = Math.min(Math.max(start, 0), data.length - length);
    to = from + length;
    draw();
  };
  const zoom = (factor, about = (from + to) / 2) => {
    const length = Math.min(Math.max((to - from) * factor, data.length / SHORTEST_PART), data.length);
    const start = about - ((about - from) / (to - from)) * length;
    look(start, start + length);
  };
  const pan = (share) => look(from + (to - from) * share, to + (to - from) * share);

  const describe = (lane, i) => {
    const [, full, key] = data.labels[lane.label[i]];
    const name = make("b", "", full);
    const merged = lane.count[i] > 1 ? `${lane.count[i]} short ones, most of it ` : "";
    const of = data.classes[key] ? `, ${data.classes[key]}` : "";
    const share = ((100 * lane.length[i]) / (lane.whole ?? data.length)).toFixed(1);
    const when = `: ${duration(lane.length[i])} (${share} % of this step) from ${duration(lane.start[i])}`;
    details.replaceChildren(`${lane.name}: ${merged}`, name, `${of}${when}`);
  };
  const choose = (lane, at) => {
    chosen = { lane, at };
    describe(data.lanes[lane], at);
    draw();
  };

  const timeAt = (event, track) => from + ((event.clientX - track.getBoundingClientRect().left) / width()) * (to - from);
  const sliceAt = (event) => {
    const track = event.target.closest?.(".track");
    const number = tracks.indexOf(track);
    if (number < 0) return null;
    const lane = data.lanes[number], time = timeAt(event, track), near = ((to - from) / width()) * NEAR_PX;
    const next = firstAfter(lane, time);
    const distance = (i) => Math.max(lane.start[i] - time, time - lane.start[i] - lane.length[i], 0);
    const best = [next - 1, next].filter((i) => i >= 0 && i < lane.start.length).sort((a, b) => distance(a) - distance(b))[0];
    return best !== undefined && distance(best) <= near ? { lane: number, at: best } : null;
  };

  const reveal = () => {
    const lane = data.lanes[chosen.lane], start = lane.start[chosen.at], end = start + lane.length[chosen.at];
    if (start < from || end > to) look((start + end - (to - from)) / 2, (start + end + (to - from)) / 2);
  };
  const step = (lanes, slices) => {
    const number = Math.min(Math.max((chosen?.lane ?? 0) + lanes, 0), data.lanes.length - 1);
    const lane = data.lanes[number];
    const time = chosen ? data.lanes[chosen.lane].start[chosen.at] : from;
    const at = chosen && !lanes ? chosen.at + slices : firstAfter(lane, time);
    choose(number, Math.min(Math.max(at, 0), lane.start.length - 1));
    reveal();
  };

  const keys = {
    ArrowRight: () => step(0, 1), ArrowLeft: () => step(0, -1), ArrowDown: () => step(1, 0), ArrowUp: () => step(-1, 0),
    "+": () => zoom(1 / 2, middle()), "=": () => zoom(1 / 2, middle()), "-": () => zoom(2, middle()), "0": () => look(0, data.length),
    Escape: () => chart.blur(),
  };
  const middle = () => {
    if (!chosen) return (from + to) / 2;
    const lane = data.lanes[chosen.lane];
    return Math.min(Math.max(lane.start[chosen.at] + lane.length[chosen.at] / 2, from), to);
  };
  Object.assign(keys, ownKeys(pan));
  chart.tabIndex = 0;
  chart.setAttribute("role", "application"); // its arrow keys act on the drawing
  onKeys(chart, keys);

  const buttons = { in: () => zoom(1 / 2, middle()), out: () => zoom(2, middle()), left: () => pan(-0.5), right: () => pan(0.5), reset: () => look(0, data.length) };
  for (const button of section.querySelectorAll("[data-zoom]")) button.addEventListener("click", buttons[button.dataset.zoom]);
  for (const button of section.querySelectorAll(".show")) {
    button.addEventListener("click", () => {
      const start = Number(button.dataset.start), length = Number(button.dataset.length);
      look(start - length, start + 2 * length);
      const number = data.lanes.findIndex((lane) => lane.start.includes(start) && lane.length[lane.start.indexOf(start)] === length);
      if (number >= 0) choose(number, data.lanes[number].start.indexOf(start));
      chart.scrollIntoView({ block: "nearest" });
    });
  }

  let dragged = null;
  chart.addEventListener("pointerdown", (event) => {
    if (event.button || !event.target.closest(".track")) return;
    dragged = { x: event.clientX, from, to, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (dragged) {
      const by = ((dragged.x - event.clientX) / width()) * (dragged.to - dragged.from);
      dragged.moved ||= Math.abs(dragged.x - event.clientX) > 3;
      if (dragged.moved) look(dragged.from + by, dragged.to + by);
      return;
    }
    const found = event.pointerType === "mouse" && chart.contains(event.target) && sliceAt(event);
    if (found && (found.lane !== chosen?.lane || found.at !== chosen?.at)) choose(found.lane, found.at);
  });
  addEventListener("pointerup", (event) => {
    const found = dragged && !dragged.moved && sliceAt(event);
    if (found) choose(found.lane, found.at);
    dragged = null;
  });
  addEventListener("pointercancel", () => { dragged = null; });
  chart.addEventListener("dblclick", (event) => {
    const track = event.target.closest(".track");
    if (track) zoom(event.shiftKey ? 4 : 1 / 4, timeAt(event, track));
  });
  chart.addEventListener("wheel", (event) => {
    const track = event.target.closest(".track");
    if (!track || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(2 ** (event.deltaY / 200), timeAt(event, track));
  }, { passive: false });
  addEventListener("resize", draw);
  draw();
  return { use };
};

(() => {
  const source = document.getElementById("timeline-data");
  if (source) laneChart(document.getElementById("timeline"), JSON.parse(source.textContent));
})();
