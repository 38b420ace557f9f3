// Tables: sorted, filtered, as CSV; of many rows only those in sight are drawn.
const WINDOW = 2000, ROW = 23;  // rows from which a table draws a window; pixels of a row
const NAME = 44;  // letters of a cell; the whole text comes up under the mouse, and is what the filter and the CSV have

/** A table of `count` rows. Columns are {title, value(i), hidden}; `pick(i)` is called for a click or Enter. */
class Grid {
  constructor(host, { label, columns, count, sort = null, descending = true, pick = null, picked = () => false, total = null }) {
    Object.assign(this, { label, columns, count, sort, descending, pick, picked, total });
    this.order = [];
    for (const column of columns) {
      column.number = false;
      for (let i = 0; i < count && !column.number; i++) {
        const value = column.value(i);
        if (value !== null) { column.number = typeof value === "number"; break; }
      }
    }
    this.filter = element("input", { type: "search", oninput: () => this.refresh() });
    this.said = element("span", { role: "status", className: "note" });
    const bar = element("div", { className: "bar" }, element("label", {}, "filter ", this.filter), this.said,
      element("button", { onclick: () => this.download() }, "CSV"));
    this.head = element("tr");
    this.body = element("tbody");
    this.scroll = element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label, onscroll: () => this.count > WINDOW && this.paint() },
      element("table", {}, element("thead", {}, this.head), this.body));
    this.body.addEventListener("click", event => this.chosen(event));
    this.body.addEventListener("keydown", event => event.key === "Enter" && this.chosen(event));
    host.append(bar);
    if (columns.some(column => column.hidden)) host.append(this.choices());
    host.append(this.scroll);
    this.heads();
    this.refresh();
  }

  /** Check boxes of columns that are not shown at first. */
  choices() {
    const boxes = element("div");
    for (const column of this.columns.filter(one => one.hidden)) {
      const box = element("input", { type: "checkbox", onchange: () => {
        column.hidden = !box.checked;
        this.heads();
        this.refresh();
      } });
      boxes.append(element("label", {}, box, ` ${column.title}`));
    }
    return element("details", {}, element("summary", {}, "more columns"), boxes);
  }

  get shown() { return this.columns.filter(column => !column.hidden); }

  heads() {
    this.head.replaceChildren(...this.shown.map(column => {
      const button = element("button", { onclick: () => this.sortBy(column) }, column.title);
      column.cell = element("th", { scope: "col", className: column.number ? "number" : "" }, button);
      return column.cell;
    }));
  }

  sortBy(column) {
    const index = this.columns.indexOf(column);
    this.descending = this.sort === index ? !this.descending : column.number;
    this.sort = index;
    this.refresh();
  }

  /** Filters and sorts; what has no value comes last. */
  refresh() {
    const wanted = this.filter.value.toLowerCase(), shown = this.shown;
    this.order = [];
    for (let i = 0; i < this.count; i++) {
      if (!wanted || shown.some(column => written(column.value(i)).toLowerCase().includes(wanted))) this.order.push(i);
    }
    if (this.sort !== null) {
      const value = this.columns[this.sort].value, sign = this.descending ? -1 : 1;
      this.order.sort((a, b) => {
        const x = value(a), y = value(b);
        if (x === null || y === null) return (x === null) - (y === null) || a - b;
        return (x < y ? -sign : x > y ? sign : 0) || a - b;
      });
    }
    this.columns.forEach((column, i) => column.cell?.setAttribute("aria-sort",
      i !== this.sort ? "none" : this.descending ? "descending" : "ascending"));
    const sum = this.total === null ? "" : `, ${this.columns[this.total].title} in all ${written(this.sum())}`;
    this.said.textContent = `${this.order.length} of ${this.count}${sum}`;
    this.paint();
  }

  sum() { return this.order.reduce((sum, i) => sum + (this.columns[this.total].value(i) ?? 0), 0); }

  paint(everything = false) {
    let first = 0, last = this.order.length;
    if (this.count > WINDOW && !everything) {
      first = Math.max(Math.floor(this.scroll.scrollTop / ROW) - 20, 0);
      last = Math.min(first + Math.ceil((this.scroll.clientHeight || 430) / ROW) + 40, last);
    }
    const rows = this.order.slice(first, last).map(i => this.row(i));
    this.body.replaceChildren(this.gap(first), ...rows, this.gap(this.order.length - last));
  }

  gap(rows) {
    const made = element("tr");
    made.style.height = `${rows * ROW}px`;
    made.hidden = rows === 0;
    return made;
  }

  row(i) {
    const made = element("tr", { className: (this.pick ? "pick" : "") + (this.picked(i) ? " selected" : "") });
    if (this.pick) made.tabIndex = 0;
    made.dataset.row = String(i);
    for (const column of this.shown) {
      const text = written(column.value(i));
      made.append(element("td", { className: column.number ? "number" : "", title: text.length > NAME ? text.slice(0, 600) : "" },
        element("span", { className: "screen" }, middleCut(text, NAME)), text.length > NAME ? element("span", { className: "print" }, text) : ""));
    }
    return made;
  }

  chosen(event) {
    const row = event.target.closest("tr");
    if (this.pick && row?.dataset.row !== undefined) this.pick(Number(row.dataset.row));
  }

  /** Marks what is selected; scrolls there if asked to. */
  mark(follow) {
    const place = this.order.findIndex(i => this.picked(i));
    if (follow && place >= 0 && this.count > WINDOW) this.scroll.scrollTop = Math.max(place - 5, 0) * ROW;
    if (this.count > WINDOW) this.paint();
    for (const row of this.body.children) {
      if (row.dataset.row !== undefined) row.classList.toggle("selected", this.picked(Number(row.dataset.row)));
    }
    const marked = this.body.querySelector("tr.selected");
    if (follow && marked) {
      const above = marked.offsetTop - this.scroll.scrollTop, room = this.scroll.clientHeight - ROW;
      if (above < ROW || above > room) this.scroll.scrollTop = Math.max(marked.offsetTop - room / 2, 0);
    }
  }

  csv() {
    const quoted = value => value === null ? "N/A" : /[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
    const lines = [this.columns.map(column => quoted(column.title))];
    for (const i of this.order) lines.push(this.columns.map(column => quoted(column.value(i))));
    return lines.map(line => line.join(",")).join("\r\n") + "\r\n";
  }

  download() {
    const link = element("a", { href: URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" })), download: `${this.label}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

/** Columns of a grid from rows. */
function rowColumns(titles, rows) {
  return titles.map((title, at) => ({ title, value: i => rows[i][at] }));
}

function operators() {
  const host = section("operators"), holder = element("div");
  nameRun(host);
  let grid = null, shown = -1;
  const runs = menu("run", report.runs.map(run => run.name), run => { report.run = run; select(run, null, "operators"); });
  if (report.runs.length > 1) host.append(runs.label);
  host.append(holder);
  function build() {
    const run = report.runs[report.run], ops = run.ops;
    shown = report.run;
    runs.list.value = String(shown);
    holder.replaceChildren();
    const columns = ops.columns.map((title, at) => ({ title, value: i => ops.cells[at][i], hidden: at >= ops.shown }));
    const time = ops.columns.indexOf("Time(us)"), here = shown;
    grid = new Grid(holder, { label: "operators", columns, count: ops.cells[0].length, sort: time, total: time,
      pick: i => select(here, i, "operators"), picked: i => isSelected(here, i) });
    report.drawn.operators = grid;
  }
  build();
  report.listeners.push(from => { if (shown !== report.run) build(); grid.mark(from !== "operators"); });
}

/** Before and after, by operator type and by group of tasks; the last row makes the sums exact. */
function changes() {
  const host = section("changes");
  if (!report.data.changes.length) { leaveOut("changes"); return; }
  const holder = element("div"), names = report.runs.map(run => run.name);
  if (names.length > 2) host.append(menu("changes to", names.slice(1), build).label);
  host.append(holder);
  let grids = [];
  function build(which) {
    const known = report.data.changes[which], other = which + 1;
    holder.replaceChildren();
    note(holder, `${names[other]} less ${names[0]}: ${written(known.whole)} us of device time.`);
    const rest = [known.rest[0], null, null, null, null, known.rest[1]];
    const heads = ["Tasks before", "Tasks after", "Before(us)", "After(us)", "Difference(us)"];
    const types = [...known.types, rest], nodes = [...known.nodes, rest];
    holder.append(element("h3", {}, "By operator type"));
    const byType = new Grid(holder, { label: "changes by type", columns: rowColumns(["Type", ...heads], types), count: types.length, total: 5 });
    holder.append(element("h3", {}, "By operators of the model"));
    const columns = rowColumns(["Operators", ...heads], nodes);
    for (const at of [1, 2]) columns[at].value = i => nodes[i][at]?.length ?? null;
    const member = (row, run, op) => row[run === 0 ? 1 : run === other ? 2 : 6]?.includes(op) ?? false;
    const byNode = new Grid(holder, { label: "changes by operators", columns, count: nodes.length, total: 5,
      pick: i => { const [, before, after] = nodes[i]; if (after?.length) select(other, after[0], "changes"); else if (before) select(0, before[0], "changes"); },
      picked: i => report.selected !== null && member(nodes[i], report.selected.run, report.selected.op) });
    grids = [byType, byNode];
    report.drawn.changes = { byType, byNode };
  }
  build(0);
  report.listeners.push(from => grids.forEach(grid => grid.mark(from !== "changes")));
}
