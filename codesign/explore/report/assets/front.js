// Designs by two figures; the front in front.

function draw_front() {
  const place = find("front-plot");
  const [name_x, name_y] = [find("front-x").value, find("front-y").value];
  const log = find("front-log").checked, alone = find("front-only").checked;
  const x_values = designs.figures[name_x], y_values = designs.figures[name_y];
  const visible = ran.filter((i) => !alone || designs.state[i] === "front" || designs.state[i] === "reference");
  const box = box_of(place, 430);
  const ends = (values, low, high) => range(visible.flatMap((i) => [values[i], low?.[i] ?? null, high?.[i] ?? null]), log);
  const x = scale(...ends(x_values, designs.low[name_x], designs.high[name_x]), box.left, box.right, log);
  const y = scale(...ends(y_values, designs.low[name_y], designs.high[name_y]), box.bottom, box.top, log);
  const picture = svg("svg", {
    width: box.width, height: box.height, tabindex: 0, role: "application", id: "front-svg",
    "aria-label": `Designs by ${name_x} and ${name_y}; arrow keys go along the front`,
  });
  picture.append(frame(box, x, y, metrics[name_x].heading, metrics[name_y].heading), stairs(visible, x_values, y_values, x, y, box));
  const order = { over: 0, feasible: 1, reference: 2, front: 3 };
  for (const i of [...visible].sort((i, k) => order[designs.state[i]] - order[designs.state[k]])) {
    const at = [x(x_values[i]), y(y_values[i])];
    const state = designs.state[i], out = chosen.inside[i] ? "" : " out";
    picture.append(...intervals(i, name_x, name_y, x, y, at, out));
    if (state === "reference") {
      picture.append(svg("path", { class: `dot reference${out}`, "data-design": i, d: `M${at[0]} ${at[1] - 7}l6 7l-6 7l-6-7z` }));
    } else {
      picture.append(svg("circle", { class: `dot ${state}${out}`, "data-design": i, cx: at[0].toFixed(1), cy: at[1].toFixed(1), r: state === "front" ? 4.5 : 3 }));
    }
  }
  picture.append(svg("g", { id: "front-rings" }));
  picture.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    if (i < 0) untip();
    else tip(event, label(i), about(i));
    picture.style.cursor = i < 0 ? "" : "pointer";
  });
  picture.addEventListener("pointerleave", untip);
  picture.addEventListener("click", (event) => {
    const i = nearest(event);
    if (i >= 0) change(event.shiftKey ? { b: i } : { a: i });
  });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (step && front.length) {
      const order_x = [...front].sort((i, k) => x_values[i] - x_values[k]);
      const now = order_x.indexOf(chosen.a);
      change({ a: order_x[now < 0 ? 0 : (now + step + order_x.length) % order_x.length] });
      event.preventDefault();
    } else if (event.key === "Enter") change({ b: chosen.a });
  });
  const nearest = (event) => {
    const bounds = picture.getBoundingClientRect();
    const [px, py] = [event.clientX - bounds.left, event.clientY - bounds.top];
    let best = -1, distance = 14 ** 2;
    for (const i of visible) {
      const far = (x(x_values[i]) - px) ** 2 + (y(y_values[i]) - py) ** 2 - (designs.state[i] === "front" ? 16 : 0);
      if (far < distance) [best, distance] = [i, far];
    }
    return best;
  };
  const focused = document.activeElement && document.activeElement.id === "front-svg";
  place.replaceChildren(picture, front_legend(visible));
  if (focused) picture.focus({ preventScroll: true });
  draw_rings.at = (i) => (visible.includes(i) ? [x(x_values[i]), y(y_values[i])] : null);
  draw_rings();
}

function draw_rings() {
  const group = find("front-rings");
  if (!group || !draw_rings.at) return;
  group.replaceChildren();
  for (const which of ["b", "a"]) {
    const at = draw_rings.at(chosen[which]);
    if (!at) continue;
    group.append(svg("circle", { class: `ring ${which}`, cx: at[0], cy: at[1], r: which === "a" ? 8.5 : 11.5 }),
      svg("text", { class: which, x: at[0] + 12, y: at[1] + (which === "a" ? -9 : 19), text: `${which.toUpperCase()}: ${label(chosen[which])}` }));
    const text = group.lastChild;
    if (at[0] > find("front-plot").clientWidth - 130) { text.setAttribute("x", at[0] - 12); text.setAttribute("text-anchor", "end"); }
  }
}

// The designs that no other one beats in the two figures shown, as a staircase.
function stairs(visible, x_values, y_values, x, y, box) {
  const [name_x, name_y] = [find("front-x").value, find("front-y").value];
  const sx = metrics[name_x].maximize ? -1 : 1, sy = metrics[name_y].maximize ? -1 : 1;
  const order = visible.filter((i) => designs.state[i] === "front" || designs.state[i] === "feasible")
    .sort((i, k) => sx * (x_values[i] - x_values[k]) || sy * (y_values[i] - y_values[k]));
  let best = Infinity, path = "", before = 0;
  for (const i of order) {
    if (sy * y_values[i] >= best) continue;
    best = sy * y_values[i];
    const at = [x(x_values[i]).toFixed(1), y(y_values[i]).toFixed(1)];
    path += path ? `H${at[0]}V${at[1]}` : `M${at[0]} ${sy > 0 ? box.top : box.bottom}V${at[1]}`;
    before = at;
  }
  if (before) path += `H${sx > 0 ? box.right : box.left}`;
  return svg("path", { class: "stair", d: path });
}

function intervals(i, name_x, name_y, x, y, at, out) {
  const found = [];
  for (const [name, of, across] of [[name_x, x, true], [name_y, y, false]]) {
    const low = designs.low[name]?.[i] ?? null, high = designs.high[name]?.[i] ?? null;
    if (low === null || high === null) continue;
    found.push(svg("line", across
      ? { class: `error${out}`, x1: of(low), x2: of(high), y1: at[1], y2: at[1] }
      : { class: `error${out}`, x1: at[0], x2: at[0], y1: of(low), y2: of(high) }));
  }
  return found;
}

function about(i) {
  const rows = designs.fields.map((field) => [field.name, shown(field.value[i])]);
  for (const metric of data.metrics) if (metric.objective) rows.push([metric.heading, shown(figure(metric.name, i)) + (designs.low[metric.name]?.[i] == null ? "" : ` (${shown(designs.low[metric.name][i], 3)} to ${shown(designs.high[metric.name][i], 3)})`)]);
  rows.push(["utilization", shown(figure("utilization", i), 3)]);
  if (designs.state[i] === "over") rows.push(["breaks a constraint", ""]);
  return rows;
}

function front_legend(visible) {
  const count = (state) => visible.filter((i) => designs.state[i] === state).length;
  const legend = el("div", { class: "legend" });
  for (const [state, text, color] of [["front", "no other one beats it", "var(--front)"], ["feasible", "feasible", "var(--plain)"],
    ["over", "breaks a constraint", "var(--grid)"]]) {
    if (count(state)) legend.append(swatch(color, `${text}: ${count(state).toLocaleString("en-US")}`, true));
  }
  if (reference >= 0) legend.append(el("span", { text: "◆ the base of the space" }));
  legend.append(el("span", { text: "dashed: best of these two figures alone" }));
  return legend;
}

function start_front() {
  for (const [id, name] of [["front-x", data.objectives[0]], ["front-y", data.objectives[1] || data.objectives[0]]]) {
    for (const metric of [...data.metrics].sort((a, b) => b.objective - a.objective)) find(id).append(el("option", { value: metric.name, text: metric.heading }));
    find(id).value = name;
  }
  if (data.objectives.length > 2) find("front-y").value = data.objectives[2];
  const wide = ["front-x", "front-y"].some((id) => {
    const values = ran.map((i) => figure(find(id).value, i));
    return Math.max(...values) > 8 * Math.min(...values);
  });
  find("front-log").checked = wide;
  for (const id of ["front-x", "front-y", "front-log", "front-only"]) find(id).addEventListener("change", draw_front);
  on_change((what) => ("inside" in what ? draw_front() : draw_rings()));
}
