// Parallel coordinates: a line a design through its fields and figures; brushes on the axes choose designs.

const parallel = { axes: [], brushes: new Map(), height: 330, top: 46, bottom: 300 };

function parallel_axes() {
  const axes = designs.fields.map((field) => {
    const values = [...new Set(ran.map((i) => field.value[i]))].sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1));
    return { name: field.name, title: field.meaning, value: field.value, values };
  }).filter((axis) => axis.values.length > 1);
  // A field that follows from another one would show the same again.
  for (let k = axes.length - 1; k > 0; k--) {
    if (axes.slice(0, k).some((other) => ran.every((i) => other.value[i] === axes[k].value[i]))) axes.splice(k, 1);
  }
  for (const metric of data.metrics) {
    if (!metric.objective && metric.name !== "utilization") continue;
    const value = designs.figures[metric.name];
    const known = ran.map((i) => value[i]);
    if (Math.max(...known) > Math.min(...known)) axes.push({ name: metric.name, unit: metric.unit, title: metric.rung, value, values: null });
  }
  for (const axis of axes) {
    if (axis.values && (axis.values.length <= 16 || typeof axis.values[0] !== "number")) {
      const place = new Map(axis.values.map((value, k) => [value, k]));
      axis.y = (value) => parallel.bottom - ((parallel.bottom - parallel.top) * (place.get(value) + 0.5)) / axis.values.length;
      axis.spread = (0.5 * (parallel.bottom - parallel.top)) / axis.values.length;
      axis.ticks = axis.values.map((value) => [axis.y(value), typeof value === "number" ? size_text(value) : value]);
    } else {
      const known = ran.map((i) => axis.value[i]);
      const [low, high] = [Math.min(...known), Math.max(...known)];
      const of = scale(low, high, parallel.bottom, parallel.top, high > 8 * low);
      axis.y = of;
      axis.ticks = of.ticks(6).map((tick) => [of(tick), short(tick)]);
    }
  }
  return axes;
}
// Where a line passes among others of the same value, from -0.5 to 0.5.
const apart = (i) => ((i * 0.618034) % 1) - 0.5;
const size_text = (value) => (value >= 1024 && value % 1024 === 0 ? `${value / 1024} Ki` : shown(value));

function draw_parallel() {
  const place = find("parallel-plot");
  const width = Math.max(place.clientWidth, 96 * parallel.axes.length);
  const step = width / parallel.axes.length;
  parallel.axes.forEach((axis, k) => { axis.x = step * (k + 0.5); });
  parallel.width = width;
  const canvas = el("canvas", { id: "parallel-canvas", style: `width:${width}px;height:${parallel.height}px` });
  const picture = svg("svg", { width, height: parallel.height, style: "position:absolute;left:0;top:0", id: "parallel-svg" });
  for (const axis of parallel.axes) picture.append(parallel_axis(axis, step));
  place.replaceChildren(canvas, picture);
  paint_lines();
}

function paint_lines() {
  const canvas = find("parallel-canvas");
  if (!canvas) return;
  const dense = window.devicePixelRatio || 1;
  canvas.width = parallel.width * dense;
  canvas.height = parallel.height * dense;
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  pen.scale(dense, dense);
  pen.lineJoin = "round";
  const draw = (which, stroke, alpha, thick) => {
    pen.strokeStyle = stroke;
    pen.globalAlpha = alpha;
    pen.lineWidth = thick;
    pen.beginPath();
    for (const i of which) parallel.axes.forEach((axis, k) => pen[k ? "lineTo" : "moveTo"](axis.x, axis.y(axis.value[i]) + (axis.spread || 0) * apart(i)));
    pen.stroke();
  };
  const groups = { front: [], plain: [], out: [] };
  for (const i of ran) {
    if (designs.state[i] === "reference") continue;
    groups[!chosen.inside[i] ? "out" : designs.state[i] === "front" ? "front" : "plain"].push(i);
  }
  const crowd = Math.min(0.5, 60 / (groups.plain.length + 60) + 0.05);
  // Each line alone, so that crowds look like ones.
  for (const i of groups.out) draw([i], color("--plain"), 0.05, 1);
  for (const i of groups.plain) draw([i], color("--plain"), crowd, 1);
  for (const i of groups.front) draw([i], color("--front"), Math.min(0.8, 0.3 + 10 / groups.front.length), 1.3);
  if (chosen.b >= 0 && ran.includes(chosen.b)) draw([chosen.b], color("--b"), 1, 3);
  if (chosen.a >= 0 && ran.includes(chosen.a)) draw([chosen.a], color("--a"), 1, 3);
}

function parallel_axis(axis, step) {
  const half = Math.min(22, step / 2 - 4);
  const group = svg("g", {
    tabindex: 0, role: "slider", "aria-orientation": "vertical", "data-axis": axis.name, "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-valuenow": 100, "aria-valuetext": "all designs", "aria-label": `${axis.name}: designs that are let in`,
  });
  group.append(svg("title", { text: axis.title }));
  group.append(svg("line", { class: "axis", x1: axis.x, x2: axis.x, y1: parallel.top, y2: parallel.bottom }));
  for (const [y, text] of axis.ticks) group.append(svg("text", { x: axis.x + 5, y: y + 4, text }));
  const words = axis.name.split("_");
  const lines = words.length > 1 && axis.name.length > step / 8 ? [words.slice(0, Math.ceil(words.length / 2)).join("_") + "_", words.slice(Math.ceil(words.length / 2)).join("_")] : [axis.name + (axis.unit ? ` (${axis.unit})` : "")];
  lines.forEach((text, k) => group.append(svg("text", { class: "strong", x: axis.x, y: 30 + 14 * (k - lines.length + 1), "text-anchor": "middle", text })));
  const brush = svg("rect", { class: "brush", x: axis.x - half / 2, width: half, y: 0, height: 0, visibility: "hidden" });
  const hit = svg("rect", { class: "axis-hit", x: axis.x - half, width: 2 * half, y: parallel.top - 8, height: parallel.bottom - parallel.top + 16 });
  group.append(brush, hit);
  const show = () => {
    const ends = parallel.brushes.get(axis.name);
    brush.setAttribute("visibility", ends ? "visible" : "hidden");
    group.setAttribute("aria-valuetext", ends ? "some designs" : "all designs");
    if (!ends) return;
    brush.setAttribute("y", ends[0]);
    brush.setAttribute("height", Math.max(1, ends[1] - ends[0]));
  };
  const set = (ends) => {
    if (ends) parallel.brushes.set(axis.name, ends);
    else parallel.brushes.delete(axis.name);
    show();
    filter_designs();
  };
  let from = null;
  const at = (event) => Math.min(parallel.bottom + 8, Math.max(parallel.top - 8, event.clientY - find("parallel-svg").getBoundingClientRect().top));
  hit.addEventListener("pointerdown", (event) => { from = at(event); hit.setPointerCapture(event.pointerId); });
  hit.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const to = at(event);
    if (Math.abs(to - from) > 3) set([Math.min(from, to), Math.max(from, to)]);
  });
  hit.addEventListener("pointerup", (event) => {
    if (from !== null && Math.abs(at(event) - from) <= 3) set(null);
    from = null;
  });
  group.addEventListener("keydown", (event) => {
    if (event.key === "Delete" || event.key === "Escape") set(null);
    const step_by = { ArrowUp: -12, ArrowDown: 12 }[event.key];
    if (!step_by) return;
    const [low, high] = parallel.brushes.get(axis.name) || [parallel.top - 8, parallel.bottom + 8];
    const keep = (value) => Math.min(parallel.bottom + 8, Math.max(parallel.top - 8, value));
    set(event.shiftKey ? [low, Math.max(low + 4, keep(high + step_by))] : [Math.min(high - 4, keep(low + step_by)), high]);
    event.preventDefault();
  });
  show();
  return group;
}

function filter_designs() {
  const tests = parallel.axes.filter((axis) => parallel.brushes.has(axis.name)).map((axis) => [axis, ...parallel.brushes.get(axis.name)]);
  const known = new Set(ran);
  change({
    inside: all_designs.map((i) => known.has(i) && tests.every(([axis, low, high]) => {
      const y = axis.y(axis.value[i]);
      return y >= low && y <= high;
    })),
  });
}

function count_inside() {
  const own = ran.filter((i) => designs.state[i] !== "reference");
  const inside = own.filter((i) => chosen.inside[i]).length;
  find("parallel-count").textContent = `${inside.toLocaleString("en-US")} of ${own.length.toLocaleString("en-US")} designs`;
  find("parallel-clear").disabled = !parallel.brushes.size;
}

function start_parallel() {
  parallel.axes = parallel_axes();
  find("parallel-clear").addEventListener("click", () => {
    parallel.brushes.clear();
    draw_parallel();
    filter_designs();
  });
  on_change((what) => {
    if ("a" in what || "b" in what || "inside" in what) paint_lines();
    if ("inside" in what) count_inside();
  });
  count_inside();
}
