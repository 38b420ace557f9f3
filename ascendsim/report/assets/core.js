"use strict";
// What all views share: the data, the selected task, elements, canvases, and how numbers are written.
const report = { data: null, runs: [], run: 0, selected: null, listeners: [], drawn: {} };

/** An element with attributes and children; text becomes text nodes, never markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function section(id) { return document.getElementById(id); }

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

/** A cell as people read it. */
function written(value) {
  if (value === null || value === undefined) return "N/A";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return String(Number(size < 0.1 ? value.toPrecision(4) : value.toFixed(size < 100 ? 3 : 1)));
}

/** The cells of a column of the operators of a run. */
function column(run, title) { return run.ops.cells[run.ops.columns.indexOf(title)]; }

function colourOf(run, op) { return report.data.kinds[column(run, "Kind")[op]]; }

/** Black or white, whichever reads better on a colour. */
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map(at => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.25 ? "#fff" : "#000";
}

/** A name of at most `room` letters, without its middle if it is longer: the tail says more than the head. */
function middleCut(text, room) {
  if (text.length <= room) return text;
  const head = Math.floor((room - 1) * 2 / 5);
  return `${text.slice(0, head)}…${text.slice(text.length - (room - 1 - head))}`;
}

/** The first of some texts that has room, else the last one without its middle; nothing where three letters have none. */
function fitted(g, room, ...texts) {
  const whole = texts.find(text => g.measureText(text).width <= room);
  if (whole !== undefined) return whole;
  const last = texts[texts.length - 1];
  const letters = Math.floor(last.length * room / g.measureText(last).width);
  return letters < 4 ? "" : middleCut(last, letters);
}

/** One line on a task: what it is, how long, and what bounds it. */
function describe(run, op) {
  const r = report.runs[run], cell = title => written(column(r, title)[op]);
  const of = report.runs.length > 1 ? `${r.name}: ` : "";
  return `${of}${cell("Name")} (${cell("Type")}, ${cell("Kind")}): ${cell("Time(us)")} us from ` +
    `${cell("Start(us)")} us on ${cell("Engine")}, bound by ${cell("Bound by")}`;
}

/** Selects a task in all views; `from` is the view that asks, which stays where it is. */
function select(run, op, from) {
  const known = op !== null && op >= 0 && op < report.runs[run].ops.cells[0].length;
  report.selected = known ? { run, op } : null;
  if (known) report.run = run;
  section("selection").textContent = known ? describe(run, op) : "Nothing is selected.";
  for (const listener of report.listeners) listener(from);
}

function isSelected(run, op) {
  return report.selected !== null && report.selected.run === run && report.selected.op === op;
}

/** The task before (-1) or after (1) the selected one, in order of start. */
function step(by, from) {
  const { run, op } = report.selected ?? { run: report.run, op: by > 0 ? -1 : 1 };
  const count = report.runs[run].ops.cells[0].length;
  if (count) select(run, Math.min(Math.max(op + by, 0), count - 1), from);
}

/** Position of the first element of a rising array that is not below x. */
function lowerBound(array, x) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] < x) low = middle + 1; else high = middle;
  }
  return low;
}

/** Starts from the differences between them. */
function summed(deltas, scale = 1) {
  const sums = new Float64Array(deltas.length);
  let sum = 0;
  for (let i = 0; i < deltas.length; i++) sums[i] = (sum += deltas[i]) / scale;
  return sums;
}

/** A canvas that fills its section's width and is drawn at most once a frame. */
function picture(host, label, height, draw) {
  const canvas = element("canvas", { tabIndex: 0, role: "img", "aria-label": label });
  host.append(canvas);
  let waiting = false;
  const paint = () => {
    waiting = false;
    const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth || 1200, h = height();
    canvas.width = w * ratio;
    canvas.height = h * ratio;
    canvas.style.height = `${h}px`;
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = css("--paper");
    g.fillRect(0, 0, w, h);
    g.font = "11px system-ui, sans-serif";
    draw(g, w, h);
  };
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(paint);
  };
  canvas.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { step(by, "keys"); event.preventDefault(); }
  });
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  paint();
  return { canvas, redraw };
}

/** The name of the run that a view shows, beside its heading, where there are several. */
function nameRun(host) {
  if (report.runs.length < 2) return;
  const said = element("small", { className: "run" });
  host.querySelector("h2").append(" ", said);
  const show = () => { said.textContent = report.runs[report.run].name; };
  show();
  report.listeners.push(show);
}

function note(host, text) { host.append(element("p", { className: "note" }, text)); }

/** Swatches with names: colour never stands alone. */
function legend(host, entries) {
  const line = element("div", { className: "bar legend" });
  for (const [name, colour] of entries) {
    const entry = element("span", {}, name);
    entry.style.setProperty("--colour", colour);
    line.append(entry);
  }
  host.append(line);
}

/** A menu of names; calls back with the position. */
function menu(label, names, onPick) {
  const list = element("select", { onchange: event => onPick(Number(event.target.value)) });
  names.forEach((name, index) => list.add(new Option(name, String(index))));
  return { list, label: element("label", {}, `${label} `, list) };
}
