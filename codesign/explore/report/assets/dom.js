"use strict";
// Small helpers: elements, figures as text, scales and their ticks, a tooltip.

const find = (id) => document.getElementById(id);

function make(kind, attributes, children, space) {
  const node = space ? document.createElementNS(space, kind) : document.createElement(kind);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const el = (kind, attributes, ...children) => make(kind, attributes, children, null);
const svg = (kind, attributes, ...children) => make(kind, attributes, children, "http://www.w3.org/2000/svg");

// A figure as people read it: four digits, thousands apart, very large and small ones as powers of ten.
function shown(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-3)) return value.toExponential(digits - 2);
  return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}
// A short one for axes: 12 k, 3.4 M.
function short(value) {
  const size = Math.abs(value);
  for (const [unit, factor] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (size >= factor) return `${Number((value / factor).toPrecision(3))}${unit}`;
  }
  return size && size < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(3)));
}
const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + shown(Math.abs(value), 3);
const ratio = (a, b) => (a ? `${shown(b / a, 3)}×` : "–");
const percent = (share) => `${Math.round(100 * share)}%`;

// From values to pixels; logarithmic where asked for and possible.
function scale(low, high, from, to, log) {
  if (log && low <= 0) log = false;
  const f = log ? Math.log : (x) => x;
  const [a, b] = [f(low), f(high)];
  const span = b - a || 1;
  const to_pixels = (value) => from + ((f(value) - a) / span) * (to - from);
  to_pixels.back = (pixel) => {
    const at = a + ((pixel - from) / (to - from)) * span;
    return log ? Math.exp(at) : at;
  };
  to_pixels.ticks = (count) => (log ? log_ticks(low, high, count) : line_ticks(low, high, count));
  return to_pixels;
}
function line_ticks(low, high, count) {
  const raw = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
function log_ticks(low, high, count) {
  for (const parts of [[1, 1.5, 2, 3, 4, 5, 6, 8], [1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
    const found = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
      for (const part of parts) {
        const value = Number((part * 10 ** p).toPrecision(6));
        if (value >= low && value <= high) found.push(value);
      }
    }
    if (found.length <= count) return found.length >= 2 ? found : line_ticks(low, high, count);
  }
  return line_ticks(low, high, count);
}
// The range of some values with room around.
function range(values, log) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return [0, 1];
  if (log && low > 0) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - room, high + room];
}

// Axes with ticks, grid and names around a plot.
function frame(box, x, y, name_x, name_y) {
  const group = svg("g");
  for (const tick of y.ticks(Math.max(3, box.height / 55))) {
    const at = y(tick);
    group.append(svg("line", { class: "gridline", x1: box.left, x2: box.right, y1: at, y2: at }),
      svg("text", { x: box.left - 6, y: at + 4, "text-anchor": "end", text: short(tick) }));
  }
  for (const tick of x.ticks(Math.max(3, (box.right - box.left) / 75))) {
    const at = x(tick);
    group.append(svg("line", { class: "gridline", x1: at, x2: at, y1: box.top, y2: box.bottom }),
      svg("text", { x: at, y: box.bottom + 17, "text-anchor": "middle", text: short(tick) }));
  }
  group.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    svg("line", { class: "axis", x1: box.left, x2: box.left, y1: box.top, y2: box.bottom }),
    svg("text", { class: "strong", x: box.right, y: box.bottom + 34, "text-anchor": "end", text: name_x }),
    svg("text", { class: "strong", x: 2, y: box.top - 8, text: name_y }));
  return group;
}
function box_of(place, height) {
  const width = Math.max(300, place.clientWidth);
  return { width, height, left: 52, right: width - 14, top: 26, bottom: height - 42 };
}

function tip(event, title, rows) {
  const node = find("tip");
  node.replaceChildren(el("strong", { text: title }), ...rows.map(([a, b]) => el("div", {}, el("span", { text: a }), el("span", { text: b }))));
  node.hidden = false;
  const { width, height } = node.getBoundingClientRect();
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  node.style.left = `${Math.max(4, left)}px`;
  node.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 6))}px`;
}
const untip = () => { find("tip").hidden = true; };

function swatch(color, text, round) {
  return el("span", {}, el("i", { class: round ? "swatch round" : "swatch", style: `background:${color}` }), text);
}
function save(name, text, kind) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
