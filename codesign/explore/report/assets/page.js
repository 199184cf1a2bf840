// Puts the parts together: the heading, the choice of designs, the sources of the figures, light and dark.

function start_theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    find("theme").textContent = theme === "dark" ? "light" : "dark";
    find("theme").setAttribute("aria-label", `show the page ${theme === "dark" ? "light" : "dark"}`);
    paint_lines();
  };
  set(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
  find("theme").addEventListener("click", () => set(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function draw_lead() {
  find("title").textContent = data.title;
  if (data.kind === "comparison") {
    find("lead").textContent = `Two machines on ${data.networks.map((item) => item.name).join(", ")}, B against A.`;
    return;
  }
  const { study } = data, count = (state) => designs.state.filter((item) => item === state).length;
  const own = designs.count - (reference >= 0 ? 1 : 0);
  const weights = data.networks.filter((item) => item.weight !== 1).map((item) => `${item.name} counts ${shown(item.weight)} times`);
  find("lead").textContent = [
    `${shown(own)} of ${shown(study.points)} designs around ${study.base}, found by ${study.strategy} (seed ${study.seed})`,
    `${shown(count("front"))} that no other one beats in ${data.objectives.join(", ")}`,
    count("over") ? `${shown(count("over"))} break ${study.constraints.join(", ")}` : study.constraints.length ? `all within ${study.constraints.join(", ")}` : "",
    count("failed") ? `${shown(count("failed"))} failed` : "",
    ...weights,
    study.interrupted ? "interrupted before the budget was spent" : "",
  ].filter(Boolean).join("; ") + ".";
}

function start_choice() {
  // The front and the base; other designs, of which there may be thousands, when they are chosen in a plot or the table.
  const order = data.kind === "comparison" ? ran : [...front, ...(reference >= 0 ? [reference] : [])];
  const option = (i) => el("option", { value: i, text: `${designs.state[i] === "front" ? "● " : ""}${label(i)}` });
  const pick = (which) => {
    const select = find(`pick-${which}`), i = chosen[which];
    if (i >= 0 && !select.querySelector(`option[value="${i}"]`)) select.append(option(i));
    select.value = String(i);
  };
  for (const which of ["a", "b"]) {
    const select = find(`pick-${which}`);
    select.append(...order.map(option));
    select.addEventListener("change", () => change({ [which]: Number(select.value) }));
    pick(which);
  }
  for (const { name } of data.networks) find("pick-network").append(el("option", { value: name, text: name }));
  find("pick-network").addEventListener("change", () => change({ network: find("pick-network").value }));
  find("network-label").hidden = data.networks.length < 2;
  on_change((what) => {
    for (const which of ["a", "b"]) if (which in what) pick(which);
  });
}

function draw_sources() {
  const verified = Object.values(data.verified);
  const rows = data.ladder.map((rung) => {
    let figures = rung.figures.join(", ");
    if (rung.name === "co-simulation") {
      const bad = verified.reduce((sum, item) => sum + item.mismatches, 0);
      figures = verified.length ? `cycles of ${shown(verified.length)} designs: ${shown(bad)} mismatches` : "";
    }
    return el("tr", {}, el("td", { text: rung.name }), el("td", { class: "text", text: figures || "none in this report" }), el("td", { class: "text", text: rung.meaning }));
  });
  const { components } = data;
  const parts = [el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { text: "rung" }), el("th", { class: "left", text: "figures" }), el("th", { class: "left", text: "what it is" }))), el("tbody", {}, ...rows))),
    ...components.described.map((text) => el("p", { text: `${text[0].toUpperCase()}${text.slice(1)}.` })),
    ...(components.sources.length ? [el("details", {}, el("summary", { text: "its sources" }), el("ul", {}, ...components.sources.map((text) => el("li", { text }))))] : [])];
  const reasons = new Map();
  // Reasons that differ in their numbers alone are one; its first design shows some.
  for (const text of designs.failed) {
    if (!text) continue;
    const kind = text.replace(/\d+/g, "#"), known = reasons.get(kind) || { text, count: 0 };
    reasons.set(kind, { ...known, count: known.count + 1 });
  }
  if (reasons.size) {
    const sorted = [...reasons.values()].sort((p, q) => q.count - p.count);
    parts.push(el("h3", { text: "Why designs failed" }), el("ul", {}, ...sorted.slice(0, 8).map(({ text, count }) => el("li", { text: `${shown(count)}: ${text}` })),
      sorted.length > 8 ? el("li", { text: `and ${shown(sorted.length - 8)} other reasons` }) : null));
  }
  parts.push(...synthesis_table());
  if (verified.length) {
    parts.push(el("h3", { text: "Co-simulated designs" }), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...["design", "cycles", "mismatches", "seconds", "command"].map((text, k) => el("th", { class: k === 4 ? "left" : null, text })))),
      el("tbody", {}, ...Object.entries(data.verified).map(([i, item]) => el("tr", {}, el("td", { text: designs.labels[i] }), el("td", { text: shown(item.cycles) }), el("td", { text: shown(item.mismatches) }),
        el("td", { text: shown(item.seconds) }), el("td", { class: "left" }, el("code", { text: `vdla run ${data.networks[0].file} --config ${file_name(Number(i))} --engine rtl` }))))))));
  }
  find("sources-body").replaceChildren(...parts);
}

function start() {
  const parts = data.kind === "comparison" ? ["design", "layers", "compare", "sources"] : null;
  for (const section of document.querySelectorAll("main section")) {
    section.hidden = parts !== null && !parts.includes(section.id);
    if (!section.hidden) document.querySelector("nav").append(el("a", { href: `#${section.id}`, text: section.dataset.title }));
  }
  Object.assign(chosen, data.chosen || {});
  start_theme();
  draw_lead();
  start_choice();
  const explored = data.kind === "exploration" && ran.length > 0;
  if (explored) {
    start_front();
    start_parallel();
    start_sensitivity();
    start_history();
    start_table();
    draw_table();
  } else if (data.kind === "exploration") {
    for (const id of ["front", "parallel", "sensitivity", "history", "layers", "compare", "table"]) find(id).hidden = true;
  } else find("compare").after(find("design"), find("layers"));
  on_change(draw_design);
  on_change(draw_layers);
  on_change(draw_compare);
  draw_design();
  draw_layers();
  draw_compare();
  draw_sources();
  const draw = () => {
    if (!explored) return;
    draw_front();
    draw_parallel();
    draw_sensitivity();
    draw_history();
  };
  draw();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    draw();
    draw_layers();
  });
  // When the page can be used: everything is drawn, and the browser has had its turn.
  requestAnimationFrame(() => setTimeout(() => { document.documentElement.dataset.usable = Math.round(performance.now()); }));
}
start();
