// Lanes of all runs on one time axis. Spans are sorted and do not overlap: the first visible one is found by
// binary search, and a pixel gets one rectangle however many spans lie in it.
const NAMES = 190, HEAD = 20;  // pixels: names of lanes, line above the lanes of a run

function timelineLanes() {
  const lanes = [];
  report.runs.forEach((run, index) => {
    if (report.runs.length > 1) lanes.push({ run: index, name: `${run.name}, ${run.chip}`, head: true });
    for (const lane of run.lanes) {
      const s = summed(lane.s, report.data.steps);
      const e = s.map((start, i) => start + lane.d[i] / report.data.steps);
      lanes.push({ ...lane, run: index, s, e, op: summed(lane.op), head: false });
    }
  });
  return lanes;
}

function timeline() {
  const host = section("timeline"), lanes = timelineLanes();
  const end = Math.max(...report.runs.map(run => run.end / report.data.steps), 1e-3);
  const tall = lanes.length > 60 ? 16 : 24;
  const tops = [];
  let height = 2;
  for (const lane of lanes) { tops.push(height); height += lane.head ? HEAD : tall; }
  let from = 0, to = end, wanted = "", frames = 0;

  const find = element("input", { type: "search", oninput: event => { wanted = event.target.value.toLowerCase(); view.redraw(); } });
  const all = element("button", { onclick: () => { [from, to] = [0, end]; view.redraw(); } }, "whole run");
  const said = element("span", { className: "note" });
  host.append(element("div", { className: "bar" }, element("label", {}, "find ", find), all, said));

  function clamp() {
    const span = Math.min(to - from, end);
    from = Math.min(Math.max(from, 0), end - span);
    to = from + span;
  }
  function show(start, stop) { [from, to] = [start, stop]; clamp(); view.redraw(); }
  function zoom(factor, at) {
    const span = Math.max((to - from) * factor, 0.005);
    const start = at - (at - from) * span / (to - from);
    show(start, start + span);
  }
  function matches(run, op) {
    return !wanted || column(run, "Name")[op].toLowerCase().includes(wanted) ||
      column(run, "Type")[op].toLowerCase().includes(wanted);
  }

  function drawLane(g, lane, top, scale, w, colours) {
    const run = report.runs[lane.run], count = lane.s.length, room = tall - 4, base = top + tall - 2;
    for (let i = lowerBound(lane.e, from); i < count && lane.s[i] < to;) {
      const op = lane.op[i], x = Math.max((lane.s[i] - from) * scale, 0);
      const wide = Math.min((lane.e[i] - from) * scale, w) - x;
      const high = lane.h ? Math.max(room * lane.h[i] / 255, 1) : room;
      g.globalAlpha = matches(run, op) ? 1 : 0.15;
      g.fillStyle = colourOf(run, op);
      if (wide < 1) {
        g.fillRect(NAMES + Math.floor(x), base - high, 1, high);
        i = Math.max(lowerBound(lane.e, from + (Math.floor(x) + 1) / scale), i + 1);
        continue;
      }
      g.fillRect(NAMES + x, base - high, Math.max(wide - 0.4, 1), high);
      const begun = lane.b ? Math.min((lane.s[i] + lane.b[i] / report.data.steps - from) * scale, w) - x : 0;
      if (begun > 1.5) {
        g.fillStyle = colours.pale;
        g.fillRect(NAMES + x, base - high, begun, high);
      }
      if (wide > 30 && !lane.h) {
        g.fillStyle = inkOn(colourOf(run, op));
        const texts = lane.names ? [lane.names[lane.n[i]]] : [column(run, "Name")[op], column(run, "Type")[op]];
        g.fillText(fitted(g, wide - 7, ...texts), NAMES + x + 3, top + tall * 0.65);
      }
      i++;
    }
    g.globalAlpha = 1;
  }
  function drawSelected(g, w, scale) {
    if (!report.selected) return;
    const { run, op } = report.selected, start = column(report.runs[run], "Start(us)")[op];
    const x = (start - from) * scale, wide = column(report.runs[run], "Time(us)")[op] * scale;
    if (x > w || x + wide < 0) return;
    const mine = lanes.map((lane, i) => i).filter(i => lanes[i].run === run && !lanes[i].head);
    if (!mine.length) return;
    const left = Math.max(x, 0), top = tops[mine[0]], bottom = tops[mine[mine.length - 1]] + tall;
    g.strokeStyle = css("--ink");
    g.lineWidth = 2;
    g.strokeRect(NAMES + left, top, Math.max(Math.min(x + wide, w) - left, 2), bottom - top);
  }
  function draw(g, whole) {
    const w = whole - NAMES, scale = w / (to - from);
    const ink = css("--ink"), faint = css("--faint"), back = css("--lane");
    lanes.forEach((lane, i) => {
      const top = tops[i];
      g.fillStyle = ink;
      if (lane.head) {
        g.font = "bold 12px system-ui, sans-serif";
        g.fillText(lane.name, 4, top + HEAD * 0.7);
        g.font = "11px system-ui, sans-serif";
        return;
      }
      g.fillStyle = back;
      g.fillRect(NAMES, top + 2, w, tall - 4);
      g.fillStyle = ink;
      g.fillText(lane.name, 4, top + tall * 0.65, NAMES - 8);
      drawLane(g, lane, top, scale, w, { pale: "#ffffff80" });
    });
    drawSelected(g, w, scale);
    g.fillStyle = faint;
    const least = 10 ** Math.floor(Math.log10((to - from) / 10)), tick = least * [1, 2, 5, 10].find(k => least * k * 10 >= to - from);
    for (let k = Math.ceil(from / tick); k * tick <= to; k++) {
      const x = (k * tick - from) * scale;
      g.textAlign = x < 24 ? "left" : x > w - 30 ? "right" : "center";
      g.fillText(`${(k * tick).toFixed(Math.max(0, -Math.floor(Math.log10(tick) + 1e-9)))} us`, NAMES + x, height + 13);
    }
    g.textAlign = "left";
    frames++;
  }
  const view = picture(host, "timeline of the run", () => height + 20, draw);
  const canvas = view.canvas;
  const timeAt = event => from + (event.offsetX - NAMES) / (canvas.clientWidth - NAMES) * (to - from);
  function under(event) {
    const i = tops.findIndex((top, k) => event.offsetY >= top && event.offsetY < top + (lanes[k].head ? HEAD : tall));
    const lane = lanes[i];
    if (!lane || lane.head || event.offsetX < NAMES) return null;
    const time = timeAt(event), slack = (to - from) / (canvas.clientWidth - NAMES) * 2;
    const at = lowerBound(lane.e, time - slack);
    return at < lane.s.length && lane.s[at] <= time + slack ? { lane, at, run: lane.run, op: lane.op[at] } : null;
  }
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(Math.exp((event.deltaY || event.deltaX) * 0.002), timeAt(event));
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("mousedown", event => { drag = { x: event.offsetX, from, to, moved: false }; });
  canvas.addEventListener("mousemove", event => {
    if (drag && event.buttons) {
      const by = (event.offsetX - drag.x) / (canvas.clientWidth - NAMES) * (drag.to - drag.from);
      drag.moved ||= Math.abs(event.offsetX - drag.x) > 3;
      show(drag.from - by, drag.to - by);
      return;
    }
    const hit = under(event);
    const name = hit && hit.lane.names ? `${hit.lane.names[hit.lane.n[hit.at]]} of ` : "";
    said.textContent = hit ? name + describe(hit.run, hit.op) : "";
  });
  canvas.addEventListener("mouseup", event => {
    if (drag && !drag.moved) {
      const hit = under(event);
      select(hit ? hit.run : report.run, hit ? hit.op : null, "timeline");
    }
    drag = null;
  });
  canvas.addEventListener("keydown", event => {
    const middle = (from + to) / 2, span = to - from;
    const act = { w: () => zoom(0.7, middle), s: () => zoom(1 / 0.7, middle),
      a: () => show(from - span / 5, to - span / 5), d: () => show(from + span / 5, to + span / 5) }[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { act(); event.preventDefault(); }
  });
  note(host, "Click the picture, then: wheel or w, s to zoom, drag or a, d to move, left and right for the " +
    "task before and after. White part of a task: launch and dispatch. Height in lanes of pipes: busy share.");
  const present = new Set(report.runs.flatMap(run => column(run, "Kind")));
  legend(host, Object.entries(report.data.kinds).filter(([kind]) => present.has(kind)));
  report.listeners.push(who => {
    if (who !== "timeline" && report.selected) {
      const run = report.runs[report.selected.run], op = report.selected.op;
      const start = column(run, "Start(us)")[op], time = column(run, "Time(us)")[op];
      const span = Math.max(time * 4, end / 500);
      show(start + time / 2 - span / 2, start + time / 2 + span / 2);
    } else view.redraw();
  });
  report.drawn.timeline = { view: () => [from, to], show, zoom, frames: () => frames,
    spans: lanes.reduce((sum, lane) => sum + (lane.head ? 0 : lane.s.length), 0) };
}
