// The panes of the program: passes, IR, source, origin. Each draws the data of the app, and reports selections to it.

Prism.languages.mlir = {
  comment: /\/\/.*/, string: /"(?:[^"\\]|\\.)*"/, value: /[%^@#][\w$.#-]+/, type: /\b(?:tensor|vector|memref|tuple)<[^>]*>|!\w[\w.]*(?:<[^>]*>)?/,
  operation: /\b[a-z_]+(?:\.[a-z_0-9]+)+\b|\bmodule\b|\breturn\b/, boolean: /\b(?:true|false|unit)\b/,
  keyword: /\b(?:dense|array|dims|dim|contracting_dims|batching_dims|across|dimensions|applies|init|sizes|cond|do|reducer|private)\b/,
  number: /\b\d[\w.+-]*/,
};

const markup = new Map(); // the HTML of each text that has been highlighted

function highlighted(text, language) {
  const node = element("span", { class: "code" }), key = `${language} ${text}`;
  if (!markup.has(key)) markup.set(key, Prism.highlight(text, Prism.languages[language], language));
  node.innerHTML = markup.get(key);
  return node;
}

const ROW = 20; // the height of a line in pixels, as in the style
const SPARE = 12; // the number of lines that are drawn above and below the visible part

class Lines {
  // A list that draws only the visible lines. A selection changes only classes. The height and the scroll position come from
  // events: reading them between changes would make the browser lay out the page twice.
  constructor(box, { draw, mark, pick }) {
    Object.assign(this, { box, draw, mark, pick, list: [], count: 0, active: 0, top: 0, height: 0, rows: new Map() });
    this.sheet = element("div", { class: "sheet", role: "presentation" });
    box.append(this.sheet);
    box.addEventListener("scroll", () => { this.top = box.scrollTop; this.render(); });
    box.addEventListener("keydown", (event) => this.key(event));
    box.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.choose(Number(row.dataset.line));
    });
    new ResizeObserver(() => { this.height = box.clientHeight; this.top = box.scrollTop; this.render(); }).observe(box);
  }

  show(list, width) {
    if (this.list === list) { this.refresh(); return; }
    Object.assign(this, { list, count: list.length });
    this.sheet.style.height = `${this.count * ROW}px`;
    this.sheet.style.minWidth = `calc(${width}ch + 60px)`;
    this.active = Math.min(this.active, Math.max(0, this.count - 1));
    this.top = Math.max(0, Math.min(this.top, this.count * ROW - this.height));
    this.sheet.replaceChildren();
    this.rows.clear();
    this.render();
  }

  refresh() { for (const [i, row] of this.rows) this.mark(row, i); }

  choose(i) { this.active = i; this.pick(i); this.point(); }

  render() {
    const first = Math.max(0, Math.floor(this.top / ROW) - SPARE);
    const last = Math.min(this.count, Math.ceil((this.top + this.height) / ROW) + SPARE);
    for (const [i, row] of this.rows) if (i < first || i >= last) { row.remove(); this.rows.delete(i); }
    for (let i = first; i < last; i++) {
      if (this.rows.has(i)) continue;
      const row = this.draw(i);
      row.id = `${this.box.id}-${i}`;
      row.dataset.line = i;
      row.setAttribute("role", "option");
      row.setAttribute("aria-posinset", i + 1);
      row.setAttribute("aria-setsize", this.count);
      row.style.transform = `translateY(${i * ROW}px)`;
      this.mark(row, i);
      this.sheet.append(row);
      this.rows.set(i, row);
    }
    this.point();
  }

  point() {
    if (this.rows.has(this.active)) this.box.setAttribute("aria-activedescendant", `${this.box.id}-${this.active}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  reveal(i) {
    this.active = i;
    const top = i * ROW;
    if (top < this.top + ROW || top > this.top + this.height - 3 * ROW) this.scroll(top - this.height / 3);
    this.render();
  }

  scroll(top) {
    this.top = Math.max(0, Math.min(top, this.count * ROW - this.height));
    this.box.scrollTop = this.top;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.height / ROW) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count }[event.key];
    if (step === undefined) {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.pick(this.active); }
      return;
    }
    event.preventDefault();
    this.reveal(Math.max(0, Math.min(this.count - 1, this.active + step)));
    this.pick(this.active);
  }
}

class Passes {
  constructor(box, model, pick) {
    Object.assign(this, { box, model, pick, shown: [] });
    box.addEventListener("keydown", (event) => this.key(event));
  }

  draw(row, onlyChanges) {
    const { rows, states } = this.model.data;
    const total = Math.max(...rows.filter((r) => r.parent < 0).map((r) => r.seconds), 1e-9);
    const depth = (i) => (rows[i].parent < 0 ? 0 : depth(rows[i].parent) + 1);
    const changed = (r) => (r.phase ? r.phase.changed : r.before !== r.after);
    const shown = [-1, ...rows.keys()].filter((i) => i < 0 || !onlyChanges || changed(rows[i]) || i === row);
    const last = this.row;
    this.row = row;
    this.box.setAttribute("aria-activedescendant", `pass-${row}`);
    if (shown.join() === this.shown.join()) {
      document.getElementById(`pass-${last}`).setAttribute("aria-selected", "false");
      document.getElementById(`pass-${row}`).setAttribute("aria-selected", "true");
      return;
    }
    this.shown = shown;
    this.box.replaceChildren(...this.shown.map((i) => {
      const item = element("div", { class: "pass", role: "treeitem", id: `pass-${i}`, "aria-selected": String(i === row), on: { click: () => this.pick(i) } });
      if (i < 0) {
        item.setAttribute("aria-level", 1);
        item.append(element("span", { class: "name" }, this.model.data.first), element("span", { class: "delta" }, `${states[0].operations} ops`));
        return item;
      }
      const r = rows[i], before = states[r.before], after = states[r.after];
      item.setAttribute("aria-level", depth(i) + 1);
      item.style.paddingLeft = `${12 + 14 * depth(i)}px`;
      if (!changed(r)) item.classList.add("same");
      const delta = r.phase ? 0 : after.operations - before.operations;
      const flops = r.phase ? 0 : this.model.total(r.after, "flops") - this.model.total(r.before, "flops");
      item.append(
        element("span", { class: "name", title: r.name }, r.name.replace(/^nabla-/, "")),
        element("span", { class: "delta" }, !changed(r) ? "no change" : !r.phase ? `${before.operations} → ${after.operations}` : r.phase.length ? `${r.phase.length} lines` : ""),
      );
      const meter = element("span", { class: "meter" });
      meter.style.width = `${Math.max(2, (60 * r.seconds) / total)}px`;
      if (changed(r)) item.append(element("span", { class: "cost" }, meter, ...[duration(r.seconds),
        flops ? `${flops > 0 ? "+" : "−"}${quantity(Math.abs(flops), "flop")}` : delta ? `${delta > 0 ? "+" : ""}${delta} ops` : "",
        after.state_bytes ? `${quantity(after.state_bytes, "B")} stored` : ""].filter(Boolean).map((words) => element("span", {}, words))));
      return item;
    }));
  }

  reveal() { reveal(document.getElementById(`pass-${this.row}`)); }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const index = Math.max(0, Math.min(this.shown.length - 1, this.shown.indexOf(this.row) + step));
    this.pick(this.shown[index]);
  }
}

class Source {
  constructor(box, model, pick) {
    Object.assign(this, { box, model, pick, lines: [], files: "" });
    box.addEventListener("keydown", (event) => this.key(event));
    // A file of Python is highlighted as a whole: strings may span lines.
    this.code = model.data.files.map((file) => {
      const language = /\.(mlir|mlirbc)$/.test(file.name) ? "mlir" : "python";
      return file.lines.map((line) => highlighted(line, language));
    });
    this.live = new Set();
    for (const origin of model.data.origins) for (const frame of origin.frames) this.live.add(`${frame.file}:${frame.line}`);
    this.build();
  }

  // Each line is created once; costs and selections change only its bar and its classes.
  build() {
    this.nodes = new Map();
    this.heads = this.model.data.files.map((file, number) => {
      const head = element("div", { class: "file", title: file.path, role: "presentation" }, file.name);
      if (!file.lines.length) return [head, element("div", { class: "file", role: "presentation" }, "the file is not there any more")];
      return [head, ...file.lines.map((_, i) => {
        const line = file.first + i, key = `${number}:${line}`, live = this.live.has(key);
        const node = element("div", { class: `code-line${live ? " live" : ""}`, role: "option", id: `line-${number}-${line}`,
          "aria-selected": "false", "aria-disabled": live ? false : "true", on: live ? { click: () => this.pick(number, line) } : {} },
          element("span", { class: "heat" }), element("span", { class: "place" }, String(line)), this.code[number][i]);
        if (live) this.nodes.set(key, node);
        return node;
      })];
    });
  }

  draw(state, measure, picked, light) {
    const heat = this.model.heat(state, measure);
    if (heat !== this.heat) this.weigh(heat, measure);
    for (const [key, node] of this.nodes) {
      node.classList.toggle("light", light.has(key));
      node.setAttribute("aria-selected", String(key === picked));
    }
    this.picked = picked;
    if (picked) this.box.setAttribute("aria-activedescendant", `line-${picked.replace(":", "-")}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  // Draws the bars; the file with the largest cost comes first.
  weigh(heat, measure) {
    this.heat = heat;
    const most = Math.max(1e-12, ...[...heat.values()].map((orders) => orders.reduce((a, b) => a + b, 0)));
    const unit = measure === "bytes" ? (v) => quantity(v, "B") : measure === "seconds" ? duration : (v) => quantity(v, "flop");
    for (const [key, node] of this.nodes) {
      const orders = heat.get(key) || [0, 0, 0, 0];
      node.firstChild.replaceChildren(...orders.flatMap((cost, order) => {
        if (!cost) return [];
        const bar = element("i", { class: `order${order}` });
        bar.style.width = `${Math.max(2, (44 * cost) / most)}px`;
        return [bar];
      }));
      const words = orders.map((cost, order) => (cost ? `${ORDERS[order]}: ${unit(cost)}` : "")).filter(Boolean).join(", ");
      node.title = words;
      if (words) node.setAttribute("aria-label", `${key.split(":")[1]}: ${node.lastChild.textContent.trim()} (${words})`);
      else node.removeAttribute("aria-label");
    }
    const weight = (file) => [...heat].reduce((sum, [key, orders]) => sum + (key.startsWith(`${file}:`) ? orders.reduce((a, b) => a + b, 0) + 1 : 0), 0);
    const files = [...this.model.data.files.keys()].sort((a, b) => weight(b) - weight(a));
    if (files.length && files.join() === this.files) return;
    this.files = files.join();
    this.lines = files.flatMap((number) => this.model.data.files[number].lines.map((_, i) => [number, this.model.data.files[number].first + i]))
      .filter(([number, line]) => this.live.has(`${number}:${line}`));
    const words = "This program came as IR, without the lines that it was written in: click an operation to see what reads it, and what became of it.";
    if (!files.length) this.box.setAttribute("role", "region"); // it contains text, and no lines that can be selected
    this.box.replaceChildren(...(files.length ? files.flatMap((number) => this.heads[number]) : [element("p", { class: "file", role: "presentation" }, words)]));
  }

  reveal() {
    const chosen = this.picked ? document.getElementById(`line-${this.picked.replace(":", "-")}`) : this.box.querySelector(".light");
    reveal(chosen);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || !this.lines.length) return;
    event.preventDefault();
    const now = this.lines.findIndex(([file, line]) => `${file}:${line}` === this.picked);
    const index = now < 0 ? 0 : Math.max(0, Math.min(this.lines.length - 1, now + step));
    this.pick(...this.lines[index]);
  }
}

const STEP_WORDS = {
  jvp: "forward mode (jvp)", vjp: "reverse mode (vjp)", vmap: "mapped (vmap)", simplify: "simplified", split: "moved to the other half",
  factor: "factors collected", legalize: "rewritten for IREE",
};

class Origins {
  // The origin and the kernel of an operation, or the operations that a source line became.
  constructor(box, app) { Object.assign(this, { box, app, model: app.model }); }

  link(state, operation) {
    const line = this.model.starts(state)[operation];
    if (line === undefined || line < 0) return element("span", { class: "dim" }, "a part of another operation");
    return element("button", { type: "button", class: "link", title: this.model.text(state, line),
      on: { click: () => this.app.pickOperation(state, operation) } }, this.model.label(state, line));
  }

  cost(state, operation) {
    const { flops, bytes } = this.model.data.states[state];
    return `${quantity(flops[operation], "flop")}, ${quantity(bytes[operation], "B")} moved`;
  }

  empty() {
    const { entries } = this.model.data;
    this.box.replaceChildren(element("p", { class: "dim" }, "Pick an operation or a line of the source to see its story."),
      ...entries.map((entry) => element("pre", {}, entry)));
  }

  operation(state, operation) {
    const origin = this.model.origin(state, operation), start = this.model.starts(state)[operation];
    const list = element("ol", { class: "steps" });
    let order = 0;
    const frames = origin.frames;
    if (frames.length) list.append(element("li", { class: "is0" }, element("b", {}, "You wrote"), " ", ...this.frame(frames[0]),
      frames.length > 1 ? element("details", {}, element("summary", {}, `called from ${frames.length - 1} more`),
        ...frames.slice(1).map((frame) => element("div", {}, ...this.frame(frame)))) : null));
    else list.append(element("li", {}, element("b", {}, "No line of yours"), element("div", { class: "dim" }, "it was made by a pass, or belongs to the frame of the function")));
    for (const step of [...origin.steps].reverse()) {
      if (step.name === "jvp" || step.name === "vjp") order = Math.min(3, order + 1);
      list.append(element("li", { class: `is${order}` }, element("b", {}, STEP_WORDS[step.name] || step.name), " ", this.rule(step)));
    }
    list.append(element("li", { class: `is${order}` }, element("b", {}, "This operation"), element("span", { class: "dim" }, state > this.model.last ? "" : ` · ${this.cost(state, operation)}`),
      element("pre", {}, highlighted(this.model.text(state, start), "mlir"))));
    const parts = [list];
    const before = [this.model.data.states[state].predecessors[operation]].flat();
    const isPhase = state > this.model.last;
    if (state > 0) parts.push(element("h3", {}, isPhase ? "In the program that IREE compiles" : "In the previous state"),
      this.list(before, (one) => this.link(this.model.base(state), one), "it is new: a pass made it"));
    const { reads, readers } = this.model.reads(state);
    const operationOf = (line) => this.model.data.states[state].operation[line];
    const unique = (lines) => [...new Set(lines.map(operationOf))].filter((one) => one >= 0 && one !== operation);
    parts.push(element("h3", {}, "Reads"), this.list(unique(reads[start]), (one) => this.link(state, one), "nothing but arguments"));
    parts.push(element("h3", {}, "Read by"), this.list(unique(readers[start]), (one) => this.link(state, one), "nothing"));
    parts.push(...this.kernels(state, operation));
    this.box.replaceChildren(...parts);
    this.box.scrollTop = 0;
  }

  kernels(state, operation) {
    const { kernels } = this.model.data;
    if (!kernels.length) return [];
    const followers = this.model.followers(state, operation);
    const own = kernels.map((kernel, i) => [kernel, i]).filter(([kernel]) => kernel.operations.some((one) => followers.has(one)));
    return [element("h3", {}, "Ends in the kernel"), this.list(own, ([kernel, i]) => element("button", { type: "button", class: "link",
      on: { click: () => this.app.pickKernel(i) } }, `${kernel.name}${kernel.seconds == null ? "" : ` · ${duration(kernel.seconds)}`}`),
    followers.size ? "none: it is a constant, a view, or part of the plan of the call" : "none: the last state does not contain it")];
  }

  // A list of the first 40 items, and the number of the others.
  list(items, draw, otherwise) {
    if (!items.length) return element("p", { class: "dim" }, otherwise);
    const most = 40;
    return element("ul", { class: "list" }, ...items.slice(0, most).map((item) => element("li", {}, draw(item))),
      items.length > most ? element("li", { class: "dim" }, `and ${items.length - most} more`) : null);
  }

  frame(frame) {
    const file = this.model.data.files[frame.file], text = file.lines[frame.line - file.first] || "";
    const from = Math.max(0, frame.column - 1), to = frame.end > frame.column ? frame.end - 1 : text.length;
    const shift = text.length - text.trimStart().length;
    return [
      element("button", { type: "button", class: "link", on: { click: () => this.app.pickLine(frame.file, frame.line) } }, `${file.name}:${frame.line}`),
      frame.function && frame.function !== "<module>" ? element("span", { class: "dim" }, ` in ${frame.function}`) : null,
      text ? element("pre", {}, text.slice(shift, from), element("mark", {}, text.slice(Math.max(from, shift), to)), text.slice(to)) : null,
    ];
  }

  rule(step) {
    if (!step.of) return element("span", { class: "dim" }, "added by the transform itself");
    const record = this.model.data.records[step.of];
    if (!record) return element("code", {}, step.name === "simplify" || step.name === "legalize" ? `by the pattern ${step.of}` : `of ${step.of}`);
    const what = step.name === "vmap" ? record.batch : record.jvp;
    return element("span", {}, element("code", {}, `of ${step.of}`), element("details", {}, element("summary", {}, `rule: ${what}`),
      element("p", { class: "dim" }, `${record.doc} (${record.module}:${record.line || "?"})`),
      record.source ? element("pre", {}, highlighted(record.source, "python")) : null));
  }

  // The operations that a source line became, by the order of the derivative.
  line(state, file, line) {
    const operations = this.model.made(state, file, line);
    const text = this.model.data.files[file].lines[line - this.model.data.files[file].first] || "";
    const parts = [element("p", {}, element("code", {}, `${this.model.data.files[file].name}:${line}`), " became ", element("b", {}, `${operations.length} operations`)),
      element("pre", {}, highlighted(text.trim(), "python"))];
    const list = element("ol", { class: "steps" });
    ORDERS.forEach((words, order) => {
      const own = operations.filter((one) => this.model.order(state, one) === order);
      if (!own.length) return;
      const { flops } = this.model.data.states[state];
      const sum = own.reduce((total, one) => total + flops[one], 0);
      list.append(element("li", { class: `is${order}` }, element("b", {}, words), element("span", { class: "dim" }, ` · ${own.length} operations, ${quantity(sum, "flop")}`),
        this.list(own, (one) => this.link(state, one), "")));
    });
    this.box.replaceChildren(...parts, list);
    this.box.scrollTop = 0;
  }
}
