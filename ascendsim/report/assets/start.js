// The views that are text, and the start: data out of the page, then all views.
/** A figure with its thousands apart. */
function grouped(value) { return written(value).replace(/^-?\d+/, whole => whole.replace(/\B(?=(\d{3})+$)/g, ",")); }

/** Takes a view that has nothing to show off the page. */
function leaveOut(id) {
  section(id).remove();
  document.querySelector(`nav a[href="#${id}"]`).remove();
}

function summary() {
  const host = section("summary"), first = report.runs[0];
  const table = element("table", { className: "facts" });
  for (const run of report.runs) {
    const row = element("tr", {}, element("th", { scope: "row" }, run.name, element("br"), element("small", {}, run.chip)));
    run.facts.forEach(([what, value], i) => {
      const base = first.facts[i][1];
      const change = run === first || base === null || value === null || !base ? "" :
        element("small", {}, `${value >= base ? "+" : ""}${(100 * (value / base - 1)).toFixed(1)} %`);
      row.append(element("td", {}, element("b", {}, grouped(value)), " ", change, element("br"), element("small", {}, what)));
    });
    table.append(row);
  }
  const scroll = element("div", { className: "scroll" }, table);
  host.append(scroll);
  for (const run of report.runs) {
    const shares = Object.entries(run.engines).map(([name, share]) => `${name} ${share.toFixed(1)} %`).join(", ");
    note(host, `${run.name}: time of tasks by engine: ${shares || "there are none"}`);
    if (run.likely) note(host, `${run.name}: ${run.likely}`);
  }
}

function findings() {
  const host = section("findings"), known = report.data.findings;
  if (!known) { leaveOut("findings"); return; }
  if (!known.rows.length) { note(host, "None of the advisor's proposals brings a gain."); return; }
  const where = known.columns.indexOf("Operator");
  new Grid(host, { label: "findings", columns: rowColumns(known.columns, known.rows), count: known.rows.length,
    pick: i => {
      const last = report.runs.length - 1, names = column(report.runs[last], "Original operators"), wanted = known.rows[i][where];
      const op = names.findIndex(name => name.split(";").includes(wanted));
      if (op >= 0) select(last, op, "findings");
    } });
}

function provenance() {
  const host = section("provenance"), known = report.data.provenance;
  note(host, `Simulated by ascendsim ${known.version}, cycle-approximate; no figure here was measured on a chip.`);
  const plugins = Object.entries(known.plugins);
  if (plugins.length) note(host, `Extended by ${plugins.map(each => each.join(" ")).join(", ")}.`);
  for (const run of report.runs) {
    const options = Object.entries(run.options).map(([name, value]) => `${name}=${value}`).join(", ");
    note(host, `${run.name}: ${options ? `options ${options}` : "all options at their defaults"}`);
  }
  if (known.columns.includes("Change at low(%)")) note(host, "Change: of the device time, with this figure alone (entries of a table together) moved down and up; N/A where it was not moved.");
  for (const [chip, rows] of Object.entries(known.chips)) {
    const assumed = rows.filter(row => row[3] === "assumed").length;
    host.append(element("h3", {}, `${chip}: ${assumed} of ${rows.length} figures are assumed`));
    new Grid(host, { label: `figures of ${chip}`, columns: rowColumns(known.columns, rows), count: rows.length });
  }
}

async function unpack() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old for it: Chromium 80, Firefox 113 or Safari 16.4 is needed");
  const bytes = Uint8Array.from(atob(section("payload").textContent), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

(async () => {
  try {
    report.data = await unpack();
    report.runs = report.data.runs;
    report.run = report.runs.length - 1;  // the last one is what the others led to
    for (const view of [summary, findings, timeline, operators, changes, roofline, memoryPlan, graphs, provenance]) view();
    select(report.run, null, "start");
    section("message").textContent = `${report.runs.length > 1 ? `${report.runs.length} runs` : "One run"}. A click in any view selects the task in all of them.`;
    window.asimReport = Object.assign(report.drawn, { ready: true, data: report.data, select, selected: () => report.selected });
  } catch (error) {
    section("message").textContent = `The report cannot be shown: ${error.message}.`;
    window.asimReport = { ready: false, error: String(error) };
  }
  addEventListener("beforeprint", () => [report.drawn.operators].forEach(grid => grid?.order.length <= WINDOW * 5 && grid.paint(true)));
})();
