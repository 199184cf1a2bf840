// What the search had found after so many designs.

function draw_history() {
  const what = find("history-what").value, place = find("history-plot");
  const xs = data.history.designs;
  if (!xs.length) {
    place.replaceChildren(el("p", { text: "No design was feasible." }));
    return;
  }
  const values = what === "volume" ? data.history.volume : data.history.best[what];
  const box = box_of(place, 260);
  const x = scale(0, xs[xs.length - 1], box.left, box.right, false);
  const [low, high] = what === "volume" ? [0, 1.02] : range(values, false);
  const y = scale(low, high, box.bottom, box.top, false);
  const picture = svg("svg", { width: box.width, height: box.height, role: "img", "aria-label": `${what} against designs` });
  const name = what === "volume" ? "share of the last hypervolume" : `best ${metrics[what].heading}`;
  picture.append(frame(box, x, y, "designs", name));
  let path = "";
  values.forEach((value, k) => {
    if (value === null) return;
    path += path ? `H${x(xs[k]).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(xs[k]).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  picture.append(svg("path", { class: "line", d: path }));
  picture.addEventListener("pointermove", (event) => {
    const at = x.back(event.clientX - picture.getBoundingClientRect().left);
    let k = xs.findIndex((value) => value >= at);
    if (k < 0) k = xs.length - 1;
    tip(event, `after ${shown(xs[k])} designs`, [[name, shown(values[k])]]);
  });
  picture.addEventListener("pointerleave", untip);
  place.replaceChildren(picture);
}

function start_history() {
  find("history-what").append(el("option", { value: "volume", text: `hypervolume of ${data.history.objectives.join(", ")}` }));
  for (const name of Object.keys(data.history.best)) find("history-what").append(el("option", { value: name, text: `best ${metrics[name].heading}` }));
  find("history-what").addEventListener("change", draw_history);
  find("history-how").textContent = `The hypervolume: ${data.history.how}.`;
}
