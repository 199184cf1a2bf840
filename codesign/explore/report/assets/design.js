// The chosen design: its fields, figures and units, its file, and the commands that make them again.

function draw_design() {
  const i = chosen.a, body = find("design-body");
  find("design-title").replaceChildren(el("span", { class: "key-a", text: "A: " }), i < 0 ? "no design" : label(i));
  if (i < 0) { body.replaceChildren(el("p", { text: "No design ran." })); return; }
  const states = { front: "No other design beats it.", feasible: "Another design beats it.", over: "It breaks a constraint.", reference: "The base of the space.", failed: `It failed: ${designs.failed[i]}` };
  const left = el("div", {});
  if (data.kind === "exploration") left.append(el("p", { text: states[designs.state[i]], style: "margin:0" }));
  const verified = data.verified[i];
  if (verified) {
    left.append(el("p", { class: verified.mismatches ? "bad" : "good", style: "margin:.2rem 0",
      text: `Co-simulated: ${shown(verified.mismatches)} mismatches in ${shown(verified.cycles)} cycles of ${verified.networks.join(", ")} on its RTL (${shown(verified.seconds)} s).${verified.first ? ` The first: ${verified.first}` : ""}` }));
  }
  if (verified) {
    const folder = `front/${designs.labels[i]}`;
    const files = ["vdla.v", "vdla.h", "vdla.json", ...verified.networks.map((name) => `${name}.npz`)];
    left.append(el("p", { style: "margin:.2rem 0" }, "Beside this page: ", ...files.flatMap((name, k) => [k ? ", " : "", el("a", { href: `${folder}/${encodeURIComponent(name)}`, text: name })])));
  }
  for (const { name } of data.networks) {
    const own = schedules(i, name);
    if (own) {
      left.append(el("p", { style: "margin:.2rem 0", text: `Schedules of ${name}: ${shown(own.layers)} layers have one that was found by trying` +
        (own.default === null ? "; with the compiler's own it does not run." : `; with the compiler's own it takes ${shown(own.default)} cycles instead of ${shown(designs.networks[name].cycles[i])}.`) }));
    }
  }
  left.append(el("h3", { text: "Figures" }), el("div", { class: "scroll" }, figures_table(i)), ...synthesis_parts(i));
  const right = el("div", {}, el("h3", { text: "Fields" }), el("div", { class: "scroll" }, el("table", {}, ...designs.fields.map((field) => el("tr", { title: field.meaning },
    el("td", { text: field.name }), el("td", { text: shown(field.value[i]) }), el("td", { class: "left", text: field.unit }))))));
  const energy = designs.networks[chosen.network].energy;
  const units = el("div", { class: "columns" },
    el("div", {}, el("h3", { text: "Area by unit, mm²" }), unit_bars(designs.area, [i])),
    el("div", {}, el("h3", { text: `Energy by unit, µJ a launch of ${chosen.network}` }), unit_bars(energy, [i])));
  const file = el("div", {}, el("h3", { text: "Its file" }), el("div", { class: "tools" },
    el("button", { type: "button", id: "download-toml", onclick: () => save(file_name(i), toml(i), "application/toml"), text: `download ${file_name(i)}` })),
  el("details", {}, el("summary", { text: "show it" }), el("pre", { class: "scroll" }, el("code", { text: toml(i) }))),
  el("h3", { text: "Commands that make these figures again" }),
  ...commands(i).map(([what, text]) => el("div", { class: "command" }, el("code", { text }),
    el("button", { type: "button", onclick: (event) => copy(event.target, text), text: "copy" }), el("small", { text: what }))));
  body.replaceChildren(el("div", { class: "columns" }, left, right), units, file);
}

function figures_table(i) {
  return el("table", {}, ...data.metrics.map((metric) => {
    const low = designs.low[metric.name]?.[i] ?? null, high = designs.high[metric.name]?.[i] ?? null;
    return el("tr", {}, el("td", { text: metric.name }), el("td", { text: shown(figure(metric.name, i)) + (low === null ? "" : ` (${shown(low)} to ${shown(high)})`) }),
      el("td", { class: "left", text: metric.unit }), el("td", { class: "left rung", text: rung(metric.name, i) }));
  }));
}

// Bars of one design, or of A and B under each other, one row a unit, the largest first.
function unit_bars(table, which) {
  const colors = which.length > 1 ? ["var(--a)", "var(--b)"] : ["var(--s0)"];
  const rows = Object.entries(table).map(([unit, column]) => [unit, which.map((i) => column[i] || 0)]).filter(([, values]) => values.some((value) => value));
  rows.sort((r, s) => Math.max(...s[1]) - Math.max(...r[1]));
  const most = Math.max(...rows.map(([, values]) => Math.max(...values)));
  const bars = el("div", { class: "bars" });
  for (const [unit, values] of rows) {
    bars.append(el("span", { text: unit }), el("div", { class: "track" }, ...values.map((value, k) => el("div", { class: "fill", style: `width:${(100 * value) / most}%;background:${colors[k]}` }))),
      el("span", { class: "figure", text: values.length > 1 ? `${shown(values[0], 3)} → ${shown(values[1], 3)}` : shown(values[0], 3) }));
  }
  return bars;
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages from a file may have no clipboard: select the command instead.
    getSelection().selectAllChildren(button.previousSibling);
    document.execCommand("copy");
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}
