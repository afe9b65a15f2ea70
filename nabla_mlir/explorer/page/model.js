"use strict";
// The data of the document: the states of the module, their differences, and the lines that each line reads.

const ORDERS = ["what you wrote", "first derivative", "second derivative", "higher derivative"];

function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") node.className = value || "";
    else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

// Scrolls the box around a node until the node is visible. scrollIntoView would also scroll the notebook around the page.
function reveal(node) {
  if (!node) return;
  const box = node.closest(".scroll") ?? document.scrollingElement;
  const { top, bottom } = node.getBoundingClientRect();
  const seen = box === document.scrollingElement ? { top: 0, bottom: innerHeight } : box.getBoundingClientRect();
  if (top < seen.top) box.scrollTop -= seen.top - top;
  else if (bottom > seen.bottom) box.scrollTop += Math.min(bottom - seen.bottom, top - seen.top);
}

// The nodes of a text with code between backticks.
function coded(words) { return words.split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part)); }

function quantity(value, unit) {
  for (const [size, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (value >= size) return `${(value / size).toPrecision(3)} ${prefix}${unit}`;
  return `${Math.round(value * 100) / 100} ${unit}`;
}

function duration(seconds) {
  for (const [size, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])
    if (seconds >= size) return `${(seconds / size).toPrecision(3)} ${unit}`;
  return `${(seconds * 1e9).toPrecision(3)} ns`;
}

class Model {
  constructor(data) {
    this.data = data;
    this.caches = new Map();
    this.last = data.states.length - 1; // the state that IREE compiles; `own` is the number of passes of nabla_mlir
    this.own = data.rows.length;
    if (data.compiler) this.addPhases(data.compiler);
  }

  // Adds the phases of IREE as rows after those of nabla_mlir, and their results as states in which each line counts as an operation.
  addPhases({ phases }) {
    const { states, rows } = this.data, given = states[this.last];
    const parent = rows.push({ name: "iree-compile", doc: "IREE's compiler, by its own phases.", why: "Its slowest passes are listed below.", parent: -1,
      before: this.last, after: this.last, seconds: phases.reduce((sum, phase) => sum + phase.seconds, 0), phase: { changed: true } }) - 1;
    for (const phase of phases) {
      const before = states.length - 1;
      if (phase.text) {
        const number = phase.text.map((_, line) => line), origin = phase.operation.map((one) => (one < 0 ? this.nowhere() : given.origin[one]));
        const none = number.map(() => 0);
        states.push({ ...phase, operation: number, origin, predecessors: phase.operation.map((one) => (one < 0 ? [] : one)), flops: none, bytes: none,
          state_bytes: 0, operations: phase.length, base: this.last });
      }
      const why = phase.text || !phase.changed ? "" : `Its ${phase.length} lines are not shown.`;
      rows.push({ name: phase.name, doc: phase.doc, why, parent, before, after: states.length - 1, seconds: phase.seconds, phase });
    }
    rows[parent].after = states.length - 1;
  }

  // The origin of a line that comes from no operation.
  nowhere() { return this.once("nowhere", () => this.data.origins.push({ steps: [], frames: [] }) - 1); }

  // The state that contains the predecessors of a state's operations.
  base(state) { return this.data.states[state].base ?? state - 1; }

  // The value of a key, which is computed at the first call.
  once(key, make) {
    if (!this.caches.has(key)) this.caches.set(key, make());
    return this.caches.get(key);
  }

  text(state, line) { return this.data.texts[this.data.states[state].text[line]]; }
  lines(state) { return this.data.states[state].text.length; }
  origin(state, operation) { return this.data.origins[this.data.states[state].origin[operation]]; }
  label(state, line) {
    const label = this.text(state, line).replace(/ : .*$/, "").replace(/ \{indexing_maps = .*?\} /, " ");
    return label.length > 90 ? `${label.slice(0, 88)}…` : label;
  }

  // The number of differentiations in each origin, at most 3.
  orders() {
    return this.once("orders", () => this.data.origins.map(({ steps }) =>
      Math.min(3, steps.filter((step) => step.name === "jvp" || step.name === "vjp").length)));
  }

  order(state, operation) {
    return this.orders()[this.data.states[state].origin[operation]];
  }

  // The first line of each operation; -1 for an operation inside the line of another one.
  starts(state) {
    return this.once(`starts ${state}`, () => {
      const { operation, origin } = this.data.states[state], starts = new Int32Array(origin.length).fill(-1);
      for (let line = operation.length - 1; line >= 0; line--) if (operation[line] >= 0) starts[operation[line]] = line;
      return starts;
    });
  }

  // All lines of a state, in the form for the list of lines: [sign, state, line].
  whole(state) { return this.once(`whole ${state}`, () => this.data.states[state].text.map((_, line) => [" ", state, line])); }

  // The number of characters of the widest line.
  widest(state) {
    return this.once(`widest ${state}`, () => {
      const { text, depth } = this.data.states[state];
      let most = 0;
      for (let line = 0; line < text.length; line++) most = Math.max(most, this.data.texts[text[line]].length + 2 * depth[line]);
      return most;
    });
  }

  // For each text, true if it contains the query, which is in lower case.
  found(query) {
    const small = this.once("small texts", () => this.data.texts.map((text) => text.toLowerCase()));
    return small.map((text) => text.includes(query));
  }

  // A map from each line that begins a region to the last line of its operation.
  ends(state) {
    return this.once(`ends ${state}`, () => {
      const { depth, text } = this.data.states[state];
      const ends = new Map(), stack = [];
      text.forEach((number, line) => {
        const words = this.data.texts[number];
        while (stack.length && depth[line] < depth[stack[stack.length - 1]]) stack.pop();
        const top = stack[stack.length - 1];
        if (words.startsWith("}") && stack.length && depth[line] === depth[top]) {
          ends.set(top, line);
          if (!words.endsWith("{")) stack.pop();
        } else if (words.endsWith("{")) stack.push(line);
      });
      return ends;
    });
  }

  // For each line, the lines that define its operands, and the lines that read its results.
  reads(state) {
    return this.once(`reads ${state}`, () => {
      const { depth, text } = this.data.states[state];
      const scopes = [[0, new Map()]], reads = [], readers = text.map(() => []);
      text.forEach((number, line) => {
        const words = this.data.texts[number];
        while (depth[line] < scopes[scopes.length - 1][0]) scopes.pop();
        if (depth[line] > scopes[scopes.length - 1][0]) scopes.push([depth[line], new Map()]);
        const result = /^(%[\w$.#-]+)(?::\d+)? = /.exec(words);
        const body = result ? words.slice(result[0].length) : words;
        const names = (body.match(/%[\w$.-]+(?:#\d+)?/g) || []).map((name) => name.split("#")[0]);
        const lines = names.map((name) => {
          for (let i = scopes.length - 1; i >= 0; i--) if (scopes[i][1].has(name)) return scopes[i][1].get(name);
          return -1;
        });
        reads.push([...new Set(lines.filter((one) => one >= 0))]);
        for (const one of reads[line]) readers[one].push(line);
        if (result) scopes[scopes.length - 1][1].set(result[1], line);
        const own = names.filter((_, i) => lines[i] < 0).map((name) => [name, line]);
        if (/^(\^|func\.func|util\.func)/.test(words) || words.endsWith("{")) scopes.push([depth[line] + 1, new Map(own)]);
        else for (const [name] of own) scopes[scopes.length - 1][1].set(name, line); // an argument of a region that begins after this line
      });
      return { reads, readers };
    });
  }

  // For each line of `after`, the equal line of `before`, followed through all states between them; -1 for none.
  same(before, after) {
    return this.once(`same ${before} ${after}`, () => {
      let same = this.data.states[after].text.map((_, line) => line);
      for (let state = after; state > before; state--) {
        const step = this.data.states[state].same;
        same = same.map((line) => (line < 0 ? -1 : step[line]));
      }
      return same;
    });
  }

  // The lines of two states as one list with additions and removals: [sign, state, line].
  difference(before, after) {
    return this.once(`difference ${before} ${after}`, () => {
      const same = this.same(before, after), rows = [];
      let next = 0;
      same.forEach((old, line) => {
        if (old >= 0) {
          for (; next < old; next++) rows.push(["−", before, next]);
          next = old + 1;
        }
        rows.push([old >= 0 ? " " : "+", after, line]);
      });
      for (; next < this.lines(before); next++) rows.push(["−", before, next]);
      return rows;
    });
  }

  // The sum of a cost over the operations of a state.
  total(state, measure) {
    return this.once(`total ${state} ${measure}`, () => this.data.states[state][measure].reduce((a, b) => a + b, 0));
  }

  // The seconds of each operation of the last state: its share of the kernel's seconds, in proportion to its flops and bytes.
  seconds() {
    return this.once("seconds", () => {
      const state = this.data.states[this.last];
      const seconds = state.flops.map(() => 0);
      for (const kernel of this.data.kernels) {
        const weight = (operation) => state.flops[operation] + state.bytes[operation] + 1;
        const whole = kernel.operations.reduce((sum, operation) => sum + weight(operation), 0);
        for (const operation of kernel.operations) seconds[operation] += ((kernel.seconds || 0) * weight(operation)) / whole;
      }
      return seconds;
    });
  }

  // The cost of each source line in a state: a map from "file:line" to the costs of four orders of derivatives.
  heat(state, measure) {
    return this.once(`heat ${state} ${measure}`, () => {
      const costs = measure === "seconds" ? this.seconds() : this.data.states[Math.min(state, this.last)][measure];
      const where = measure === "seconds" ? this.last : Math.min(state, this.last), { origin } = this.data.states[where];
      const sums = new Map(), heat = new Map(); // many operations share an origin, so costs are first summed by origin
      costs.forEach((cost, operation) => sums.set(origin[operation], (sums.get(origin[operation]) || 0) + cost));
      for (const [number, cost] of sums) {
        const frame = this.data.origins[number].frames[0];
        if (!frame) continue;
        const key = `${frame.file}:${frame.line}`;
        if (!heat.has(key)) heat.set(key, [0, 0, 0, 0]);
        heat.get(key)[this.orders()[number]] += cost;
      }
      return heat;
    });
  }

  // The operations of a state that come from a source line or from functions that it calls.
  made(state, file, line) {
    const from = this.once(`from ${file}:${line}`, () =>
      this.data.origins.map(({ frames }) => frames.some((frame) => frame.file === file && frame.line === line)));
    const { origin } = this.data.states[state], starts = this.starts(state), made = [];
    origin.forEach((number, operation) => { if (from[number] && starts[operation] >= 0) made.push(operation); });
    return made.sort((a, b) => starts[a] - starts[b]);
  }

  // The operations of the last state that an operation of an earlier state has become.
  followers(state, operation) {
    if (state > this.last) return new Set([this.data.states[state].predecessors[operation]].flat());
    let now = new Set([operation]);
    for (let next = state + 1; next <= this.last; next++) {
      const forward = this.once(`forward ${next}`, () => {
        const map = new Map();
        this.data.states[next].predecessors.forEach((given, later) => {
          for (const one of Array.isArray(given) ? given : [given]) {
            if (!map.has(one)) map.set(one, []);
            map.get(one).push(later);
          }
        });
        return map;
      });
      now = new Set([...now].flatMap((one) => forward.get(one) || []));
    }
    return now;
  }
}
