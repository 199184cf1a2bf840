// Two designs side by side: what differs, where, and why.

function draw_compare() {
  const { a, b, network } = chosen, body = find("compare-body");
  find("compare-title").replaceChildren(el("span", { class: "key-a", text: a < 0 ? "A" : `A: ${label(a)}` }), " and ", el("span", { class: "key-b", text: b < 0 ? "B" : `B: ${label(b)}` }));
  if (a < 0 || b < 0) { body.replaceChildren(el("p", { text: "Choose two designs." })); return; }
  const parts = [el("h3", { text: "In short" }), el("ul", { id: "compare-short" }, ...in_short(a, b, network).map((text) => el("li", { text })))];
  const figures = el("table", {}, el("thead", {}, el("tr", {}, ...["figure", "A", "B", "B / A"].map((text) => el("th", { text })))),
    el("tbody", {}, ...data.metrics.map((metric) => el("tr", { title: metric.rung }, el("td", { text: metric.heading }), el("td", { text: shown(figure(metric.name, a)) }),
      el("td", { text: shown(figure(metric.name, b)) }), el("td", { text: ratio(figure(metric.name, a), figure(metric.name, b)) }))),
    ...(data.networks.length > 1 ? data.networks.map((item) => el("tr", {}, el("td", { text: `cycles of ${item.name}` }), el("td", { text: shown(designs.networks[item.name].cycles[a]) }),
      el("td", { text: shown(designs.networks[item.name].cycles[b]) }), el("td", { text: ratio(designs.networks[item.name].cycles[a], designs.networks[item.name].cycles[b]) }))) : [])));
  const fields = el("table", {}, el("thead", {}, el("tr", {}, ...["field", "A", "B"].map((text) => el("th", { text })))),
    el("tbody", {}, ...differing(a, b).map(([key, left, right]) => el("tr", {}, el("td", { text: key }), el("td", { text: left }), el("td", { text: right })))));
  parts.push(el("div", { class: "columns" }, el("div", {}, el("h3", { text: "Figures" }), el("div", { class: "scroll" }, figures)),
    el("div", {}, el("h3", { text: "Fields that differ" }), el("div", { class: "scroll" }, fields))));
  parts.push(el("div", { class: "columns" }, el("div", {}, el("h3", { text: "Area by unit, mm²" }), unit_bars(designs.area, [a, b])),
    el("div", {}, el("h3", { text: `Energy by unit, µJ a launch of ${network}` }), unit_bars(designs.networks[network].energy, [a, b]))));
  const layers = [layers_of(a, network), layers_of(b, network)];
  if (layers[0] && layers[1]) {
    const causes = causes_of(layers);
    parts.push(el("div", { class: "columns" }, el("div", {}, el("h3", { text: `Cycles of ${network} by what the array did` }), pair_bars(causes)),
      el("div", {}, el("h3", { text: `Cycles by layer, where they differ most` }), pair_bars(by_layer(layers, "cycles").slice(0, 14)))));
  } else {
    parts.push(el("p", { class: "hint", text: "The report does not have the layers of both designs." }));
  }
  body.replaceChildren(...parts);
}

const sum_of = (column) => column.reduce((total, value) => total + value, 0);

// [what, A, B] of the cycles by cause, the largest first.
function causes_of([left, right]) {
  const names = [...new Set([...Object.keys(left.stalls), ...Object.keys(right.stalls)])];
  const rows = names.map((name) => [`stall: ${name}`, sum_of(left.stalls[name] || []), sum_of(right.stalls[name] || [])]);
  rows.sort((r, s) => Math.max(s[1], s[2]) - Math.max(r[1], r[2]));
  return [["GEMM", sum_of(left.gemm), sum_of(right.gemm)], ...rows];
}
// [layer, A, B], the largest difference first.
function by_layer([left, right], what) {
  const of_b = new Map(right.name.map((name, k) => [name, right[what][k]]));
  const rows = left.name.filter((name) => of_b.has(name)).map((name) => [name, left[what][left.name.indexOf(name)], of_b.get(name)]);
  return rows.sort((r, s) => Math.abs(s[2] - s[1]) - Math.abs(r[2] - r[1]));
}
function pair_bars(rows) {
  return unit_bars(Object.fromEntries(rows.map(([name, left, right]) => [name, { 0: left, 1: right }])), [0, 1]);
}
function differing(a, b) {
  return designs.toml.filter(([, column]) => column[a] !== column[b])
    .map(([key, column]) => [key, ...[column[a], column[b]].map((text) => (text === null ? "left out" : /^\d+$/.test(text) ? shown(Number(text)) : text))]);
}

// Sentences: how much, of what, where. `codesign/explore/report/explain.py` says the same in Python.
function in_short(a, b, network) {
  const found = [];
  const cycles = designs.networks[network].cycles;
  const layers = [layers_of(a, network), layers_of(b, network)];
  let text = change_text(`cycles of ${network}`, cycles[a], cycles[b], "");
  if (layers[0] && layers[1]) {
    text += main_changes(causes_of(layers));
    const where = main_changes(by_layer(layers, "cycles"), 3);
    if (where) text += `; by layer${where}`;
  }
  found.push(text);
  const energy = designs.networks[network].energy;
  const pairs = (table) => Object.entries(table).map(([unit, column]) => [unit, column[a] || 0, column[b] || 0]);
  const total = (rows, k) => rows.reduce((sum, row) => sum + row[k], 0);
  for (const [name, rows, unit] of [[`energy of ${network}`, pairs(energy), " µJ"], ["area", pairs(designs.area), " mm²"]]) {
    found.push(change_text(name, total(rows, 1), total(rows, 2), unit) + main_changes(rows));
  }
  return found;
}
function change_text(name, left, right, unit) {
  if (left === right) return `${name}: equal`;
  return `${name}: B has ${shown(Math.abs(right - left), 3)}${unit} ${right > left ? "more" : unit ? "less" : "fewer"} than A (${ratio(left, right)})`;
}
function main_changes(rows, most = 3) {
  const changed = rows.map(([name, left, right]) => [name, right - left]).filter(([, by]) => by).sort((r, s) => Math.abs(s[1]) - Math.abs(r[1]));
  const all = changed.reduce((sum, [, by]) => sum + Math.abs(by), 0);
  const main = changed.slice(0, most).filter(([, by]) => Math.abs(by) >= 0.05 * all);
  return main.length ? `: ${main.map(([name, by]) => `${name} ${signed(by)}`).join(", ")}` : "";
}
