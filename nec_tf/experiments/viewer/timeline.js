// The episode over time: a line for each action's score, ticks for rewards, and where we are.

export class Timeline {
  constructor(canvas, onPick) {
    this.canvas = canvas;
    this.scores = []; this.rewards = []; this.taken = [];
    this.now = 0; this.shown = 0; this.colours = [];
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - this.left) / (box.width - this.left - this.right);
      const index = Math.round(share * this.span());
      onPick(Math.max(0, Math.min(this.rewards.length - 1, index)));
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  left = 56; right = 12; top = 8; bottom = 20;

  reset() { this.scores = []; this.rewards = []; this.taken = []; this.now = 0; }

  put(index, scores, taken, reward) {
    this.scores[index] = scores; this.taken[index] = taken; this.rewards[index] = reward;
  }

  span() { return Math.max(60, this.rewards.length - 1); }

  draw() {
    const { canvas } = this, ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name);
    const known = this.scores.filter(Boolean);
    let low = Infinity, high = -Infinity;
    for (const row of known) for (const q of row) { low = Math.min(low, q); high = Math.max(high, q); }
    if (!known.length) { low = 0; high = 1; }
    if (high - low < 1e-9) { low -= 0.5; high += 0.5; }
    const span = this.span();
    const x = (i) => this.left + (i / span) * (width - this.left - this.right);
    const y = (q) => this.top + ((high - q) / (high - low)) * (height - this.top - this.bottom);

    pen.font = "11px system-ui, DejaVu Sans, sans-serif";
    pen.fillStyle = colour("--quiet"); pen.strokeStyle = colour("--line"); pen.lineWidth = 1;
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (const q of [low, (low + high) / 2, high]) {
      pen.beginPath(); pen.moveTo(this.left, y(q)); pen.lineTo(width - this.right, y(q)); pen.stroke();
      pen.fillText(short(q), this.left - 8, y(q));
    }
    pen.textAlign = "left"; pen.textBaseline = "alphabetic";
    pen.fillText("step 0", this.left, height - 4);
    pen.textAlign = "right"; pen.fillText(String(span), width - this.right, height - 4);

    const line = (action) => {
      pen.beginPath();
      let down = false;
      this.scores.forEach((row, i) => {
        if (!row) { down = false; return; }
        if (down) pen.lineTo(x(i), y(row[action])); else pen.moveTo(x(i), y(row[action]));
        down = true;
      });
      pen.stroke();
    };
    const actions = known.length ? known[0].length : 0;
    pen.globalAlpha = 0.3; pen.strokeStyle = colour("--quiet");
    for (let action = 0; action < actions; action++) if (action !== this.shown) line(action);
    pen.globalAlpha = 1; pen.strokeStyle = colour("--accent"); pen.lineWidth = 1.6;
    if (actions) line(this.shown);

    const largest = Math.max(...this.rewards.map(Math.abs), 1e-9);
    this.rewards.forEach((reward, i) => {
      if (!reward) return;
      pen.fillStyle = colour(reward > 0 ? "--good" : "--warn");
      const tall = 3 + (11 * Math.abs(reward)) / largest;
      pen.fillRect(x(i) - 1, height - this.bottom + 2 - tall, 2, tall);
    });
    pen.strokeStyle = colour("--text"); pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(x(this.now), 2); pen.lineTo(x(this.now), height - this.bottom + 4); pen.stroke();
    canvas.dataset.length = this.rewards.length;
  }
}

export function short(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1e6) return number.toExponential(2);
  if (size >= 1000) return Math.round(number).toLocaleString("en");
  if (size === 0 || size >= 100) return number.toFixed(Number.isInteger(number) ? 0 : 1);
  if (size >= 0.01) return number.toFixed(Number.isInteger(number) ? 0 : size >= 10 ? 2 : 3);
  return number.toExponential(1);
}
