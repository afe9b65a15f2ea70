// The application: the current selection, and the panes that show it.

class App {
  constructor(data) {
    this.model = new Model(data);
    const changed = data.rows.map((row, i) => (row.before === row.after ? -1 : i)).filter((i) => i >= 0), lower = changed.find((i) => data.rows[i].name === "nabla-lower");
    const isComparison = !data.entries.length; // true for a comparison of two files
    Object.assign(this, { row: lower ?? changed[0] ?? (data.rows.length ? 0 : -1), mode: isComparison && changed.length ? "difference" : "after", picked: null, line: null, kernel: -1, tab: "program", folds: new Set() });
    const at = (id) => document.getElementById(id);
    this.at = at;
    at("title").textContent = data.title;
    document.documentElement.dataset.theme = "";
    this.lines = new Lines(at("ir"), { draw: (i) => this.drawLine(i), mark: (row, i) => this.markLine(row, i), pick: (i) => this.pickRow(i) });
    this.passes = new Passes(at("passes"), this.model, (row) => this.pickPass(row));
    this.source = new Source(at("source"), this.model, (file, line) => this.pickLine(file, line));
    this.origins = new Origins(at("origin"), this);
    this.kernels = new Kernels(at("kernels"), this);
    this.wire();
    this.summary();
    this.tabs();
    this.origins.empty();
    this.draw();
  }

  // ------------------------------------------------------------ display

  get states() { return this.row < 0 ? [0, 0] : [this.model.data.rows[this.row].before, this.model.data.rows[this.row].after]; }
  get state() { return this.mode === "before" ? this.states[0] : this.states[1]; }

  summary() {
    const { data, last, own } = this.model;
    const changes = data.rows.slice(0, own).filter((row) => row.before !== row.after).length;
    const kernels = data.kernels.length ? ` · ${data.kernels.length} kernels for ${data.target}` : "";
    this.at("summary").textContent = data.entries.length
      ? `${data.states[last].operations} operations · ${quantity(this.model.total(last, "flops"), "flop")} · ${quantity(this.model.total(last, "bytes"), "B")} moved before fusion · changed by ${changes} of ${own} passes${kernels}`
      : `${data.states[0].operations} operations, then ${data.states[last].operations}`;
  }

  tabs() {
    const { data } = this.model;
    const tabs = [["program", "Program"]];
    if (data.kernels.length) tabs.push(["kernels", "Kernels"]);
    if (data.halves) tabs.push(["halves", "Halves"]);
    if (data.pattern) tabs.push(["pattern", "Pattern"]);
    this.shownTabs = tabs.map(([id]) => id);
    this.at("tabs").replaceChildren(...tabs.map(([id, words]) => element("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": id,
      on: { click: () => this.pickTab(id), keydown: (event) => this.tabKey(event) } }, words)));
    for (const id of ["kernels", "halves", "pattern"]) {
      const box = this.at(id);
      box.classList.add("sheet-view");
      box.tabIndex = 0;
      if (!this.shownTabs.includes(id)) box.removeAttribute("aria-labelledby");
    }
    if (tabs.length === 1) { this.at("tabs").hidden = true; this.at("program").removeAttribute("role"); this.at("program").removeAttribute("aria-labelledby"); }
    if (data.halves) drawHalves(this.at("halves"), this);
    if (data.pattern) drawPattern(this.at("pattern"), this);
    this.kernels.draw(-1);
  }

  draw() {
    for (const id of ["program", "kernels", "halves", "pattern"]) this.at(id).hidden = id !== this.tab;
    for (const tab of this.at("tabs").children) { tab.setAttribute("aria-selected", String(tab.id === `tab-${this.tab}`)); tab.tabIndex = tab.id === `tab-${this.tab}` ? 0 : -1; }
    this.passes.draw(this.row, this.at("changed").checked);
    this.drawAbout();
    this.drawIr();
    this.drawSource();
    this.passes.reveal();
    this.source.reveal();
    this.prepare([this.states[1], ...this.model.data.states.keys()]);
  }

  // Computes the tables that a click needs while the browser is idle: first for the shown state, then for the others.
  prepare(states) {
    const measure = this.at("measure").value, work = [...new Set(states)].flatMap((state) =>
      ["starts", "reads", "ends", "whole", "widest"].map((name) => () => this.model[name](state)).concat(() => this.model.heat(state, measure)));
    const go = (deadline) => {
      do work.shift()(); while (work.length && deadline.timeRemaining() > 5);
      if (work.length) this.idle = requestIdleCallback(go);
    };
    cancelIdleCallback(this.idle || 0);
    this.idle = requestIdleCallback(go);
  }

  drawAbout() {
    const row = this.model.data.rows[this.row];
    this.at("ir-title").textContent = row ? row.name : this.model.data.first;
    this.at("about").replaceChildren(...(row ? [element("b", {}, ...coded(row.doc.split("\n\n")[0].replace(/\n/g, " "))), row.why && row.why !== row.doc ? ` ${row.why}` : "", this.namedPasses(row)].filter(Boolean)
      : [element("b", {}, "The program before any pass: transforms are regions around the code they differentiate or map.")]));
    const [before, after] = this.states;
    for (const button of this.at("modes").children) { button.setAttribute("aria-pressed", String(button.dataset.mode === this.mode)); button.disabled = before === after && button.dataset.mode !== "after"; }
  }

  // The passes of IREE, which are listed under the row of its compiler.
  namedPasses(row) {
    if (row.name !== "iree-compile" || row.parent >= 0) return null;
    return element("details", { open: true }, element("summary", {}, "its slowest passes, including passes that run other passes"),
      table([["pass"], ["time", 1]], this.model.data.compiler.passes.map((pass) => ({ cells: [element("code", {}, pass.name), duration(pass.seconds)] }))));
  }

  drawIr() {
    const [before, after] = this.states;
    let rows;
    if (this.mode === "difference" && before !== after) rows = this.model.difference(before, after);
    else if (![...this.folds].some((key) => key.startsWith(`${this.state}:`))) rows = this.model.whole(this.state);
    else {
      const state = this.state, ends = this.model.ends(state);
      rows = [];
      for (let line = 0; line < this.model.lines(state); line++) {
        rows.push([" ", state, line]);
        if (this.folds.has(`${state}:${line}`) && ends.has(line)) line = ends.get(line) - 1;
      }
    }
    this.rows = rows;
    this.mark();
    this.lines.show(rows, Math.max(this.model.widest(before), this.model.widest(after)));
  }

  // Marks the selected operation and the lines that it reads or that read it, in the shown state.
  mark() {
    this.near = { light: new Set(), defs: new Set(), uses: new Set() };
    const state = this.states[1];
    if (this.line) this.near.light = new Set(this.model.made(state, ...this.line));
    if (this.picked && this.picked[0] === this.state) {
      const start = this.model.starts(this.state)[this.picked[1]];
      if (start >= 0) {
        const { reads, readers } = this.model.reads(this.state);
        this.near.defs = new Set(reads[start]);
        this.near.uses = new Set(readers[start]);
      }
    }
  }

  // Updates the classes of a drawn line after a selection or a search.
  markLine(row, i) {
    const [sign, state, line] = this.rows[i];
    const data = this.model.data.states[state], operation = data.operation[line], isCurrent = state === this.state;
    const classes = ["row"];
    if (sign === "+") classes.push("added");
    if (sign === "−") classes.push("removed");
    if (operation >= 0 && this.near.light.has(operation) && state === this.states[1]) classes.push("light");
    const isPicked = operation >= 0 && this.picked && this.picked[0] === state && this.picked[1] === operation;
    if (isPicked) classes.push("picked");
    if (isCurrent && this.near.defs.has(line)) classes.push("def");
    if (isCurrent && this.near.uses.has(line)) classes.push("use");
    if (this.query && this.found[data.text[line]]) classes.push("hit");
    const axes = data.axes && operation >= 0 ? data.axes[operation] : null;
    if (axes && !axes.length) classes.push("grey");
    const words = classes.join(" ");
    if (row.className === words) return;
    row.className = words;
    row.setAttribute("aria-selected", String(Boolean(isPicked)));
  }

  drawLine(i) {
    const [sign, state, line] = this.rows[i];
    const data = this.model.data.states[state], operation = data.operation[line], text = this.model.text(state, line);
    const ends = this.model.ends(state), isFolded = this.folds.has(`${state}:${line}`);
    const axes = data.axes && operation >= 0 ? data.axes[operation] : null;
    const order = operation < 0 ? -1 : this.model.order(state, operation);
    const hasCost = operation >= 0 && this.model.starts(state)[operation] === line && this.model.origin(state, operation).frames.length;
    const row = element("div", {},
      element("span", { class: `edge${hasCost ? ` order${order}` : ""}` }), element("span", { class: "sign" }, sign === " " ? "" : sign));
    const canFold = this.mode !== "difference" && ends.has(line);
    const fold = element("span", { class: "fold", "aria-hidden": "true" }, canFold ? (isFolded ? "▸" : "▾") : "");
    if (canFold) fold.addEventListener("click", (event) => { event.stopPropagation(); this.fold(state, line); });
    const indent = element("span", { class: "indent" });
    indent.style.width = `${2 * data.depth[line]}ch`;
    row.append(fold, indent, highlighted(isFolded ? `${text} … ${ends.get(line) - line - 1} lines` : text, "mlir"));
    if (axes && this.model.starts(state)[operation] === line)
      for (const axis of axes) row.append(element("span", { class: `axis axis${this.axis(axis) % 4}`, title: "a mapped axis that its result carries" }, axis));
    return row;
  }

  axis(name) {
    const names = this.model.once("axes", () => []);
    if (!names.includes(name)) names.push(name);
    return names.indexOf(name);
  }

  drawSource() {
    const light = new Set();
    if (this.picked) this.model.origin(...this.picked).frames.forEach((frame) => light.add(`${frame.file}:${frame.line}`));
    this.source.draw(this.states[1], this.at("measure").value, this.line && this.line.join(":"), light);
  }

  // ------------------------------------------------------------ selection

  pickPass(row) {
    this.row = row;
    const [before, after] = this.states;
    if (this.mode === "before" || before === after) this.mode = "after";
    this.picked = null;
    if (this.line) this.origins.line(after, ...this.line); else this.origins.empty();
    this.lines.scroll(0);
    this.draw();
  }

  pickRow(i) {
    const [, state, line] = this.rows[i];
    const operation = this.model.data.states[state].operation[line];
    if (operation >= 0) this.pick(state, operation);
  }

  pick(state, operation) {
    this.picked = [state, operation];
    this.line = null;
    this.origins.operation(state, operation);
    this.mark();
    this.lines.refresh();
    this.drawSource();
    this.source.reveal();
  }

  // Shows an operation of any state, and selects the pass that made this state.
  pickOperation(state, operation) {
    this.tab = "program";
    if (!this.states.includes(state) || this.state !== state) {
      const { rows } = this.model.data;
      const isLeaf = (i) => !rows.some((row) => row.parent === i);
      this.row = rows.findIndex((row, i) => row.after === state && row.before !== state && isLeaf(i));
      this.mode = "after";
    }
    const start = this.model.starts(state)[operation];
    for (const key of [...this.folds]) if (key.startsWith(`${state}:`)) this.folds.delete(key);
    this.picked = [state, operation];
    this.line = null;
    this.draw();
    this.pick(state, operation);
    const i = this.rows.findIndex(([, s, line]) => s === state && line === start);
    if (i >= 0) this.lines.reveal(i);
  }

  pickLine(file, line) {
    this.tab = "program";
    this.picked = null;
    this.line = [file, line];
    const state = this.states[1];
    if (this.mode === "before") this.mode = "after";
    this.origins.line(state, file, line);
    this.draw();
    const light = this.near.light;
    const i = this.rows.findIndex(([, s, l]) => s === state && light.has(this.model.data.states[s].operation[l]));
    if (i >= 0) this.lines.reveal(i);
  }

  pickKernel(i) {
    this.kernel = i;
    this.tab = "kernels";
    this.kernels.draw(i);
    this.draw();
    reveal(document.getElementById(`kernel-${i}`));
  }

  pickTab(id) { this.tab = id; this.draw(); this.at(`tab-${id}`).focus(); }

  tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const count = this.shownTabs.length;
    this.pickTab(this.shownTabs[(this.shownTabs.indexOf(this.tab) + step + count) % count]);
  }

  pickMode(mode) { this.mode = mode; this.drawAbout(); this.drawIr(); }

  fold(state, line) {
    const key = `${state}:${line}`;
    if (!this.folds.delete(key)) this.folds.add(key);
    this.drawIr();
  }

  foldAll() {
    const state = this.state, own = [...this.model.ends(state).keys()].filter((line) => this.model.data.states[state].depth[line] > 0);
    const isFolded = own.some((line) => this.folds.has(`${state}:${line}`));
    for (const line of own) { const key = `${state}:${line}`; if (isFolded) this.folds.delete(key); else this.folds.add(key); }
    this.at("fold").textContent = isFolded ? "Fold all" : "Unfold all";
    this.drawIr();
  }

  search(step) {
    this.query = this.at("search").value.trim().toLowerCase();
    const hits = [];
    if (this.query) {
      this.found = this.model.found(this.query);
      this.rows.forEach(([, state, line], i) => { if (this.found[this.model.data.states[state].text[line]]) hits.push(i); });
    }
    this.at("hits").textContent = this.query ? `${hits.length ? 1 : 0}/${hits.length}` : "";
    this.lines.refresh();
    if (!hits.length) return;
    const now = hits.findIndex((i) => (step > 0 ? i > this.lines.active : i >= this.lines.active));
    const index = step < 0 ? ((now < 0 ? hits.length : now) - 1 + hits.length) % hits.length : now < 0 ? 0 : now;
    this.at("hits").textContent = `${index + 1}/${hits.length}`;
    this.lines.reveal(hits[index]);
  }

  // ------------------------------------------------------------ keys

  wire() {
    for (const [mode, words] of [["before", "Before"], ["difference", "Difference"], ["after", "After"]])
      this.at("modes").append(element("button", { type: "button", "data-mode": mode, on: { click: () => this.pickMode(mode) } }, words));
    this.at("fold").addEventListener("click", () => this.foldAll());
    this.at("changed").addEventListener("change", () => this.draw());
    this.at("measure").addEventListener("change", () => this.drawSource());
    if (!this.model.data.machine) this.at("measure").querySelector("[value=seconds]").remove();
    this.at("search").addEventListener("input", () => { this.lines.active = 0; this.search(0); });
    this.at("search").addEventListener("keydown", (event) => { if (event.key === "Enter") this.search(event.shiftKey ? -1 : 1); if (event.key === "Escape") { event.target.value = ""; this.search(0); this.at("ir").focus(); } });
    this.at("theme").addEventListener("click", () => this.theme());
    this.at("help").addEventListener("click", () => this.at("keys").showModal());
    const keys = [["1 2 3 4", "to the passes, the IR, the source, the origin"], ["↑ ↓", "move within a pane"], ["[ ]", "the pass before, the next one"],
      ["b d a", "before, difference, after"], ["f", "fold or unfold all regions"], ["/", "search; Enter and Shift+Enter move"], ["t", "dark or light"], ["Esc", "pick nothing"]];
    this.at("keys").querySelector("dl").append(...keys.flatMap(([key, words]) => [element("dt", {}, key), element("dd", {}, words)]));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  theme() {
    const root = document.documentElement, now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  }

  key(event) {
    if (event.target.matches("input:not([type=checkbox]), select") || event.ctrlKey || event.metaKey || event.altKey || this.at("keys").open) return;
    const panes = ["passes", "ir", "source", "origin"];
    const actions = {
      "/": () => this.at("search").focus(), t: () => this.theme(), "?": () => this.at("keys").showModal(), f: () => this.foldAll(),
      b: () => this.pickMode("before"), d: () => this.pickMode("difference"), a: () => this.pickMode("after"), "[": () => this.step(-1), "]": () => this.step(1),
      Escape: () => { this.picked = this.line = null; this.origins.empty(); this.draw(); },
    };
    panes.forEach((id, i) => { actions[String(i + 1)] = () => { this.tab = "program"; this.draw(); this.at(id).focus(); }; });
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  step(by) {
    const index = Math.max(0, Math.min(this.passes.shown.length - 1, this.passes.shown.indexOf(this.row) + by));
    this.pickPass(this.passes.shown[index]);
  }
}

window.app = new App(JSON.parse(document.getElementById("data").textContent));
