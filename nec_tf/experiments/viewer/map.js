// All entries of the memory as points. They are written into the pixels of a picture, so that half
// a million take a few milliseconds and no graphics card; what moves is on a canvas above them.

const SCALE = ["#2c1160", "#51127c", "#832681", "#b73779", "#e75263", "#fc8961", "#fec488", "#fcfdbf"];
const PICK = 12; // pixels from the pointer to the farthest point that a click means

export class MemoryMap {
  constructor(root, onPick) {
    this.root = root;
    [this.points, this.marks] = root.querySelectorAll("canvas");
    this.onPick = onPick;
    this.count = 0;
    this.colour = "value"; this.only = null; this.low = -Infinity; this.high = Infinity;
    this.trail = []; this.near = []; this.chosen = null;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(root);
  }

  load(columns, names) {
    const n = (this.count = columns.byteLength / 4 / names.length);
    names.forEach((name, i) => { this[name] = new Float32Array(columns, 4 * i * n, n); });
    this.places = new Map();
    for (let i = 0; i < n; i++) this.places.set(this.row[i], i);
    // Points cover each other in this order: mixed, or the last action would cover all others.
    this.order = new Uint32Array(n);
    let stride = Math.max(1, Math.floor(n * 0.618));
    while (n > 1 && divisor(stride, n) > 1) stride++;
    for (let i = 0, at = 0; i < n; i++, at = (at + stride) % n) this.order[i] = at;
    this.showAll();
    this.limits = { value: quantiles(this.value), age: quantiles(this.age) };
    this.draw();
  }

  showAll() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < this.count; i++) {
      x0 = Math.min(x0, this.x[i]); x1 = Math.max(x1, this.x[i]);
      y0 = Math.min(y0, this.y[i]); y1 = Math.max(y1, this.y[i]);
    }
    if (!this.count) [x0, x1, y0, y1] = [-1, 1, -1, 1];
    this.home = { x: (x0 + x1) / 2, y: (y0 + y1) / 2, w: Math.max(x1 - x0, 1e-6), h: Math.max(y1 - y0, 1e-6) };
    this.view = { x: this.home.x, y: this.home.y, zoom: 1 };
  }

  transform() {
    const ratio = devicePixelRatio || 1;
    const width = Math.round(this.root.clientWidth * ratio), height = Math.round(this.root.clientHeight * ratio);
    const scale = this.view.zoom * 0.92 * Math.min(width / this.home.w, height / this.home.h);
    return {
      ratio, width, height, scale,
      px: (x) => width / 2 + (x - this.view.x) * scale,
      py: (y) => height / 2 - (y - this.view.y) * scale,
    };
  }

  passes(i) {
    return (this.only === null || this.action[i] === this.only) && this.value[i] >= this.low && this.value[i] <= this.high;
  }

  draw() {
    if (!this.home || !this.root.clientWidth) return;
    const began = performance.now();
    const { width, height, px, py, ratio } = this.transform();
    this.points.width = width; this.points.height = height;
    const pen = this.points.getContext("2d");
    const picture = pen.createImageData(width, height);
    const pixels = new Uint32Array(picture.data.buffer);
    const size = Math.max(1, Math.round(ratio * (this.count > 60000 ? 1.5 : this.count > 3000 ? 2.5 : 4)));
    const before = Math.floor(size / 2);
    const colours = this.colourTable();
    let drawn = 0;
    for (let k = 0; k < this.count; k++) {
      const i = this.order[k];
      if (!this.passes(i)) continue;
      drawn++;
      const left = Math.round(px(this.x[i])) - before, top = Math.round(py(this.y[i])) - before;
      if (left < 0 || top < 0 || left + size > width || top + size > height) continue;
      const colour = colours.of(i);
      for (let y = top; y < top + size; y++) pixels.fill(colour, y * width + left, y * width + left + size);
    }
    pen.putImageData(picture, 0, 0);
    this.root.dataset.drawn = drawn;
    this.root.dataset.milliseconds = (performance.now() - began).toFixed(1);
    this.drawMarks();
  }

  colourTable() {
    const dark = document.documentElement.dataset.theme === "dark";
    if (this.colour === "action") {
      const table = Array.from({ length: 32 }, (_, a) => packed(actionColour(a)));
      return { of: (i) => table[this.action[i]] };
    }
    const table = Array.from({ length: 256 }, (_, k) => packed(scaleColour(k / 255, dark)));
    const column = this[this.colour], share = this.shareOf();
    return { of: (i) => table[Math.round(255 * share(column[i]))] };
  }

  // From a figure to its place on the scale of colours, in [0, 1].
  shareOf() {
    const [low, high] = this.limits[this.colour];
    const bent = this.colour === "age" ? (v) => Math.log1p(Math.max(v, 0)) : (v) => v;
    const [from, to] = [bent(low), bent(high)];
    return (v) => Math.max(0, Math.min(1, (bent(v) - from) / (to - from || 1)));
  }

  drawMarks() {
    if (!this.home) return;
    const { width, height, px, py, ratio } = this.transform();
    this.marks.width = width; this.marks.height = height;
    const pen = this.marks.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const accent = style.getPropertyValue("--accent"), text = style.getPropertyValue("--text");
    const ring = (x, y, radius, colour, line) => {
      pen.beginPath(); pen.arc(px(x), py(y), radius * ratio, 0, 7); pen.lineWidth = line * ratio; pen.strokeStyle = colour; pen.stroke();
    };
    const at = this.trail[this.trail.length - 1];
    pen.strokeStyle = text; pen.lineWidth = 1.5 * ratio; pen.globalAlpha = 0.55;
    pen.beginPath();
    this.trail.forEach(([x, y], i) => (i ? pen.lineTo(px(x), py(y)) : pen.moveTo(px(x), py(y))));
    pen.stroke();
    pen.globalAlpha = 1;
    for (const row of this.near) {
      const i = this.places?.get(row);
      if (i !== undefined) ring(this.x[i], this.y[i], 4.5, accent, 1.6);
    }
    if (this.chosen) ring(this.chosen[0], this.chosen[1], 8, style.getPropertyValue("--warn"), 2.5);
    if (at) {
      pen.beginPath(); pen.arc(px(at[0]), py(at[1]), 6 * ratio, 0, 7);
      pen.fillStyle = accent; pen.fill();
      pen.lineWidth = 2 * ratio; pen.strokeStyle = "#fff"; pen.stroke();
    }
  }

  move(trail, near) { this.trail = trail; this.near = near; this.drawMarks(); }

  // Where an entry is on the screen, in pixels of the page.
  placeOf(row) {
    const { px, py, ratio } = this.transform(), i = this.places.get(row), box = this.root.getBoundingClientRect();
    return { x: box.left + px(this.x[i]) / ratio, y: box.top + py(this.y[i]) / ratio };
  }

  pick(event) {
    const { px, py, ratio } = this.transform(), box = this.root.getBoundingClientRect();
    const x = (event.clientX - box.left) * ratio, y = (event.clientY - box.top) * ratio;
    let best = null, nearest = (PICK * ratio) ** 2;
    for (let i = 0; i < this.count; i++) {
      if (!this.passes(i)) continue;
      const d2 = (px(this.x[i]) - x) ** 2 + (py(this.y[i]) - y) ** 2;
      if (d2 < nearest) { nearest = d2; best = i; }
    }
    if (best !== null) this.onPick(this.row[best]);
  }

  listen() {
    let from = null, dragged = false;
    const marks = this.marks;
    marks.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY, view: { ...this.view } }; dragged = false;
      marks.setPointerCapture(event.pointerId);
    });
    marks.addEventListener("pointermove", (event) => {
      if (!from) return;
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      if (!dragged && Math.hypot(dx, dy) < 4) return;
      dragged = true;
      const { scale, ratio } = this.transform();
      this.view.x = from.view.x - (dx * ratio) / scale; this.view.y = from.view.y + (dy * ratio) / scale;
      this.draw();
    });
    marks.addEventListener("pointerup", (event) => { if (from && !dragged) this.pick(event); from = null; });
    marks.addEventListener("dblclick", () => { this.showAll(); this.draw(); });
    marks.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { scale, ratio, width, height } = this.transform(), box = this.root.getBoundingClientRect();
      const dx = (event.clientX - box.left) * ratio - width / 2, dy = (event.clientY - box.top) * ratio - height / 2;
      const factor = Math.exp(-event.deltaY * 0.0015);
      const zoom = Math.max(0.5, Math.min(200, this.view.zoom * factor)), kept = zoom / this.view.zoom;
      this.view.x += (dx / scale) * (1 - 1 / kept); this.view.y -= (dy / scale) * (1 - 1 / kept);
      this.view.zoom = zoom;
      this.draw();
    }, { passive: false });
  }
}

export function actionColour(action) {
  return hsl((action * 137.5 + 210) % 360, 0.62, 0.52); // the golden angle: neighbours differ
}

export function scaleColour(share, dark) {
  // In the dark the low end is brighter than the page, in the light the high end darker.
  const at = (dark ? 0.14 + 0.86 * share : 0.86 * share) * (SCALE.length - 1), i = Math.min(SCALE.length - 2, Math.floor(at));
  const [a, b] = [rgb(SCALE[i]), rgb(SCALE[i + 1])];
  return a.map((v, k) => Math.round(v + (b[k] - v) * (at - i)));
}

function rgb(hex) { return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); }
function packed([r, g, b]) { return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0; }
function hsl(h, s, l) {
  const f = (n) => { const k = (n + h / 30) % 12; return Math.round(255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1)))); };
  return [f(0), f(8), f(4)];
}
function divisor(a, b) { while (b) [a, b] = [b, a % b]; return a; }
function quantiles(column) {
  const step = Math.max(1, Math.floor(column.length / 20000)), some = [];
  for (let i = 0; i < column.length; i += step) some.push(column[i]);
  some.sort((a, b) => a - b);
  return some.length ? [some[Math.floor(0.01 * some.length)], some[Math.floor(0.99 * some.length)]] : [0, 1];
}
