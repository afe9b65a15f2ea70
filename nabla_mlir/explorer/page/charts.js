// The other views: kernels on a roofline and a timeline, the halves of a prepared product, and a sparsity pattern.

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function table(columns, rows) {
  return element("table", {}, element("thead", {}, element("tr", {}, ...columns.map(([name, right]) => element("th", { scope: "col", class: right ? "right" : false }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", row.attributes || {}, ...row.cells.map((cell, i) => element("td", { class: columns[i][1] ? "right" : false }, cell))))));
}

class Kernels {
  constructor(box, app) { Object.assign(this, { box, app }); }

  draw(picked) {
    const { kernels, machine, target } = this.app.model.data;
    const timed = kernels.filter((kernel) => kernel.seconds != null);
    const total = timed.reduce((sum, kernel) => sum + kernel.seconds, 0);
    const parts = [element("h2", {}, `Kernels for ${target}`),
      element("p", {}, timed.length
        ? `A call runs ${kernels.length} kernels in ${duration(total)} on one core of this machine. A dot far below the roof is slower than what it moves and computes would allow; one above the slope reads from a cache.`
        : `A call runs ${kernels.length} kernels. They were not measured: the target does not run on this machine, or the function needs a state.`)];
    const { checks } = this.app.model.data;
    if (checks.length) parts.push(element("p", {}, checks.map((one) => `${one.function} is ${one.text}.`).join(" ")));
    if (timed.length && machine) parts.push(element("div", { class: "columns" },
      element("figure", {}, element("h3", {}, "Roofline"), this.roofline(timed, machine, picked)),
      element("figure", {}, element("h3", {}, "Timeline of a call"), this.timeline(timed, total, picked))));
    parts.push(element("h3", {}, "All kernels, in the order of their calls"), table(
      [["kernel"], ["time", 1], ["share", 1], ["computes", 1], ["moves", 1], ["operations"]],
      kernels.map((kernel, i) => ({
        attributes: { class: i === picked ? "picked" : false, id: `kernel-${i}` },
        cells: [
          element("button", { type: "button", class: "link", on: { click: () => this.app.pickKernel(i) } }, kernel.name),
          kernel.seconds == null ? "–" : duration(kernel.seconds), kernel.seconds == null ? "–" : `${Math.round((100 * kernel.seconds) / total)} %`,
          quantity(kernel.flops, "flop"), quantity(kernel.bytes, "B"), this.operations(kernel, i === picked),
        ],
      }))));
    this.box.replaceChildren(...parts);
    if (picked >= 0) reveal(document.getElementById(`kernel-${picked}`));
  }

  operations(kernel, all) {
    const state = this.app.model.last;
    const shown = all ? kernel.operations : kernel.operations.slice(0, 2);
    return element("div", {}, ...shown.map((one) => element("div", {}, this.app.origins.link(state, one))),
      shown.length < kernel.operations.length ? element("span", { class: "dim" }, `and ${kernel.operations.length - shown.length} more`) : null);
  }

  roofline(timed, machine, picked) {
    const [width, height, left, bottom] = [560, 320, 96, 44];
    const points = timed.map((kernel) => ({ kernel, x: Math.max(kernel.flops, 1) / Math.max(kernel.bytes, 1), y: Math.max(kernel.flops, 1) / kernel.seconds }));
    const ridge = machine.peak / machine.bandwidth;
    const range = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
    const [x0, x1] = range([...points.map((p) => p.x), ridge / 10, ridge * 2]), [y0, y1] = range([...points.map((p) => p.y), machine.peak, machine.peak / 100]);
    const x = (v) => left + ((Math.log10(v) - x0) / (x1 - x0)) * (width - left - 16), y = (v) => height - bottom - ((Math.log10(v) - y0) / (y1 - y0)) * (height - bottom - 16);
    const image = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Roofline of ${timed.length} kernels; the table below has the numbers` });
    for (let power = x0; power <= x1; power++) image.append(svg("line", { class: "grid", x1: x(10 ** power), x2: x(10 ** power), y1: 16, y2: height - bottom }),
      Object.assign(svg("text", { x: x(10 ** power), y: height - bottom + 16, "text-anchor": "middle" }), { textContent: 10 ** power < 1 ? `1/${10 ** -power}` : String(10 ** power) }));
    for (let power = y0; power <= y1; power++) image.append(svg("line", { class: "grid", x1: left, x2: width - 16, y1: y(10 ** power), y2: y(10 ** power) }),
      Object.assign(svg("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }), { textContent: quantity(10 ** power, "flop/s") }));
    image.append(Object.assign(svg("text", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle" }), { textContent: "operations for each byte moved" }));
    const low = 10 ** x0;
    image.append(svg("path", { class: "roof", d: `M${x(low)},${y(Math.max(10 ** y0, low * machine.bandwidth))} L${x(ridge)},${y(machine.peak)} L${x(10 ** x1)},${y(machine.peak)}` }));
    const longest = Math.max(...timed.map((kernel) => kernel.seconds));
    for (const { kernel, x: intensity, y: speed } of points) {
      const i = this.app.model.data.kernels.indexOf(kernel);
      const dot = svg("circle", { class: `dot${i === picked ? " picked" : ""}`, cx: x(intensity), cy: y(speed), r: 4 + 9 * Math.sqrt(kernel.seconds / longest) },
        Object.assign(svg("title"), { textContent: `${kernel.name}: ${duration(kernel.seconds)}, ${quantity(speed, "flop/s")}` }));
      dot.addEventListener("click", () => this.app.pickKernel(i));
      image.append(dot);
    }
    return image;
  }

  timeline(timed, total, picked) {
    const width = 560, image = svg("svg", { viewBox: `0 0 ${width} ${timed.length * 24 + 8}`, role: "img", "aria-label": `Timeline of ${timed.length} kernels` });
    let start = 0;
    timed.forEach((kernel, i) => {
      const number = this.app.model.data.kernels.indexOf(kernel), left = (start / total) * width, size = Math.max(2, (kernel.seconds / total) * width);
      const block = svg("rect", { class: `block${number === picked ? " picked" : ""}`, x: left, y: i * 24 + 2, width: size, height: 18, rx: 3 },
        Object.assign(svg("title"), { textContent: `${kernel.name}: ${duration(kernel.seconds)}` }));
      block.addEventListener("click", () => this.app.pickKernel(number));
      const isWide = size > width * 0.4, right = !isWide && left > width / 2;
      image.append(block, Object.assign(svg("text", { class: isWide ? "inside" : "", x: isWide ? left + 6 : right ? left - 5 : left + size + 5, y: i * 24 + 15, "text-anchor": right ? "end" : "start" }),
        { textContent: kernel.name.replace(/^.*_dispatch_\d+_/, "") + ` · ${duration(kernel.seconds)}` }));
      start += kernel.seconds;
    });
    return image;
  }
}

function drawHalves(box, app) {
  const halves = app.model.data.halves;
  const functions = (half) => halves.functions.filter((one) => one.half === half);
  const total = halves.residuals.reduce((sum, one) => sum + one.nbytes, 0), most = Math.max(...halves.residuals.map((one) => one.nbytes), 1);
  const side = (title, words, own) => element("div", { class: "half" }, element("h3", {}, title), element("p", { class: "dim" }, words),
    table([["function"], ["computes", 1], ["moves", 1]], own.map((one) => ({ cells: [element("code", {}, one.name), quantity(one.flops, "flop"), quantity(one.bytes, "B")] }))));
  const meter = (bytes) => { const bar = element("div", { class: "meter" }); bar.style.width = `${Math.max(2, (70 * bytes) / most)}px`; return bar; };
  box.replaceChildren(element("h2", {}, "The two halves of a prepared product"),
    element("p", {}, `The known half depends only on the point and runs once. It stores ${quantity(total, "B")} on the device. Each product reads them and computes the rest.`),
    element("div", { class: "columns" }, side("Known half", "runs once for each point", functions("known")), side("Rest", "runs for each product", functions("rest"))),
    element("h3", {}, "Stored residuals"), table(
      [["value"], ["type"], ["size", 1], ["share"], ["made by"], ["why it is stored"], ["read by"]],
      halves.residuals.map((one) => ({ cells: [
        element("code", {}, one.name), element("code", {}, one.type), quantity(one.nbytes, "B"), meter(one.nbytes),
        one.made_by < 0 ? element("span", { class: "dim" }, "an argument") : app.origins.link(halves.state, one.made_by),
        one.flops ? `without it, each product would compute ${quantity(one.flops, "flop")} and move ${quantity(one.bytes, "B")}`
          : one.made_by < 0 ? "it is an argument and cannot be recomputed" : "it costs nothing to compute, and is not large",
        one.readers.join(", ") || element("span", { class: "dim" }, "only the checks"),
      ] }))),
    element("h3", {}, "Values that each product recomputes"),
    halves.recomputed.length ? table([["value"], ["type"], ["by"], ["why it is not stored"]], halves.recomputed.map((one) => ({ cells: [
      app.origins.link(halves.state, one.made_by), element("code", {}, one.type), element("code", {}, one.function),
      `recomputing it costs ${quantity(one.flops, "flop")}; storing it would take ${quantity(one.nbytes, "B")} more`] })))
      : element("p", {}, "None: all values that depend only on the point are stored."));
}

const COLORS = ["#2f7de1", "#d97a06", "#b8329f", "#2b8a3e", "#c92a2a", "#0b7285", "#7048e8", "#5c940d", "#a61e4d", "#495057"];

// A matrix as points: `paint` calls its argument with the row, the column and the product of each entry.
function picture(rows, columns, paint, label) {
  const largest = Math.max(rows, columns, 1), scale = Math.max(1, Math.min(24, Math.floor(480 / largest))), step = Math.ceil(largest / 1000);
  const canvas = element("canvas", { width: Math.ceil(columns / step) * scale, height: Math.ceil(rows / step) * scale, role: "img", "aria-label": label });
  const context = canvas.getContext("2d");
  paint((row, column, product) => {
    context.fillStyle = COLORS[product % COLORS.length];
    context.fillRect(Math.floor(column / step) * scale, Math.floor(row / step) * scale, scale, scale);
  });
  return canvas;
}

function drawPattern(box, app) {
  const pattern = app.model.data.pattern, { rows, columns } = pattern, count = pattern.row.length;
  // Products with columns have the first numbers, and products with rows the next ones.
  const ofColumns = Math.max(0, ...pattern.color_of_column.map((color) => color + 1)), ofRows = Math.max(0, ...pattern.color_of_row.map((color) => color + 1));
  // An entry is read from a product with columns if no other entry shares its cell there; otherwise from a product with rows, or, by symmetry, from the column of its row.
  const cell = (row, column) => row * ofColumns + pattern.color_of_column[column], shares = new Map();
  pattern.row.forEach((row, i) => shares.set(cell(row, pattern.column[i]), (shares.get(cell(row, pattern.column[i])) || 0) + 1));
  const product = (row, column) => {
    if (pattern.color_of_column[column] >= 0 && shares.get(cell(row, column)) === 1) return pattern.color_of_column[column];
    return pattern.color_of_row[row] >= 0 ? ofColumns + pattern.color_of_row[row] : Math.max(0, pattern.color_of_column[row] ?? 0);
  };
  const each = (draw) => pattern.row.forEach((row, i) => draw(row, pattern.column[i]));
  const figures = [element("figure", {}, element("h3", {}, "The entries, each in the color of its product"), picture(rows, columns,
    (dot) => each((row, column) => dot(row, column, product(row, column))), `${rows} by ${columns} pattern with ${count} entries`))];
  if (ofColumns) figures.push(element("figure", {}, element("h3", {}, ofColumns === 1 ? "The product with a sum of columns" : `The ${ofColumns} products with sums of columns`),
    picture(rows, ofColumns, (dot) => each((row, column) => { const color = pattern.color_of_column[column]; if (color >= 0) dot(row, color, color); }), `${ofColumns} columns`)));
  if (ofRows) figures.push(element("figure", {}, element("h3", {}, ofRows === 1 ? "The product with a sum of rows" : `The ${ofRows} products with sums of rows`),
    picture(ofRows, columns, (dot) => each((row, column) => { const color = pattern.color_of_row[row]; if (color >= 0) dot(color, column, ofColumns + color); }), `${ofRows} rows`)));
  const density = (100 * count) / Math.max(1, rows * columns), kind = pattern.kind === "hessian" ? "Hessian" : "Jacobian";
  box.replaceChildren(element("h2", {}, `The pattern of the ${kind}`),
    element("p", {}, `${rows} × ${columns}, ${count} entries that can be other than zero (${density.toPrecision(2)} %). `
      + `Columns that share no row are summed, and one product computes them all: ${pattern.colors} products instead of ${columns} (${pattern.coloring} coloring).`),
    element("div", { class: "pictures" }, ...figures), ...pattern.causes.map((cause) => element("pre", {}, cause)));
}
