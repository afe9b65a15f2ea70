"use strict";
// What the document says: states of the module, differences between them, and what reads what.

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
  }

  // A value that is computed once.
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

  // How often an operation was differentiated on its way.
  order(state, operation) {
    return this.once(`order ${this.data.states[state].origin[operation]}`, () => {
      const steps = this.origin(state, operation).steps;
      return Math.min(3, steps.filter((step) => step.name === "jvp" || step.name === "vjp").length);
    });
  }

  // The line with which each operation begins.
  starts(state) {
    return this.once(`starts ${state}`, () => {
      const starts = new Map();
      this.data.states[state].operation.forEach((operation, line) => { if (operation >= 0 && !starts.has(operation)) starts.set(operation, line); });
      return starts;
    });
  }

  // Behind each line that begins a region, the line that ends the operation.
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

  // For each line those that define what it reads, and for each line those that read it.
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
        const places = names.map((name) => {
          for (let i = scopes.length - 1; i >= 0; i--) if (scopes[i][1].has(name)) return scopes[i][1].get(name);
          return -1;
        });
        reads.push([...new Set(places.filter((place) => place >= 0))]);
        for (const place of reads[line]) readers[place].push(line);
        if (result) scopes[scopes.length - 1][1].set(result[1], line);
        const own = names.filter((_, i) => places[i] < 0).map((name) => [name, line]);
        if (/^(\^|func\.func|util\.func)/.test(words) || words.endsWith("{")) scopes.push([depth[line] + 1, new Map(own)]);
        else for (const [name] of own) scopes[scopes.length - 1][1].set(name, line); // of regions that begin behind it
      });
      return { reads, readers };
    });
  }

  // For each line of `after` the line of `before` that it is the same as, through the states in between; -1 for none.
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

  // The lines of two states beside each other: [sign, state, line].
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

  // Seconds of each operation of the last state: those of its kernel, by the shares of what it computes and moves.
  seconds() {
    return this.once("seconds", () => {
      const state = this.data.states[this.data.states.length - 1];
      const seconds = state.flops.map(() => 0);
      for (const kernel of this.data.kernels) {
        const weight = (operation) => state.flops[operation] + state.bytes[operation] + 1;
        const whole = kernel.operations.reduce((sum, operation) => sum + weight(operation), 0);
        for (const operation of kernel.operations) seconds[operation] += ((kernel.seconds || 0) * weight(operation)) / whole;
      }
      return seconds;
    });
  }

  // What each line of the source costs in a state, by the order of the derivative: "file:line" to four numbers.
  heat(state, measure) {
    return this.once(`heat ${state} ${measure}`, () => {
      const last = this.data.states.length - 1;
      const costs = measure === "seconds" ? this.seconds() : this.data.states[state][measure];
      const heat = new Map();
      costs.forEach((cost, operation) => {
        const where = measure === "seconds" ? last : state;
        const frame = this.origin(where, operation).frames[0];
        if (!frame) return;
        const key = `${frame.file}:${frame.line}`;
        if (!heat.has(key)) heat.set(key, [0, 0, 0, 0]);
        heat.get(key)[this.order(where, operation)] += cost;
      });
      return heat;
    });
  }

  // The operations of a state that came from a line, those that the line calls included.
  made(state, file, line) {
    return [...this.starts(state).keys()].filter((operation) =>
      this.origin(state, operation).frames.some((frame) => frame.file === file && frame.line === line));
  }

  // What an operation of one state has become in the last one.
  followers(state, operation) {
    let now = new Set([operation]);
    for (let next = state + 1; next < this.data.states.length; next++) {
      const forward = this.once(`forward ${next}`, () => {
        const map = new Map();
        this.data.states[next].forerunners.forEach((given, later) => {
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
