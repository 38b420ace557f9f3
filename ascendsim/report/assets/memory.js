// The memory plan: address against time, a rectangle for every tensor while it lives, and the sum above.
function memoryPlan() {
  const host = section("memory"), strip = 60;
  nameRun(host);
  const mib = bytes => bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 1024).toFixed(1)} KiB`;
  const box = (m, i, w, h, end) => {
    const scale = (h - strip - 30) / Math.max(m.peak, 1), x = 10 + m.start[i] / end * (w - 20);
    return [x, h - 20 - (m.offset[i] + m.bytes[i]) * scale, Math.max(10 + m.stop[i] / end * (w - 20) - x, 0.7), Math.max(m.bytes[i] * scale - 0.5, 0.5)];
  };
  function draw(g, w, h) {
    const run = report.runs[report.run], m = run.memory, end = run.end || 1, ink = css("--ink");
    g.fillStyle = ink;
    if (!m) { g.fillText("There is no memory plan of the whole run: its pieces were planned when they ran.", 12, 20); return; }
    const most = Math.max(...m.live, 1), at = m.live.indexOf(Math.max(...m.live));
    g.fillStyle = css("--faint");
    m.live.forEach((bytes, i) => {
      const x = 10 + m.edges[i] / end * (w - 20), high = (strip - 22) * bytes / most;
      g.fillRect(x, strip - high, Math.max(10 + m.edges[i + 1] / end * (w - 20) - x, 0.7), high);
    });
    m.names.forEach((name, i) => {
      g.globalAlpha = 0.8;
      g.fillStyle = m.kinds[m.kind[i]][1];
      const [x, y, wide, high] = box(m, i, w, h, end);
      g.fillRect(x, y, wide, high);
      if (wide > 60 && high > 12) {
        g.globalAlpha = 1;
        g.fillStyle = inkOn(m.kinds[m.kind[i]][1]);
        g.fillText(fitted(g, wide - 7, name), x + 3, y + high / 2 + 4);
      }
    });
    g.globalAlpha = 1;
    if (at >= 0 && m.live.length) {
      const x = 10 + (m.edges[at] + m.edges[at + 1]) / 2 / end * (w - 20);
      g.strokeStyle = ink;
      g.setLineDash([4, 3]);
      g.strokeRect(x, 16, 0, h - 36);
      g.setLineDash([]);
      g.fillStyle = ink;
      g.textAlign = x > w / 2 ? "right" : "left";
      g.fillText(`${mib(m.bound)} alive at most`, x + (x > w / 2 ? -5 : 5), 13);
      g.textAlign = "left";
    }
    if (report.selected && report.selected.run === report.run) {
      const op = report.selected.op, start = column(run, "Start(us)")[op] * report.data.steps;
      g.strokeStyle = ink;
      g.lineWidth = 2;
      g.strokeRect(10 + start / end * (w - 20), strip, Math.max(column(run, "Time(us)")[op] * report.data.steps / end * (w - 20), 1), h - strip - 20);
    }
    g.fillStyle = ink;
    g.fillText(`${run.name}: ${mib(m.peak)} planned, weights apart, ${m.names.length} tensors`, 10, h - 6);
  }
  const said = element("p", { className: "note", role: "status" }, "Point at a tensor for its name; a click selects the task that makes it.");
  const view = picture(host, "memory plan over time", () => 340, draw);
  host.append(said);
  function under(event) {
    const run = report.runs[report.run], m = run.memory;
    if (!m) return -1;
    for (let i = m.names.length - 1; i >= 0; i--) {
      const [x, y, wide, high] = box(m, i, view.canvas.clientWidth, 340, run.end || 1);
      if (event.offsetX >= x && event.offsetX <= x + wide + 1 && event.offsetY >= y && event.offsetY <= y + high + 1) return i;
    }
    return -1;
  }
  view.canvas.addEventListener("mousemove", event => {
    const i = under(event), m = report.runs[report.run].memory;
    if (i >= 0) said.textContent = `${m.names[i]} (${m.kinds[m.kind[i]][0]}): ${mib(m.bytes[i])} at ${m.offset[i]}, from ${written(m.start[i] / report.data.steps)} to ${written(m.stop[i] / report.data.steps)} us`;
  });
  view.canvas.addEventListener("click", event => {
    const i = under(event), run = report.runs[report.run];
    if (i < 0) return;
    const start = run.memory.start[i] / report.data.steps, starts = column(run, "Start(us)");
    const op = starts.findIndex(time => time >= start - 0.001);
    if (op >= 0) select(report.run, op, "memory");
  });
  const known = report.runs.find(run => run.memory);
  if (known) legend(host, known.memory.kinds);
  report.listeners.push(view.redraw);
}
