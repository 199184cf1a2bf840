// What each field does to each figure: a table of shares, and the levels of the figure that is looked at.

const sensitivity = { figure: "" };

function draw_sensitivity() {
  const found = data.sensitivity.figures;
  const names = data.metrics.map((metric) => metric.name).filter((name) => name in found);
  const fields = [...new Set(names.flatMap((name) => found[name].effects.map((effect) => effect.field)))];
  if (!names.length) {
    find("sensitivity-table").replaceChildren(el("p", { text: "Too few designs ran to tell the fields apart." }));
    return;
  }
  const table = el("table", {}, el("thead", {}, el("tr", {}, el("th", { text: "field" }), ...names.map((name) => el("th", {},
    el("button", { class: "plain", type: "button", "aria-pressed": name === sensitivity.figure, onclick: () => { sensitivity.figure = name; draw_sensitivity(); }, text: name }))))));
  const body = el("tbody");
  for (const field of fields) {
    const meaning = designs.fields.find((item) => item.name === field);
    const row = el("tr", {}, el("td", { title: meaning ? meaning.meaning : "" , text: field }));
    for (const name of names) {
      const effect = found[name].effects.find((item) => item.field === field);
      row.append(effect ? el("td", { class: "share", style: `--share:${100 * effect.share}%`, text: `${percent(effect.share)}  ${shown(effect.factor, 3)}×`, title: `between the best and the worst value of ${field}: a factor of ${effect.factor}` }) : el("td", { text: "–" }));
    }
    body.append(row);
  }
  body.append(el("tr", {}, el("td", { text: "all together" }), ...names.map((name) => el("td", { text: percent(found[name].explained) }))));
  table.append(body);
  find("sensitivity-table").replaceChildren(table);
  find("sensitivity-how").textContent = `How: ${data.sensitivity.how}. What all fields together leave unexplained comes from their acting together. Fitted to ${shown(found[names[0]].designs)} designs, as the search chose them.`;
  find("sensitivity-levels").replaceChildren(...found[sensitivity.figure].effects.map((effect) => levels_plot(effect, sensitivity.figure)));
}

function levels_plot(effect, name) {
  const [width, height] = [210, 130];
  const all = data.sensitivity.figures[name].effects.flatMap((item) => item.levels.map(([, factor]) => factor));
  const y = scale(...range(all, true), height - 32, 26, true);
  const x = (k) => 44 + ((width - 60) * (k + 0.5)) / effect.levels.length;
  const picture = svg("svg", { width, height, role: "img", "aria-label": `${name} by ${effect.field}: ${effect.levels.map(([value, factor]) => `${value}: ${factor}`).join(", ")}` });
  picture.append(svg("text", { class: "strong", x: 2, y: 13, text: effect.field }));
  for (const tick of y.ticks(4)) {
    picture.append(svg("line", { class: "gridline", x1: 40, x2: width - 8, y1: y(tick), y2: y(tick) }),
      svg("text", { x: 36, y: y(tick) + 4, "text-anchor": "end", text: `${short(tick)}×` }));
  }
  picture.append(svg("polyline", { class: "line", points: effect.levels.map(([, factor], k) => `${x(k)},${y(factor)}`).join(" ") }));
  const words = effect.levels.map(([value]) => (typeof value === "number" ? size_text(value) : value.slice(0, 9)));
  const every = Math.ceil((effect.levels.length * Math.max(...words.map((text) => text.length + 1)) * 7) / (width - 60));
  effect.levels.forEach(([value, factor], k) => {
    picture.append(svg("circle", { class: "dot front", cx: x(k), cy: y(factor), r: 3 }, svg("title", { text: `${value}: ${shown(factor, 3)}× the mean ${name}` })));
    if (k % every === 0) picture.append(svg("text", { x: x(k), y: height - 14, "text-anchor": "middle", text: words[k] }));
  });
  return picture;
}

function start_sensitivity() {
  const found = data.sensitivity.figures;
  sensitivity.figure = data.objectives.find((name) => name in found) || Object.keys(found)[0] || "";
}
