// The page: asks the server for moments, shows them, and plays.

import { MemoryMap, actionColour, scaleColour } from "/map.js";
import { Timeline, short } from "/timeline.js";

const $ = (id) => document.getElementById(id);
const TRAIL = 40; // moments of the line behind the current state
const STATISTICS = {
  known_states: ["known states", "share of writes whose state was stored already"],
  recall: ["recall of the index", "share of the true neighbours that the search finds"],
  nearest_weight: ["weight of the nearest", "mean weight of the nearest neighbour"],
  outermost: ["outermost distance", "median distance to the outermost neighbour"],
  key_drift: ["key drift", "distance of stored keys to those of the network now, in typical neighbour distances"],
  q_bias: ["Q minus return", "mean difference"],
  q_correlation: ["Q and return", "correlation"],
};
const page = { about: null, moment: null, asked: null, playing: false, positions: [], busy: Promise.resolve() };
const map = new MemoryMap($("map"), showEntry);
const timeline = new Timeline($("timeline"), (index) => { pause(); visit(index); });
window.watch = { page, map, timeline };

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  let response;
  try { response = await fetch(path, options); } catch { throw new Error("watch.py does not answer: it has ended, or is restarting. Reload the page."); }
  if (!response.ok) throw new Error((await response.json()).error);
  return path === "/api/map" ? response.arrayBuffer() : response.json();
}

// One question at a time, in the order of clicks.
function queue(work) {
  page.busy = page.busy.then(work).then(() => { $("problem").hidden = true; }).catch((error) => {
    pause(); $("problem").textContent = error.message; $("problem").hidden = false;
  });
  return page.busy;
}

const visit = (index) => queue(async () => show(await ask(`/api/moment?index=${index}${page.asked === null ? "" : `&action=${page.asked}`}`)));
const step = () => queue(async () => show(await ask("/api/step", { index: page.moment.index, action: page.asked })));
const restart = (seed) => queue(async () => show(await ask("/api/restart", { seed })));

async function play() {
  page.playing = true; buttons();
  let due = performance.now();
  while (page.playing) {
    if (page.moment.decision === null) {
      await wait(900);
      if (page.playing) await restart(null);
      due = performance.now();
      continue;
    }
    await step();
    due += 1000 / (page.about.steps_per_second * Number($("speed").value));
    const now = performance.now();
    if (due < now - 500) due = now; // the machine is slower than asked for: no hurry afterwards
    await wait(due - now);
  }
}
function pause() { page.playing = false; buttons(); }
const wait = (milliseconds) => new Promise((done) => setTimeout(done, Math.max(0, milliseconds)));

function show(moment) {
  const fresh = !page.moment || moment.episode !== page.moment.episode;
  if (fresh) { timeline.reset(); page.positions = []; $("seed").value = moment.seed; }
  page.moment = moment;
  const { decision } = moment;
  if (moment.picture) $("picture").src = moment.picture;
  $("score").textContent = short(moment.score);
  $("index").textContent = moment.index;
  $("reward").textContent = moment.reward ? (moment.reward > 0 ? "+" : "") + short(moment.reward) : "0";
  $("action").textContent = decision ? page.about.actions[decision.action] : "the episode has ended";
  const how = $("how");
  how.className = "badge";
  how.textContent = "";
  if (decision) {
    const drawn = page.about.kind === "probabilities" ? "drawn" : "random";
    how.textContent = decision.greedy ? "greedy" : drawn;
    how.title = decision.greedy ? "no action has a higher score" : "another action has a higher score: this one was drawn at random";
    how.classList.add(decision.greedy ? "greedy" : "random");
  }
  showScores(decision);
  showNeighbours(decision);
  timeline.put(moment.index, decision?.scores, decision?.action, moment.reward);
  timeline.now = moment.index;
  timeline.shown = decision ? decision.shown : timeline.shown;
  timeline.draw();
  page.positions[moment.index] = decision?.position ?? null;
  const trail = page.positions.slice(Math.max(0, moment.index - TRAIL), moment.index + 1).filter(Boolean);
  if (page.about.memory) map.move(trail, (decision?.neighbours?.listed ?? []).map((near) => near.row));
  buttons();
  document.documentElement.dataset.index = moment.index;
}

function showScores(decision) {
  const list = $("scores"), names = page.about.actions;
  if (list.children.length !== names.length) {
    list.replaceChildren(...names.map((name, action) => {
      const row = element("button", "score", element("span", "name", name));
      row.type = "button"; row.dataset.action = action; row.setAttribute("role", "option");
      row.append(element("span", "track", element("i", "fill")), element("span", "number"));
      row.addEventListener("click", () => { page.asked = page.asked === action ? null : action; visit(page.moment.index); });
      return row;
    }));
  }
  const scores = decision?.scores ?? [];
  const high = Math.max(...scores), low = Math.min(...scores);
  const probabilities = page.about.kind === "probabilities";
  [...list.children].forEach((row, action) => {
    const score = scores[action];
    const share = score === undefined ? 0 : probabilities ? score : high === low ? 1 : 0.04 + 0.96 * (score - low) / (high - low);
    row.querySelector(".fill").style.width = `${100 * share}%`;
    row.querySelector(".number").textContent = score === undefined ? "" : probabilities ? `${(100 * score).toFixed(1)}%` : short(score);
    row.dataset.score = score ?? "";
    row.classList.toggle("taken", decision?.action === action);
    row.classList.toggle("shown", page.asked === action);
    row.setAttribute("aria-selected", decision?.shown === action);
  });
  $("scores-title").replaceChildren(probabilities ? "Probability of each action" : "Q-value of each action", " ");
  const note = probabilities ? (decision ? `value of the state ${short(decision.value)}` : "") : "bars from the lowest to the highest";
  $("scores-title").append(element("span", "quiet", note));
}

function showNeighbours(decision) {
  if (!page.about.memory) return;
  const found = decision?.neighbours, name = decision ? page.about.actions[decision.shown] : "";
  $("neighbours-title").replaceChildren(decision ? `Remembered moments that speak for ${name} ` : "Remembered moments ");
  const pinned = page.asked === null ? "" : "(click the action again to follow the one taken)";
  $("neighbours-title").append(element("span", "quiet", pinned));
  $("neighbours").replaceChildren(...(found?.listed ?? []).map(card));
  const none = decision ? `Nothing is remembered of ${name} yet.` : "";
  $("others").textContent = !found?.listed.length ? none : !found.others ? "" :
    `and ${found.others} more, which weigh ${(100 * found.weight_of_others).toFixed(0)}% together`;
}

function card(near) {
  const box = element("button", "near", picture(near.picture));
  const fill = element("i"); fill.style.width = `${100 * near.weight}%`;
  box.append(element("span", "weight", fill));
  const numbers = element("span", "numbers", element("b", "", short(near.value)), element("span", "quiet", `${(100 * near.weight).toFixed(1)}%`));
  numbers.append(element("span", "quiet", `d ${short(near.distance)}`), element("span", "quiet", ago(near.age)));
  box.append(numbers);
  box.type = "button";
  box.title = `value (return) ${near.value}\nweight ${near.weight}\ndistance ${near.distance}\nlast used ${near.age} lookups and writes ago`;
  Object.assign(box.dataset, { row: near.row, value: near.value, weight: near.weight, distance: near.distance, age: near.age });
  box.addEventListener("click", () => showEntry(near.row));
  return box;
}

function picture(url) {
  const frame = element("span", "frame");
  if (url) { const image = element("img"); image.src = url; image.alt = "remembered screen"; frame.append(image); }
  else frame.append(element("span", "none", "no picture kept"));
  return frame;
}

function showEntry(row) {
  return queue(async () => {
    const entry = await ask(`/api/entry?row=${row}`);
    const text = element("div", "", element("h3", "", `${page.about.actions[entry.action]}: value ${short(entry.value)}`));
    text.append(element("p", "quiet", `last used ${ago(entry.age)} · row ${entry.row}`));
    const near = entry.neighbours.listed;
    text.append(element("p", "quiet", near.length ? `its nearest in the same memory are ${short(near[0].distance)} to ${short(near[near.length - 1].distance)} away:` : "it is alone in its memory"));
    const chosen = element("div", "chosen", picture(entry.picture), text);
    const own = element("div", "own");
    for (const one of near.slice(0, 6)) {
      const small = picture(one.picture);
      small.title = `value ${one.value}, distance ${one.distance}`;
      own.append(small);
    }
    $("entry").replaceChildren(chosen, own);
    Object.assign($("entry").dataset, { row: entry.row, value: entry.value, action: entry.action, age: entry.age });
    $("entry").classList.remove("quiet");
    map.chosen = entry.position; map.drawMarks();
  });
}

function legend() {
  const root = $("legend");
  if (map.colour === "action") {
    root.replaceChildren(...page.about.actions.map((name, action) => {
      const swatch = element("i"); swatch.style.background = `rgb(${actionColour(action)})`;
      return element("span", "", swatch, name);
    }));
    return;
  }
  const [low, high] = map.limits[map.colour], strip = element("canvas");
  strip.width = 140; strip.height = 1;
  const pen = strip.getContext("2d"), dark = document.documentElement.dataset.theme === "dark";
  for (let x = 0; x < 140; x++) { pen.fillStyle = `rgb(${scaleColour(x / 139, dark)})`; pen.fillRect(x, 0, 1, 1); }
  const age = map.colour === "age";
  root.replaceChildren(element("span", "", age ? ago(low) : short(low)), strip, element("span", "", age ? ago(high) : short(high)));
  root.append(element("span", "", age ? "lookups and writes since the entry was last used" : "value (return)"));
}

function statistics() {
  const { memory } = page.about;
  const list = [["entries", memory.entries.toLocaleString("en"), "of all actions"]];
  for (const [name, [label, title]] of Object.entries(STATISTICS)) {
    if (name in memory.statistics) list.push([label, short(memory.statistics[name]), `${title} (training log)`]);
  }
  $("statistics").replaceChildren(...list.map(([label, value, title]) => {
    const box = element("div", "", element("dt", "", label), element("dd", "", value));
    box.title = title;
    return box;
  }));
}

function buttons() {
  const ended = page.moment?.decision === null;
  $("play").firstChild.textContent = page.playing ? "❚❚" : "▶";
  $("play").lastChild.textContent = page.playing ? "pause" : "play";
  $("step").disabled = ended;
  $("back").disabled = !page.moment?.index;
}

function element(tag, name = "", ...content) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...content);
  return made;
}

function ago(age) { return age < 1000 ? `${Math.round(age)} ago` : age < 1e6 ? `${(age / 1000).toFixed(age < 1e4 ? 1 : 0)}k ago` : `${(age / 1e6).toFixed(1)}M ago`; }

function theme(name) {
  document.documentElement.dataset.theme = name;
  if (page.about?.memory) { map.draw(); legend(); }
  timeline.draw();
}

function listen() {
  $("play").addEventListener("click", () => (page.playing ? pause() : play()));
  $("step").addEventListener("click", () => { pause(); step(); });
  $("back").addEventListener("click", () => { pause(); visit(page.moment.index - 1); });
  $("restart").addEventListener("click", () => { pause(); restart(null); });
  $("seed").addEventListener("change", () => { pause(); restart(Number($("seed").value)); });
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("colour").addEventListener("change", () => { map.colour = $("colour").value; map.draw(); legend(); });
  $("only").addEventListener("change", () => { map.only = $("only").value === "" ? null : Number($("only").value); map.draw(); });
  for (const [id, none] of [["low", -Infinity], ["high", Infinity]]) {
    $(id).addEventListener("input", () => { map[id] = $(id).value === "" ? none : Number($(id).value); map.draw(); });
  }
  document.addEventListener("keydown", (event) => {
    if (["INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = { " ": "play", ArrowRight: "step", ArrowLeft: "back", r: "restart" }[event.key];
    if (key) { event.preventDefault(); $(key).click(); }
  });
}

async function start() {
  const about = (page.about = await ask("/api/about"));
  $("title").textContent = about.title;
  document.title = `${about.title}: watch`;
  $("origin").textContent = about.origin;
  $("picture").hidden = !about.renders;
  $("no-picture").hidden = about.renders;
  document.body.classList.toggle("no-memory", !about.memory);
  document.body.classList.toggle("many-actions", about.actions.length > 8);
  $("time-title").append(element("span", "quiet", ` ${about.kind === "probabilities" ? "probability" : "Q-value"} of each action`));
  listen();
  const history = await ask("/api/history");
  const last = history.rewards.length - 1;
  show(await ask(`/api/moment?index=${last}`));
  history.rewards.forEach((reward, i) => timeline.put(i, history.scores[i], history.taken[i], reward));
  timeline.draw();
  if (about.memory) {
    const all = about.memory.on_map === about.memory.entries;
    $("map-size").textContent = `${about.memory.entries.toLocaleString("en")} entries${all ? "" : `, ${about.memory.on_map.toLocaleString("en")} of them shown`}; two principal components, ${(100 * about.memory.explained).toFixed(0)}% of the variance`;
    about.actions.forEach((name, action) => { const option = element("option", "", `${name} (${about.memory.counts[action].toLocaleString("en")})`); option.value = action; $("only").append(option); });
    const began = performance.now();
    map.load(await ask("/api/map"), about.memory.columns);
    map.root.dataset.loaded = (performance.now() - began).toFixed(1);
    legend();
    statistics();
  }
  document.documentElement.dataset.ready = "yes";
}

const dark = matchMedia("(prefers-color-scheme: dark)");
theme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
start().catch((error) => { $("problem").textContent = error.message; $("problem").hidden = false; });
