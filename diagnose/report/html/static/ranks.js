"use strict";
// Several ranks in one step: which ranks and step are drawn, the streams of a rank, and lines at their collectives.
(() => {
  const source = document.getElementById("job-timeline-data");
  if (!source) return;
  const data = JSON.parse(source.textContent), waits = new Set(data.waits);
  const section = document.getElementById("job-timeline");
  const frame = section.querySelector(".timeline"), rows = section.querySelector(".rows");
  const details = section.querySelector(".details");
  const [ranks, step] = [...section.querySelectorAll("[data-choose]")];
  const UNITS = 1e6, opened = new Set();
  let current = null; // the chosen rank

  const stepData = () => data.steps[Number(step.value)];
  const shown = () => {
    const wanted = ranks.value === "late" ? data.late : [Number(ranks.value)];
    return stepData().rows.filter(({ rank }) => ranks.value === "all" || wanted.includes(rank));
  };

  // A lane as the chart reads it, from the gaps between its slices.
  const unpacked = (row, [name, kind, gap, length, label, count], i) => {
    let end = row.start;
    const start = gap.map((before, at) => { const begin = end + before; end = begin + length[at]; return begin; });
    return { rank: row.rank, row, kind, title: name, name: i ? `rank ${row.rank}, ${name}` : name, start, length, label, count: count.length ? count : gap.map(() => 1), whole: row.length };
  };
  const lanesOf = (row) => row.lanes.slice(0, opened.has(row.rank) ? undefined : 1).map((lane, i) => unpacked(row, lane, i));

  const svg = (name, attributes) => {
    const made = document.createElementNS(rows.querySelector("svg").namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const paths = (lane, whole) => {
    const byClass = new Map(), scale = UNITS / whole;
    lane.start.forEach((start, i) => {
      const key = data.labels[lane.label[i]][2] + (i % 2 ? " odd" : "");
      const width = Math.max(Math.round(lane.length[i] * scale), 1);
      const [top, high] = waits.has(lane.label[i]) ? [0.35, 0.3] : [0, 1];
      byClass.set(key, `${byClass.get(key) ?? ""}M${Math.round(start * scale)} ${top}h${width}v${high}h-${width}z`);
    });
    return [...byClass].map(([key, d]) => svg("path", { class: key, d }));
  };
  const band = ({ start, residual }, whole) => {
    const width = Math.max((2 * residual * UNITS) / whole, 1);
    return svg("path", { class: "doubt", d: `M${((start - residual) * UNITS) / whole} 0h${width}v1h-${width}z` });
  };
  const nameOf = (lane) => {
    if (lane.kind !== "rank") return make("span", "name", lane.title);
    const name = make("span", "name");
    const button = make("button", "open", lane.title);
    button.tabIndex = -1; // Enter in the drawing does the same
    button.setAttribute("aria-expanded", opened.has(lane.rank));
    button.addEventListener("click", () => { current = lane.rank; toggle(); });
    name.append(button);
    if (lane.row.late) name.append(" ", make("span", "tag late", "late"));
    return name;
  };
  const element = (lane, i, whole) => {
    const made = make("div", `lane ${lane.kind}${lane.kind === "rank" && lane.rank === current ? " current" : ""}`);
    made.dataset.lane = i;
    const track = make("span", "track");
    track.setAttribute("role", "img");
    track.setAttribute("aria-label", lane.kind === "rank" ? lane.row.text : lane.name);
    const drawing = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
    drawing.append(...paths(lane, whole));
    if (lane.kind === "rank") {
      made.dataset.rank = lane.rank;
      made.dataset.ms = lane.row.length / 1e6;
      if (lane.row.residual) drawing.append(band(lane.row, whole));
    }
    track.append(drawing);
    made.append(nameOf(lane), track);
    return made;
  };

  // The lines are over the rows, whose heights differ once streams lie between them.
  const lines = (from, to) => {
    const over = rows.querySelector(".meetings"), { length, meetings } = stepData();
    const height = rows.clientHeight || 1, unit = UNITS / length, top = rows.getBoundingClientRect().top;
    const places = new Map([...rows.querySelectorAll("[data-rank]")].map((row) => {
      const box = row.querySelector(".track").getBoundingClientRect();
      return [Number(row.dataset.rank), [box.top - top, box.height]];
    }));
    let joined = "", arrivals = "";
    for (const meeting of meetings) {
      const at = meeting.ranks.map((rank, i) => [Math.round(meeting.start[i] * unit), places.get(rank)]).filter(([, place]) => place);
      if (at.length > 1) joined += `M${at.map(([x, [y, high]]) => `${x} ${y + high / 2}`).join("L")}`;
      for (const [x, [y, high]] of at) arrivals += `M${x} ${y + 0.15 * high}v${0.7 * high}`;
    }
    over.setAttribute("viewBox", `${from * unit} 0 ${(to - from) * unit} ${height}`);
    over.querySelector(".joined").setAttribute("d", joined);
    over.querySelector(".arrivals").setAttribute("d", arrivals);
  };

  const lanes = () => {
    const { length } = stepData(), all = shown().flatMap(lanesOf);
    return { length, labels: data.labels, waits, classes: data.classes, lanes: all };
  };
  const redraw = () => {
    const next = lanes(), over = rows.querySelector(".meetings");
    rows.replaceChildren(...next.lanes.map((lane, i) => element(lane, i, next.length)), over);
    for (const part of section.querySelectorAll(".of-step")) part.hidden = part.dataset.step !== step.value;
    chart.use(next);
  };

  const rowOf = (rank) => shown().find((row) => row.rank === rank);
  const tell = () => {
    const row = rowOf(current), beside = row.lanes.length - 1;
    const open = opened.has(current) ? `; below it ${beside} lane${beside === 1 ? "" : "s"} of its streams and threads${row.left}` : "";
    details.textContent = row.text + open;
  };
  const choose = (by) => {
    const all = shown(), at = all.findIndex(({ rank }) => rank === current);
    current = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)].rank;
    for (const row of rows.querySelectorAll("[data-rank]")) row.classList.toggle("current", Number(row.dataset.rank) === current);
    rows.querySelector(".current").scrollIntoView({ block: "nearest" });
    tell();
  };
  const toggle = () => {
    if (!rowOf(current)) current = shown()[0].rank;
    if (!opened.delete(current)) opened.add(current);
    redraw();
    tell();
  };

  const ownKeys = (pan) => ({
    ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), ArrowUp: () => choose(-1), ArrowDown: () => choose(1),
    Enter: toggle,
  });
  const chart = laneChart(section, lanes(), { drawn: lines, ownKeys });
  for (const select of [ranks, step]) select.addEventListener("change", redraw);
  redraw();
})();
