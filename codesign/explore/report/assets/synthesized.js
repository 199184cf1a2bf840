// Designs that were synthesized: what was measured beside what the model had predicted.

const error_of = ([predicted, measured]) => (measured === null || !predicted ? "" : `${measured >= predicted ? "+" : "−"}${Math.abs(100 * (measured / predicted - 1)).toFixed(1)}%`);
const with_ends = (value, ends) => `${shown(value)} (${shown(ends[0])} to ${shown(ends[1])})`;

// The synthesis of a design as parts of its description; none where it has none.
function synthesis_parts(i) {
  const found = data.synthesis[i];
  if (!found) return [];
  const row = (name, pair, ends, unit) => el("tr", {}, el("td", { text: name }), el("td", { text: ends ? with_ends(pair[0], ends) : shown(pair[0]) }),
    el("td", { text: pair[1] === null ? "not measured" : shown(pair[1]) }), el("td", { text: error_of(pair) }), el("td", { class: "left", text: unit }));
  const head = () => el("thead", {}, el("tr", {}, ...["", "predicted", "synthesized", "against the model", ""].map((text) => el("th", { text }))));
  const units = Object.entries(found.units).sort((p, q) => Math.max(...q[1]) - Math.max(...p[1]));
  return [el("h3", { text: `Synthesized in ${found.library}` }),
    el("div", { class: "scroll", id: "synthesis" }, el("table", {}, head(), el("tbody", {}, row("area", found.area, found.area_interval, "mm2"), row("clock", found.clock, found.clock_interval, "MHz")))),
    el("details", {}, el("summary", { text: "area by unit" }), el("div", { class: "scroll" }, el("table", {}, head(),
      el("tbody", {}, ...units.map(([unit, pair]) => row(unit, pair, null, "mm2"))))))];
}

// All of them as a table.
function synthesis_table() {
  const found = Object.entries(data.synthesis);
  if (!found.length) return [];
  const heads = ["design", "mm2 predicted", "synthesized", "", "MHz predicted", "synthesized", "", "seconds", "command"];
  return [el("h3", { text: "Synthesized designs" }), el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((text, k) => el("th", { class: k === 8 ? "left" : null, text })))),
    el("tbody", {}, ...found.map(([i, item]) => el("tr", {}, el("td", { text: designs.labels[i] }), el("td", { text: shown(item.area[0]) }), el("td", { text: shown(item.area[1]) }), el("td", { text: error_of(item.area) }),
      el("td", { text: shown(item.clock[0]) }), el("td", { text: item.clock[1] === null ? "" : shown(item.clock[1]) }), el("td", { text: error_of(item.clock) }), el("td", { text: shown(item.seconds) }),
      el("td", { class: "left" }, el("code", { text: `vdla synth --config ${file_name(Number(i))} --for cells` })))))))];
}
