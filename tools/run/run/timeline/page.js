// The timeline of a page: draws the part of it that is visible, and joins spans and source lines.
// The data is written by html.rs: times are nanoseconds, spans are numbers in `data.spans`.
"use strict";

const data = JSON.parse(document.getElementById("timeline-data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const LABELS = 150, RIGHT = 118, TOP = 24, LANE = 22, GAP = 10, LETTER = 6.2;
const WORK = ["compute", "copy", "hidden", "exposed"];
const state = { from: 0, to: Math.max(data.end, 1), span: null, lines: [] };
const picture = document.getElementById("picture");
const tip = document.getElementById("tip");

function element(parent, name, attributes = {}, text = "") {
  const made = document.createElementNS(parent.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return parent.appendChild(made);
}

function isOn(id) { return document.getElementById(id).checked; }

// Four digits, as the tools print times.
function timeText(ns) {
  if (ns < 1000) return `${Math.round(ns)} ns`;
  const [value, unit] = ns < 1e6 ? [ns / 1e3, "us"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  return `${value.toPrecision(4)} ${unit}`;
}

// A time that is a multiple of a round step.
function roundTime(ns, step) {
  const [unit, word] = step < 1e3 ? [1, "ns"] : step < 1e6 ? [1e3, "us"] : step < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${Math.round(ns / unit)} ${word}`;
}

function spanName(span) {
  const [op, iteration] = [data.ops[span.op].text, data.iterations[span.iteration]];
  return iteration ? `${op}  ${iteration}` : op;
}

// ---- rows ----

function visibleRows() {
  const rows = [];
  let y = TOP;
  for (const [number, group] of data.groups.entries()) {
    const ranks = isOn("fold") ? [group.ranks[0]] : group.ranks;
    for (const rank of ranks) {
      const label = isOn("fold") ? group.label : `rank ${rank}`;
      for (const [position, row] of group.rows.entries()) {
        const name = isOn("fold") ? row.name : row.names[group.ranks.indexOf(rank)];
        rows.push({ group: number, position, rank, label: `${label}  ${name}`, spans: row.spans, exposed: row.exposed, y });
        y += LANE;
      }
      y += GAP;
    }
  }
  return { rows, bottom: y - GAP };
}

// The row of a span on a rank, or on the one that is drawn for it.
function rowOf(rows, span, rank) {
  const { group, position } = data.spans[span].home;
  const found = rows.filter((row) => row.group === group && row.position === position);
  return found.find((row) => row.rank === rank) ?? found[0];
}

function chartWidth() { return Math.max(picture.clientWidth || 800, 400) - LABELS - RIGHT; }
function xOf(ns) { return LABELS + (ns - state.from) / (state.to - state.from) * chartWidth(); }
function nsOf(x) { return state.from + (x - LABELS) / chartWidth() * (state.to - state.from); }

// The part of a statement that fits before its iteration, which tells the spans of a loop apart.
function fitLabel(span, columns) {
  const [op, iteration] = [data.ops[span.op].text, data.iterations[span.iteration]];
  const taken = iteration ? iteration.length + 2 : 0;
  const room = columns - taken;
  if (room >= Math.min(4, op.length)) {
    const short = op.length <= room ? op : `${op.slice(0, room - 1)}…`;
    return iteration ? `${short}  ${iteration}` : short;
  }
  return iteration && iteration.length <= columns ? iteration : "";
}

// ---- drawing ----

function drawPart(parent, kind, x, y, width, height) {
  const flat = !WORK.includes(kind);
  const [top, tall] = flat ? [y + height * 0.3, height * 0.4] : [y, height];
  element(parent, "rect", { class: kind, x, y: top, width: Math.max(width, 0.5), height: tall });
  if (kind === "exposed") element(parent, "rect", { class: "mark", x, y: top + tall - 3, width: Math.max(width, 0.5), height: 3 });
}

function drawAxis(bottom) {
  const least = (state.to - state.from) * 90 / chartWidth();
  const decade = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * decade).find((step) => step >= least) ?? 10 * decade;
  for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
    const x = xOf(at);
    element(picture, "path", { class: "tick", d: `M${x} ${TOP - 4}V${bottom}` });
    element(picture, "text", { class: "faint", x, y: TOP - 8 }, roundTime(at, step));
  }
}

function drawSpan(row, number) {
  const span = data.spans[number];
  const [left, right] = [Math.max(xOf(span.start), LABELS), Math.min(xOf(span.end), LABELS + chartWidth())];
  const classes = ["span"];
  if (state.span === number) classes.push("chosen");
  if (data.ops[span.op].lines.some((line) => state.lines.includes(line))) classes.push("of-line");
  const label = `${row.label}: ${spanName(span)}, ${timeText(span.end - span.start)} from ${timeText(span.start)}`;
  const group = element(picture, "g", { class: classes.join(" "), "data-span": number, "data-rank": row.rank, tabindex: -1, role: "button", "aria-label": label });
  for (const [kind, from, to] of span.parts) {
    const [a, b] = [Math.max(xOf(from), LABELS), Math.min(xOf(to), LABELS + chartWidth())];
    if (b >= LABELS && a <= LABELS + chartWidth()) drawPart(group, kind, a, row.y + 2, b - a, LANE - 4);
  }
  if (span.critical && isOn("path")) element(group, "rect", { class: "critical", x: left, y: row.y, width: Math.max(right - left, 1), height: 2.5 });
  element(group, "rect", { class: "edge", x: left, y: row.y + 1.5, width: Math.max(right - left, 1), height: LANE - 3 });
  const moving = span.parts.filter(([kind]) => WORK.includes(kind));
  if (moving.length === 0) return;
  const x = Math.max(xOf(moving[0][1]), LABELS);
  const text = fitLabel(span, Math.floor((Math.min(xOf(moving.at(-1)[2]), right) - x - 6) / LETTER));
  if (text) element(group, "text", { class: "on", x: x + 3, y: row.y + 15 }, text);
}

function drawRow(row) {
  const name = element(picture, "text", { class: "text", x: 2, y: row.y + 15 });
  const columns = Math.floor((LABELS - 8) / LETTER);
  name.textContent = row.label.length > columns ? `${row.label.slice(0, columns - 1)}…` : row.label;
  element(name, "title", {}, row.label);
  if (row.exposed > 0) {
    element(picture, "text", { class: "strong", x: LABELS + chartWidth() + 6, y: row.y + 15 }, `${timeText(row.exposed)} exposed`);
  }
  // Spans of a track are in order; of those that share a dot, the first of a kind is drawn.
  const drawn = new Map();
  for (const number of row.spans) {
    const span = data.spans[number];
    if (span.end < state.from) continue;
    if (span.start > state.to) break;
    const [dot, kind] = [Math.floor(xOf(span.start)), span.parts[0][0]];
    if (xOf(span.end) - xOf(span.start) < 1 && drawn.get(kind) === dot && state.span !== number) continue;
    drawn.set(kind, dot);
    drawSpan(row, number);
  }
}

function drawLine(a, b, x1, x2, kind, text) {
  if (!a || !b || Math.max(x1, x2) < LABELS || Math.min(x1, x2) > LABELS + chartWidth()) return;
  const [y1, y2] = [a.y + LANE / 2, b.y + LANE / 2];
  const group = element(picture, "g", {});
  element(group, "title", {}, text);
  element(group, "path", { class: kind, d: `M${x1} ${y1}L${x2} ${y2}` });
  element(group, "circle", { class: kind === "message" ? "message-end" : "dot", cx: x2, cy: y2, r: 2 });
}

function drawLines(rows) {
  for (const flow of isOn("flows") ? data.flows : []) {
    const wait = data.spans[flow.to];
    const end = Math.min(wait.end, Math.max(wait.start, flow.at));
    for (const row of rows.filter((row) => row.group === wait.home.group && row.position === wait.home.position)) {
      const from = rows.find((other) => other.rank === row.rank && other.group === row.group && other.position === flow.row);
      drawLine(from, row, xOf(flow.at), xOf(end), "arrow", spanName(wait));
    }
  }
  for (const message of data.messages) {
    if (!isOn("messages") && state.span !== message.send && state.span !== message.receive) continue;
    const [a, b] = [data.spans[message.send], data.spans[message.receive]];
    const [from, to] = [rowOf(rows, message.send, message.from), rowOf(rows, message.receive, message.to)];
    drawLine(from, to, xOf(a.start), xOf(b.end), "message", `rank ${message.from} to rank ${message.to}: ${spanName(a)}`);
  }
}

function draw() {
  const focused = document.activeElement?.dataset?.span;
  const { rows, bottom } = visibleRows();
  picture.replaceChildren();
  picture.setAttribute("height", bottom + 6);
  picture.classList.toggle("others", state.lines.length > 0);
  const hatch = element(element(picture, "defs"), "pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  element(hatch, "rect", { class: "pale", width: 5, height: 5 });
  element(hatch, "rect", { class: "stripe", width: 1.5, height: 5 });
  drawAxis(bottom);
  rows.forEach(drawRow);
  drawLines(rows);
  const reachable = picture.querySelector(`[data-span="${focused ?? state.span}"]`) ?? picture.querySelector(".span");
  reachable?.setAttribute("tabindex", 0);
  if (focused !== undefined) reachable?.focus();
}

// ---- spans and lines ----

function spanFacts(number) {
  const span = data.spans[number];
  const facts = [spanName(span), `${data.file}:${data.ops[span.op].lines[0]}, ${timeText(span.start)} to ${timeText(span.end)}: ${timeText(span.end - span.start)}${span.critical ? ", on the critical path" : ""}`];
  if (span.parts.length > 1 || span.parts[0][0] === "exposed") {
    facts.push(span.parts.map(([kind, from, to]) => `${timeText(to - from)} ${data.kinds[kind]}`).join(", "));
  }
  const amounts = [];
  if (span.bytes) amounts.push(`${span.bytes.toLocaleString("en")} bytes`);
  if (span.flop) amounts.push(`${span.flop.toLocaleString("en")} floating-point operations`);
  if (amounts.length) facts.push(amounts.join(", "));
  if (span.more.length) facts.push(`with ${span.more.map((op) => data.ops[op].text).join("; ")}`);
  const sides = data.messages.filter((message) => message.send === number || message.receive === number);
  const pairs = sides.slice(0, 8).map((message) => `rank ${message.from} → rank ${message.to}`);
  if (pairs.length) facts.push(`messages: ${pairs.join(", ")}${sides.length > 8 ? ", …" : ""}`);
  return facts.join("\n");
}

function showLines(lines) {
  document.querySelectorAll("#lines .selected").forEach((line) => line.classList.remove("selected"));
  lines.forEach((line) => document.getElementById(`L${line}`)?.classList.add("selected"));
  document.getElementById(`L${lines[0]}`)?.scrollIntoView({ block: "nearest" });
}

function selectSpan(number) {
  const span = data.spans[number];
  if (!span) return;
  [state.span, state.lines] = [number, []];
  showLines([span.op, ...span.more].flatMap((op) => data.ops[op].lines));
  document.getElementById("details").textContent = spanFacts(number);
  history.replaceState(null, "", `#span=${number}`);
  draw();
}

function selectLine(line) {
  const again = state.lines.includes(line);
  [state.span, state.lines] = [null, again ? [] : [line]];
  showLines(state.lines);
  const sum = data.sums[line];
  document.getElementById("details").textContent = again || !sum ? "" : `line ${line}: ${sum.text}`;
  history.replaceState(null, "", again ? "#" : `#L${line}`);
  draw();
}

function listSource() {
  const list = document.getElementById("lines");
  const used = new Set(data.ops.flatMap((op) => op.lines));
  data.source.forEach((text, at) => {
    const [line, sum] = [at + 1, data.sums[at + 1]];
    const entry = element(list, "li", { id: `L${line}` });
    element(entry, "span", { class: "number" }, String(line));
    element(entry, "span", { class: "loss", title: sum?.text ?? "" }, sum?.exposed ? timeText(sum.exposed) : "");
    element(entry, "code", {}, text || " ");
    if (!used.has(line)) return;
    entry.classList.add("used");
    entry.setAttribute("tabindex", 0);
    entry.addEventListener("click", () => selectLine(line));
    entry.addEventListener("keydown", (event) => { if (event.key === "Enter") selectLine(line); });
  });
}

function listLegend() {
  const used = new Set(data.spans.flatMap((span) => span.parts.map(([kind]) => kind)));
  for (const [kind, text] of Object.entries(data.kinds).filter(([kind]) => used.has(kind))) {
    const entry = element(document.getElementById("legend"), "li");
    const box = entry.appendChild(document.createElementNS(SVG, "svg"));
    drawPart(box, kind, 0, 0, 16, 12);
    entry.append(text);
  }
  if (!data.spans.some((span) => span.critical)) return;
  const entry = element(document.getElementById("legend"), "li");
  element(entry.appendChild(document.createElementNS(SVG, "svg")), "rect", { class: "critical", x: 0, y: 1, width: 16, height: 2.5 });
  entry.append("critical path");
}

// ---- moving ----

function zoomBy(factor, centre = (state.from + state.to) / 2) {
  const length = Math.min(Math.max((state.to - state.from) * factor, 10), Math.max(data.end, 1));
  const share = (centre - state.from) / (state.to - state.from);
  moveTo(centre - share * length, length);
}

function moveTo(from, length) {
  state.from = Math.min(Math.max(from, 0), Math.max(data.end, 1) - length);
  state.to = state.from + length;
  draw();
}

function spanAt(event) { return event.target.closest?.(".span"); }

function listenToPointer() {
  let drag = null;
  let moved = false;
  picture.addEventListener("pointerdown", (event) => { [drag, moved] = [{ x: event.clientX, from: state.from }, false]; });
  window.addEventListener("pointerup", () => { drag = null; picture.classList.remove("moving"); });
  picture.addEventListener("pointermove", (event) => {
    if (drag && Math.abs(event.clientX - drag.x) > 3) {
      const length = state.to - state.from;
      picture.classList.add("moving");
      [tip.hidden, moved] = [true, true];
      moveTo(drag.from - (event.clientX - drag.x) / chartWidth() * length, length);
      return;
    }
    const over = spanAt(event);
    tip.hidden = !over;
    if (!over) return;
    tip.textContent = spanFacts(Number(over.dataset.span));
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8)}px`;
  });
  picture.addEventListener("pointerleave", () => { tip.hidden = true; });
  picture.addEventListener("click", (event) => { if (spanAt(event) && !moved) selectSpan(Number(spanAt(event).dataset.span)); });
  picture.addEventListener("dblclick", (event) => {
    const span = data.spans[Number(spanAt(event)?.dataset.span)];
    if (span) moveTo(span.start - (span.end - span.start) * 0.1, Math.min((span.end - span.start) * 1.2 || 10, data.end));
  });
  picture.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomBy(event.deltaY > 0 ? 1.25 : 0.8, nsOf(event.clientX - picture.getBoundingClientRect().left));
  }, { passive: false });
}

function stepFrom(focused, key) {
  const shown = [...picture.querySelectorAll(".span")];
  const at = shown.indexOf(focused);
  if (key === "ArrowRight" || key === "ArrowLeft") return shown[at + (key === "ArrowRight" ? 1 : -1)];
  const top = (span) => span.getBoundingClientRect().top;
  const others = key === "ArrowDown" ? shown.slice(at) : shown.slice(0, at).reverse();
  return others.find((span) => Math.abs(top(span) - top(focused)) > LANE / 2);
}

function listenToKeys() {
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const focused = spanAt(event);
    if (event.key === "+") zoomBy(0.5);
    else if (event.key === "-") zoomBy(2);
    else if (event.key === "0") moveTo(0, Math.max(data.end, 1));
    else if (focused && (event.key === "Enter" || event.key === " ")) selectSpan(Number(focused.dataset.span));
    else if (focused && event.key.startsWith("Arrow")) stepFrom(focused, event.key)?.focus();
    else return;
    event.preventDefault();
  });
}

// Each span knows its row: the number of its group, and its position there.
function findHomes() {
  for (const [group, { rows }] of data.groups.entries()) {
    for (const [position, row] of rows.entries()) row.spans.forEach((span) => { data.spans[span].home = { group, position }; });
  }
}

function start() {
  findHomes();
  listSource();
  listLegend();
  listenToPointer();
  listenToKeys();
  document.getElementById("zoom-in").addEventListener("click", () => zoomBy(0.5));
  document.getElementById("zoom-out").addEventListener("click", () => zoomBy(2));
  document.getElementById("zoom-all").addEventListener("click", () => moveTo(0, Math.max(data.end, 1)));
  for (const id of ["fold", "path", "messages", "flows"]) document.getElementById(id).addEventListener("change", draw);
  window.addEventListener("resize", draw);
  const [, word, number] = location.hash.match(/^#(span=|L)(\d+)$/) ?? [];
  draw();
  if (word === "span=") selectSpan(Number(number));
  if (word === "L") selectLine(Number(number));
}

start();
