// The data of the page, unpacked, and what is chosen; parts of the page register to hear of changes.

const data = JSON.parse(find("data").textContent);

function unpack(column) {
  if ("all" in column) return new Array(data.count).fill(column.all);
  return column.index ? column.index.map((place) => column.values[place]) : column.each;
}
const unpack_all = (table) => Object.fromEntries(Object.entries(table).map(([name, column]) => [name, unpack(column)]));

const designs = {
  count: data.count,
  labels: data.labels,
  state: unpack(data.state).map((place) => data.states[place]),
  failed: unpack(data.failed),
  fields: data.fields.map((field) => ({ ...field, value: unpack(field.value) })),
  figures: unpack_all(data.figures),
  area: unpack_all(data.area),
  low: unpack_all(data.low),
  high: unpack_all(data.high),
  rungs: unpack_all(data.rungs),
  networks: Object.fromEntries(Object.entries(data.by_network).map(([name, item]) => [name, {
    cycles: unpack(item.cycles), roofline: unpack(item.roofline), dram: unpack(item.dram), energy: unpack_all(item.energy),
  }])),
  toml: data.toml.map(([key, column]) => [key, unpack(column)]),
};
const metrics = Object.fromEntries(data.metrics.map((metric) => [metric.name, metric]));
const all_designs = [...Array(designs.count).keys()];
const ran = all_designs.filter((i) => designs.state[i] !== "failed");
const front = all_designs.filter((i) => designs.state[i] === "front")
  .sort((i, k) => designs.figures[data.objectives[0]][i] - designs.figures[data.objectives[0]][k]);
const reference = designs.state.indexOf("reference");

// What is chosen: designs A and B, the network whose layers are shown, the designs that the brushes let in.
const chosen = { a: -1, b: -1, network: data.networks[0].name, inside: new Array(designs.count).fill(true) };
const listeners = [];
const on_change = (draw) => listeners.push(draw);
function change(what) {
  Object.assign(chosen, what);
  for (const draw of listeners) draw(what);
}
const label = (i) => (designs.state[i] === "reference" ? `base ${designs.labels[i]}`
  : data.kind === "comparison" ? designs.labels[i] : `design ${designs.labels[i]}`);
const file_name = (i) => `${designs.labels[i].replace(/[^A-Za-z0-9._-]+/g, "-")}.toml`;
const layers_of = (i, network) => ((data.layers[i] || {})[network] || null);
const rung = (name, i) => designs.rungs[name]?.[i] ?? metrics[name].rung;
const figure = (name, i) => designs.figures[name][i];

// The text of a design's configuration, as `vdla config` reads it.
function toml(i) {
  const name = data.names[i] || designs.fields.map((field) => `${field.name}=${field.value[i]}`).join(" ");
  const lines = [`name = "${name.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`];
  let memory = false;
  for (const [key, column] of designs.toml) {
    if (column[i] === null) continue;
    const inside = key.startsWith("memory.");
    if (inside && !memory) lines.push("", "[memory]");
    memory = inside;
    lines.push(`${inside ? key.slice(7) : key} = ${column[i]}`);
  }
  return `${lines.join("\n")}\n`;
}
// What is known of the schedules of a network that templates did not decide: layers, cycles without them, their file.
const schedules = (i, network) => data.by_network[network].schedules[i] || null;
function commands(i) {
  const place = file_name(i);
  const found = [];
  for (const { what, command } of data.commands) {
    if (command.includes("{base}") && (designs.state[i] === "reference" || data.kind === "comparison")) continue;
    const networks = command.includes("{network}") ? data.networks : [null];
    for (const network of networks) {
      found.push([what, command.replace("{toml}", place).replace("{name}", place.replace(/\.toml$/, ""))
        .replace("{base}", data.base).replace("{network}", network ? network.file : "")
        .replace("{records}", network && schedules(i, network.name) ? ` --records ${schedules(i, network.name).file}` : "")]);
    }
  }
  return found;
}
// Series of a stacked bar: the largest ones with a colour each, the rest together.
function largest(table, most = 5) {
  const totals = Object.entries(table).map(([name, column]) => [name, column.reduce((sum, value) => sum + (value || 0), 0)]);
  totals.sort((a, b) => b[1] - a[1]);
  const own = totals.slice(0, most).filter(([, sum]) => sum > 0).map(([name]) => [name, table[name]]);
  const rest = totals.slice(own.length).filter(([, sum]) => sum > 0).map(([name]) => table[name]);
  if (rest.length === 1) own.push([totals[own.length][0], rest[0]]);
  else if (rest.length) own.push(["others", rest[0].map((_, k) => rest.reduce((sum, column) => sum + (column[k] || 0), 0))]);
  return own;
}
