// The layers of design A: the roofline, and where cycles, energy and bytes go.

const series_color = (k) => `var(--s${Math.min(k, 6)})`;

function draw_layers() {
  const i = chosen.a, layers = i < 0 ? null : layers_of(i, chosen.network);
  find("layers-title").replaceChildren(`Layers of ${chosen.network} on `, el("span", { class: "key-a", text: i < 0 ? "no design" : `A: ${label(i)}` }));
  for (const id of ["layers-roofline", "layers-legend", "layers-table"]) find(id).replaceChildren();
  if (!layers) {
    if (i < 0) return;
    const with_layers = Object.keys(data.layers).length;
    find("layers-table").append(el("p", { text: `The report has the layers of ${with_layers} designs, most of them of the front; for this one:` }),
      el("code", { text: `vdla run ${data.networks.find((item) => item.name === chosen.network).file} --config ${file_name(i)}` }));
    return;
  }
  draw_roofline(layers, data.machine[i]);
  const cycles = [["GEMM", layers.gemm], ...largest(layers.stalls)];
  const energy = largest(layers.energy, 6);
  const bytes = layers.name.map((_, k) => Object.values(layers.dram).reduce((sum, column) => sum + column[k], 0));
  const joules = layers.name.map((_, k) => Object.values(layers.energy).reduce((sum, column) => sum + column[k], 0));
  const most = { cycles: Math.max(...layers.cycles, ...layers.roofline), energy: Math.max(...joules) };
  find("layers-legend").append(el("strong", { text: "cycles:" }), ...cycles.map(([name], k) => swatch(series_color(k), k ? `stall: ${name}` : name)), el("span", { text: "│ roofline" }));
  const legend = el("div", { class: "legend" }, el("strong", { text: "energy:" }), ...energy.map(([name], k) => swatch(series_color(k), name)));
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...["layer", "cycles", "", "of roofline", "energy, µJ", "", "DRAM bytes", "must move"].map((text) => el("th", { text })))));
  const body = el("tbody");
  layers.name.forEach((name, k) => {
    body.append(el("tr", {}, el("td", { text: name, title: `${layers.op[k]}, ${shown(layers.macs[k])} multiplies, bound by ${layers.bound[k]}` }),
      el("td", { text: shown(layers.cycles[k]) }), el("td", { class: "bar" }, stack(cycles, k, most.cycles, layers.roofline[k])),
      el("td", { text: layers.cycles[k] && layers.roofline[k] ? percent(layers.roofline[k] / layers.cycles[k]) : "–" }),
      el("td", { text: shown(joules[k], 3) }), el("td", { class: "bar", style: "width:22%" }, stack(energy, k, most.energy)),
      el("td", { text: shown(bytes[k]) }), el("td", { text: shown(layers.compulsory[k]) })));
  });
  const sum = (column) => column.reduce((total, value) => total + value, 0);
  body.append(el("tr", {}, el("td", { text: "all" }), el("td", { text: shown(sum(layers.cycles)) }), el("td"),
    el("td", { text: percent(sum(layers.roofline) / sum(layers.cycles)) }), el("td", { text: shown(sum(joules), 4) }), el("td"),
    el("td", { text: shown(sum(bytes)) }), el("td", { text: shown(sum(layers.compulsory)) })));
  table.append(body);
  find("layers-table").append(table);
  find("layers-legend").after(legend);
  if (draw_layers.legend) draw_layers.legend.remove();
  draw_layers.legend = legend;
}

function stack(series, k, most, mark) {
  const bar = el("div", { class: "stack", role: "img", "aria-label": series.filter(([, column]) => column[k]).map(([name, column]) => `${name} ${shown(column[k])}`).join(", ") });
  series.forEach(([name, column], place) => {
    if (column[k]) bar.append(el("i", { style: `width:${(100 * column[k]) / most}%;background:${series_color(place)}`, title: `${name}: ${shown(column[k])}` }));
  });
  if (mark) bar.append(el("b", { style: `left:${(100 * mark) / most}%`, title: `roofline: ${shown(mark)}` }));
  return bar;
}

function draw_roofline(layers, machine) {
  const place = find("layers-roofline"), box = box_of(place, 300);
  const points = layers.name.map((name, k) => {
    const bytes = Object.values(layers.dram).reduce((sum, column) => sum + column[k], 0);
    return { name, k, x: layers.macs[k] / bytes, y: layers.macs[k] / layers.cycles[k] };
  }).filter((point) => point.x > 0 && point.y > 0 && Number.isFinite(point.x) && Number.isFinite(point.y));
  if (!points.length || !machine) return;
  const steepest = machine.roofs[0].bytes, ridge = machine.peak / steepest;
  const x_ends = range([...points.map((point) => point.x), ridge / 4, ridge * 4], true);
  const x = scale(...x_ends, box.left, box.right, true);
  const y = scale(...range([...points.map((point) => point.y), machine.peak * 1.3, machine.roofs.at(-1).bytes * x_ends[0]], true), box.bottom, box.top, true);
  const picture = svg("svg", { width: box.width, height: box.height, role: "img", "aria-label": "Roofline of the layers" });
  picture.append(frame(box, x, y, "multiplies a DRAM byte", "multiplies a cycle"),
    svg("path", { class: "roof", d: `M${x(x_ends[0])} ${y(steepest * x_ends[0])}L${x(ridge)} ${y(machine.peak)}H${box.right}` }),
    svg("text", { x: box.right, y: y(machine.peak) - 7, "text-anchor": "end", text: `array: ${shown(machine.peak)} a cycle; ${machine.roofs.map((roof) => roof.words).join("; ")}` }));
  for (const { bytes } of machine.roofs.slice(1)) {
    picture.append(svg("path", { class: "roof one-way", d: `M${x(x_ends[0])} ${y(bytes * x_ends[0])}L${x(machine.peak / bytes)} ${y(machine.peak)}` }));
  }
  for (const point of points) {
    const dot = svg("circle", { class: "dot front", cx: x(point.x), cy: y(point.y), r: 5 });
    dot.addEventListener("pointermove", (event) => tip(event, point.name, [["operator", layers.op[point.k]], ["cycles", shown(layers.cycles[point.k])],
      ["multiplies a cycle", shown(point.y, 3)], ["multiplies a byte", shown(point.x, 3)], ["bound by", layers.bound[point.k]]]));
    dot.addEventListener("pointerleave", untip);
    picture.append(dot);
  }
  place.append(picture);
}
