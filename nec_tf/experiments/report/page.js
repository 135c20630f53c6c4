"use strict";
const report = JSON.parse(document.getElementById("report-data").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const hiddenVariants = new Set();
const hiddenGames = new Set();
const paper = window.matchMedia("print");

function theme() {
  const night = dark.matches && !paper.matches;
  return {
    variants: report.palette[night ? "dark" : "light"],
    greys: night ? ["#aab4bf", "#8792a0", "#66717e"] : ["#5b6673", "#8b95a1", "#b3bbc4"],
    text: night ? "#e4e8ed" : "#1c2530",
    line: night ? "#323a44" : "#dde1e7",
    hover: night ? "#252c35" : "#ffffff",
  };
}

function colour(variant, look) {
  return look.variants[report.variants.indexOf(variant) % look.variants.length];
}

function translucent(hex, alpha) {
  const part = (start) => parseInt(hex.slice(start, start + 2), 16);
  return `rgba(${part(1)}, ${part(3)}, ${part(5)}, ${alpha})`;
}

function paint(trace, look) {
  const meta = trace.meta;
  const own = meta.variant ? colour(meta.variant, look) : look.greys[meta.grey % look.greys.length];
  const painted = { ...trace };
  painted.line = { ...trace.line, color: own };
  if (!meta.variant && trace.type === "scatter") painted.line.dash = ["solid", "dash", "dot"][meta.grey % 3];
  painted.marker = { ...trace.marker, color: own };
  if (trace.error_x) painted.error_x = { ...trace.error_x, color: own };
  if (meta.band) painted.fillcolor = translucent(own, 0.16);
  if (meta.faint) painted.opacity = 0.45;
  return painted;
}

function arrange(layout, look) {
  const axis = (own) => ({
    gridcolor: look.line, linecolor: look.line, zerolinecolor: look.line, automargin: true, ...own,
  });
  const title = layout.title
    ? { title: { ...layout.title, x: 0.01, xanchor: "left", font: { size: 14 } } } : {};
  return {
    hovermode: "closest",
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    ...layout,
    ...title,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", size: 12, color: look.text },
    hoverlabel: { bgcolor: look.hover, bordercolor: look.line, font: { color: look.text } },
    margin: { l: 54, r: 14, t: layout.title ? 34 : 14, b: 46 },
    xaxis: axis(layout.xaxis),
    yaxis: axis(layout.yaxis),
    shapes: (layout.shapes || []).map((shape) => ({ ...shape, line: { color: look.text, width: 1, dash: "dot" } })),
  };
}

function draw(element) {
  if (!element.offsetWidth) return; // of a view that is not shown
  const look = theme();
  const { data, layout } = report.figures[element.dataset.figure];
  const shown = data.filter(({ meta }) => !hiddenVariants.has(meta.variant) && !hiddenVariants.has(meta.also));
  Plotly.react(element, shown.map((trace) => paint(trace, look)), arrange(layout, look), {
    responsive: true, displaylogo: false, displayModeBar: false,
  });
}

function drawAll() {
  document.querySelectorAll(".figure").forEach(draw);
}

function apply() {
  const view = document.getElementById("view").value;
  document.querySelectorAll("[data-views]").forEach((element) => {
    element.classList.toggle("off-view", !element.dataset.views.split(" ").includes(view));
  });
  document.querySelectorAll("[data-variants]").forEach((element) => {
    const off = element.dataset.variants.split("|").some((variant) => hiddenVariants.has(variant));
    element.classList.toggle("off-variant", off);
  });
  document.querySelectorAll("[data-game]").forEach((element) => {
    element.classList.toggle("off-game", hiddenGames.has(element.dataset.game));
  });
  drawAll();
}

function swatches() {
  const look = theme();
  document.querySelectorAll(".swatch").forEach((element) => {
    element.style.background = colour(element.dataset.of, look);
  });
}

function listen(selector, hidden) {
  const boxes = document.querySelectorAll(selector);
  const read = () => {
    boxes.forEach((box) => (box.checked ? hidden.delete(box.value) : hidden.add(box.value)));
    apply();
  };
  boxes.forEach((box) => box.addEventListener("change", read));
  return (checked) => {
    boxes.forEach((box) => { box.checked = checked; });
    read();
  };
}

listen("input[name=variant]", hiddenVariants);
const setGames = listen("input[name=game]", hiddenGames);
document.getElementById("all-games").addEventListener("click", () => setGames(true));
document.getElementById("no-games").addEventListener("click", () => setGames(false));
document.getElementById("view").addEventListener("change", apply);
document.addEventListener("click", (event) => {
  const games = document.querySelector(".games");
  if (!games.contains(event.target)) games.open = false;
});
dark.addEventListener("change", () => { swatches(); drawAll(); });
paper.addEventListener("change", () => { swatches(); drawAll(); });
swatches();
apply();
document.documentElement.dataset.ready = "yes";
