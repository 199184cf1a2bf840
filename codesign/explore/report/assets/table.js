// All designs, sorted by any column.

const listing = { sort: "", down: false, rows: 50 };

function listing_columns() {
  return [
    { name: "design", value: (i) => Number(designs.labels[i]), text: (i) => designs.labels[i] },
    ...designs.fields.map((field) => ({ name: field.name, value: (i) => field.value[i], text: (i) => shown(field.value[i]), title: field.meaning })),
    ...data.metrics.map((metric) => ({ name: metric.heading, value: (i) => figure(metric.name, i), text: (i) => shown(figure(metric.name, i)), title: metric.rung })),
  ];
}

function listed() {
  const alone = find("table-front").checked;
  const column = listing_columns().find((item) => item.name === listing.sort) || listing_columns()[0];
  return ran.filter((i) => designs.state[i] !== "reference" && chosen.inside[i] && (!alone || designs.state[i] === "front"))
    .map((i) => [column.value(i), i]).sort(([p], [q]) => (p < q ? -1 : p > q ? 1 : 0) * (listing.down ? -1 : 1)).map(([, i]) => i);
}

function draw_table() {
  const columns = listing_columns(), rows = listed();
  const head = el("tr", {}, ...columns.map((column) => el("th", { title: column.title, "aria-sort": column.name === listing.sort ? (listing.down ? "descending" : "ascending") : null },
    el("button", { class: "plain", type: "button", text: column.name + (column.name === listing.sort ? (listing.down ? " ↓" : " ↑") : ""), onclick: () => {
      listing.down = column.name === listing.sort && !listing.down;
      listing.sort = column.name;
      draw_table();
    } }))));
  head.firstChild.after(el("th", { text: "choose" }));
  const body = el("tbody", {}, ...rows.slice(0, listing.rows).map((i) => el("tr", { class: i === chosen.a ? "a" : i === chosen.b ? "b" : null },
    el("td", { text: designs.state[i] === "front" ? `${designs.labels[i]} ●` : designs.labels[i], title: designs.state[i] }),
    el("td", {}, el("button", { type: "button", "aria-label": `choose ${label(i)} as A`, text: "A", onclick: () => change({ a: i }) }), " ",
      el("button", { type: "button", "aria-label": `choose ${label(i)} as B`, text: "B", onclick: () => change({ b: i }) })),
    ...columns.slice(1).map((column) => el("td", { text: column.text(i) })))));
  find("table-body").replaceChildren(el("table", {}, el("thead", {}, head), body));
  find("table-more").hidden = rows.length <= listing.rows;
  find("table-count").textContent = `${Math.min(rows.length, listing.rows).toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")} designs`;
}

function start_table() {
  listing.sort = metrics[data.objectives[0]].heading;
  find("table-front").checked = front.length > 0;
  find("table-front").addEventListener("change", draw_table);
  find("table-more").addEventListener("click", () => { listing.rows += 200; draw_table(); });
  find("table-csv").addEventListener("click", () => {
    const columns = listing_columns(), quote = (value) => (/[",\n]/.test(value) ? `"${String(value).replace(/"/g, '""')}"` : value);
    const lines = [columns.map((column) => quote(column.name)), ...listed().map((i) => columns.map((column) => quote(column.value(i) ?? "")))];
    save("designs.csv", `${lines.map((line) => line.join(",")).join("\n")}\n`, "text/csv");
  });
  on_change((what) => { if (!("network" in what)) draw_table(); });
}
