// Tasks of the Cube under the chip's roof: operations a second over operations a DDR byte.
function roofline() {
  const host = section("roofline");
  let points = [];
  nameRun(host);
  function draw(g, w, h) {
    const run = report.runs[report.run], roof = run.roof, ink = css("--ink"), faint = css("--faint");
    const xs = column(run, "Cube operations a DDR byte"), ys = column(run, "TFLOP/s"), times = column(run, "Time(us)");
    const ops = xs.map((x, i) => i).filter(i => xs[i] > 0 && ys[i] > 0);
    points = [];
    g.fillStyle = ink;
    if (!roof.tflops || !roof.gb || !ops.length) { g.fillText("No task of this run used the Cube and DDR.", 12, 20); return; }
    const ridge = roof.tflops * 1000 / roof.gb;
    const low = ops.reduce((least, i) => Math.min(least, xs[i] / 1.5), ridge / 30);
    const high = ops.reduce((most, i) => Math.max(most, xs[i] * 1.5), ridge * 30);
    const floor = ops.reduce((least, i) => Math.min(least, ys[i] / 1.5), roof.tflops / 100), top = roof.tflops * 2;
    const X = x => 84 + Math.log(x / low) / Math.log(high / low) * (w - 104);
    const Y = y => h - 34 - Math.log(y / floor) / Math.log(top / floor) * (h - 54);
    g.fillStyle = faint;
    g.strokeStyle = css("--lane");
    g.textAlign = "center";
    for (let e = Math.ceil(Math.log10(low)); 10 ** e <= high; e++) { g.strokeRect(X(10 ** e), 12, 0, h - 46); g.fillText(written(10 ** e), X(10 ** e), h - 20); }
    g.fillText("Cube operations a DDR byte", 84 + (w - 104) / 2, h - 6);
    g.textAlign = "right";
    for (let e = Math.ceil(Math.log10(floor)); 10 ** e <= top; e++) { g.strokeRect(84, Y(10 ** e), w - 104, 0); g.fillText(`${written(10 ** e)} TFLOP/s`, 80, Y(10 ** e) + 4); }
    g.textAlign = "left";
    g.strokeStyle = ink;
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(X(Math.max(low, floor * 1000 / roof.gb)), Y(Math.max(low * roof.gb / 1000, floor)));
    g.lineTo(X(ridge), Y(roof.tflops));
    g.lineTo(X(high), Y(roof.tflops));
    g.stroke();
    g.fillStyle = ink;
    g.fillText(`${run.name}: Cube ${written(roof.tflops)} TFLOP/s, DDR ${written(roof.gb)} GB/s, ridge ${written(ridge)} operations a byte`, 90, 24);
    const longest = ops.reduce((most, i) => Math.max(most, times[i]), 0) || 1;
    for (const i of ops) {
      const x = X(xs[i]), y = Y(ys[i]), r = 3 + 9 * Math.sqrt(times[i] / longest), mine = isSelected(report.run, i);
      g.globalAlpha = 0.65;
      g.fillStyle = colourOf(run, i);
      g.beginPath();
      g.arc(x, y, r, 0, 7);
      g.fill();
      g.globalAlpha = 1;
      if (mine) { g.lineWidth = 3; g.stroke(); }
      points.push([x, y, r, i]);
    }
  }
  const view = picture(host, "roofline of the Cube's tasks", () => 400, draw);
  view.canvas.addEventListener("click", event => {
    let best = null, least = Infinity;
    for (const [x, y, r, i] of points) {
      const distance = Math.hypot(x - event.offsetX, y - event.offsetY) - r;
      if (distance < 8 && distance < least) { least = distance; best = i; }
    }
    if (best !== null) select(report.run, best, "roofline");
  });
  note(host, "One point a task, as large as its time; click one, or go through tasks with left and right.");
  report.listeners.push(view.redraw);
  report.drawn.roofline = { points: () => points.length };
}
