// The model and the device graph: boxes placed beforehand; panned, zoomed, searched and selected here.
const BOX = 96, LAYER = 46;  // pixels of a box with its gap, and of a layer, at scale 1
const READABLE = 0.7, MAP = 150;  // the scale from which types can be read; pixels of the whole graph in small

function graphs() {
  const host = section("graph"), known = report.data.graphs;
  let graph = known[0], scale = 1, left = 0, top = 0, hits = [], at = -1;
  const said = element("span", { role: "status", className: "note" });
  const find = element("input", { type: "search", oninput: () => search(), onkeydown: event => { if (event.key === "Enter") next(); } });
  const which = menu("graph", known.map(one => one.name), index => open(index));
  host.append(element("div", { className: "bar" }, which.label, element("label", {}, "find ", find),
    element("button", { onclick: () => fit() }, "whole graph"), said));

  const X = x => (x * BOX - left) * scale, Y = layer => (layer * LAYER - top) * scale;
  function draw(g, w, h) {
    const ink = css("--ink");
    g.fillStyle = ink;
    if (graph.refused) { g.fillText(`${graph.refused}: ascendsim.graph.dot.to_dot(graph) writes it as .dot.`, 12, 20); return; }
    g.strokeStyle = css("--faint");
    g.lineWidth = 0.8;
    g.beginPath();
    for (const [first, ...way] of graph.edges) {
      if (Y(first + way.length) < 0 || Y(first) > h) continue;
      g.moveTo(X(way[0]), Y(first));
      way.forEach((x, i) => i && g.lineTo(X(x), Y(first + i)));
    }
    g.stroke();
    const fills = [css("--lane"), css("--new"), css("--gone")], found = new Set(hits), mark = css("--mark");
    g.textAlign = "center";
    g.font = `${Math.max(7, 11 * scale)}px system-ui, sans-serif`;
    graph.types.forEach((type, i) => {
      const x = X(graph.x[i]), y = Y(graph.y[i]), wide = 84 * scale, high = 26 * scale;
      if (x < -wide || x > w + wide || y < -high || y > h + high) return;
      const mine = graph.op[i] >= 0 && isSelected(graph.run, graph.op[i]);
      g.fillStyle = found.has(i) ? mark : fills[graph.state[i]];
      g.fillRect(x - wide / 2, y - high / 2, wide, high);
      g.strokeStyle = ink;
      g.lineWidth = mine ? 3 : graph.state[i] ? 1 : 0.3;
      g.setLineDash(graph.state[i] === 2 ? [4, 3] : []);
      g.strokeRect(x - wide / 2, y - high / 2, wide, high);
      if (scale > 0.45) { g.fillStyle = found.has(i) ? "#202428" : ink; g.fillText(type.length > 14 ? `${type.slice(0, 13)}…` : type, x, y + 4 * scale, wide - 4); }
    });
    g.setLineDash([]);
    g.textAlign = "left";
    overview(g, w, h);
  }
  /** Where the whole graph in small stands: pixels a box and a layer, and its left end; null while all of it is in sight. */
  function small(w, h) {
    if (graph.refused || (X(-0.5) >= 0 && X(graph.width + 0.5) <= w && Y(-0.5) >= 0 && Y(graph.layers) <= h)) return null;
    const wide = Math.min(MAP, 8 * (graph.width + 1));
    return { x: wide / (graph.width + 1), y: (h - 8) / graph.layers, left: w - wide - 4 };
  }
  function overview(g, w, h) {
    const map = small(w, h);
    if (!map) return;
    const high = Math.max(map.y * 0.7, 0.7), wide = Math.max(map.x * 0.8, 1.5);
    g.globalAlpha = 0.92;
    g.fillStyle = css("--paper");
    g.fillRect(map.left - 4, 0, w, h);
    g.globalAlpha = 1;
    graph.types.forEach((type, i) => {
      const mine = graph.op[i] >= 0 && isSelected(graph.run, graph.op[i]);
      g.fillStyle = mine ? css("--ink") : hits.includes(i) ? "#d39b00" : css("--faint");
      g.fillRect(map.left + (graph.x[i] + 0.1) * map.x, 4 + graph.y[i] * map.y, wide, high);
    });
    const [l, t] = [left / BOX + 0.5, top / LAYER + 0.5], [r, b] = [l + w / scale / BOX, t + h / scale / LAYER];
    const [x0, x1] = [Math.max(l, 0), Math.min(r, graph.width + 1)], [y0, y1] = [Math.max(t, 0), Math.min(b, graph.layers)];
    g.strokeStyle = css("--ink");
    g.lineWidth = 1.5;
    g.strokeRect(map.left + x0 * map.x, 4 + y0 * map.y, Math.max(x1 - x0, 0) * map.x, Math.max(y1 - y0, 0) * map.y);
  }
  const view = picture(host, "graph before and after fusion", () => 480, draw), canvas = view.canvas;
  const size = () => [canvas.clientWidth || 1200, 480];
  function fit() {
    const [w, h] = size();
    scale = Math.min(1, w / ((graph.width + 1) * BOX || 1), h / ((graph.layers + 1) * LAYER || 1));
    left = graph.width * BOX / 2 - w / scale / 2;
    top = (graph.layers - 1) * LAYER / 2 - h / scale / 2;
    view.redraw();
  }
  function open(index) {
    graph = known[index];
    which.list.value = String(index);
    fit();
    if (!graph.refused && scale < READABLE) {  // too much for one look: where the time goes, and the whole of it in small
      const times = column(report.runs[graph.run], "Time(us)");
      let longest = -1;
      graph.op.forEach((op, i) => { if (op >= 0 && (longest < 0 || times[op] > times[graph.op[longest]])) longest = i; });
      scale = READABLE;
      if (longest >= 0) centre(longest);
    }
    search();
  }
  function centre(i) {
    const [w, h] = size();
    scale = Math.max(scale, 0.6);
    left = graph.x[i] * BOX - w / scale / 2;
    top = graph.y[i] * LAYER - h / scale / 2;
  }
  function search() {
    const wanted = find.value.toLowerCase();
    hits = !wanted || graph.refused ? [] : graph.names.map((name, i) => i).filter(i =>
      graph.names[i].toLowerCase().includes(wanted) || graph.types[i].toLowerCase().includes(wanted));
    at = -1;
    const alone = (graph.state ?? []).filter(state => state).length;
    const what = graph.device ? "not in the model" : "not in the device graph";
    said.textContent = wanted ? `${hits.length} found, Enter for the next` : `${graph.count} nodes, ${alone} ${what}`;
    if (hits.length) next(); else view.redraw();
  }
  function next() {
    if (!hits.length) return;
    at = (at + 1) % hits.length;
    centre(hits[at]);
    said.textContent = `${at + 1} of ${hits.length}: ${graph.names[hits[at]]}`;
    view.redraw();
  }
  function under(event) {
    return graph.refused ? -1 : graph.types.findIndex((type, i) =>
      Math.abs(X(graph.x[i]) - event.offsetX) < 42 * scale && Math.abs(Y(graph.y[i]) - event.offsetY) < 13 * scale);
  }
  function zoom(factor, x, y) {
    const wanted = Math.min(Math.max(scale * factor, 0.01), 4);
    left += x / scale - x / wanted;
    top += y / scale - y / wanted;
    scale = wanted;
    view.redraw();
  }
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.001), event.offsetX, event.offsetY);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("mousedown", event => {
    const [w, h] = size(), map = small(w, h);
    if (map && event.offsetX >= map.left) {  // a click in the small graph goes there
      left = ((event.offsetX - map.left) / map.x - 0.5) * BOX - w / scale / 2;
      top = ((event.offsetY - 4) / map.y - 0.5) * LAYER - h / scale / 2;
      drag = null;
      view.redraw();
      return;
    }
    drag = { x: event.offsetX, y: event.offsetY, left, top, moved: false };
  });
  canvas.addEventListener("mousemove", event => {
    if (drag && event.buttons) {
      left = drag.left + (drag.x - event.offsetX) / scale;
      top = drag.top + (drag.y - event.offsetY) / scale;
      drag.moved ||= Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 3;
      view.redraw();
      return;
    }
    const i = under(event);
    if (i >= 0) said.textContent = `${graph.names[i]} (${graph.types[i]})`;
  });
  canvas.addEventListener("mouseup", event => {
    const i = drag && !drag.moved ? under(event) : -1;
    if (i >= 0) select(graph.run, graph.op[i], "graph");
    drag = null;
  });
  canvas.addEventListener("keydown", event => {
    const [w, h] = size(), act = { w: () => zoom(1.4, w / 2, h / 2), s: () => zoom(1 / 1.4, w / 2, h / 2),
      a: () => { left -= 120 / scale; view.redraw(); }, d: () => { left += 120 / scale; view.redraw(); },
      ArrowUp: () => { top -= 80 / scale; view.redraw(); }, ArrowDown: () => { top += 80 / scale; view.redraw(); } }[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { act(); event.preventDefault(); }
  });
  legend(host, [["in both graphs", "var(--lane)"], ["made by the compiler (thin frame)", "var(--new)"],
    ["vanished from the model (dashed)", "var(--gone)"], ["found", "var(--mark)"]]);
  open(known.reduce((last, one, i) => (one.run === report.run ? i : last), 0));
  report.listeners.push(from => {
    if (from !== "graph" && report.selected && !graph.refused) {
      let index = known.indexOf(graph);
      if (graph.run !== report.selected.run) index = known.findIndex(one => one.run === report.selected.run && !one.refused);
      if (index >= 0) {
        if (known[index] !== graph) open(index);
        const i = graph.op.indexOf(report.selected.op);
        if (i >= 0) centre(i);
      }
    }
    view.redraw();
  });
  report.drawn.graph = { find: text => { find.value = text; search(); return hits.length; }, next, open,
    at: () => at < 0 ? null : graph.names[hits[at]], view: () => [left, top, scale] };
}
