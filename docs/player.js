// The controls of player.html. RECORDINGS is in recordings.js.
"use strict";

const part = (id) => document.getElementById(id);
const lengthOf = (recording) => recording.duration_ms ??
    Math.max(...recording.steps.at(-1).messages.map((message) => message.end_ms));
const state = {view: null, index: 0, timer: null};

/** All recordings of a kind have one scale of time, so that a slow one is seen to be long. */
function makeView(name) {
  const {kind} = RECORDINGS[name];
  const same = Object.values(RECORDINGS).filter((recording) => recording.kind === kind);
  const longest = Math.max(...same.map(lengthOf));
  return (kind === "ring" ? makeRing : makeStreams)(RECORDINGS[name], longest);
}

function show() {
  const {view, index} = state;
  const {title, items} = view.words(index);
  const heading = document.createElement("p"), list = document.createElement("ul");
  heading.textContent = title;
  for (const item of items) {
    list.append(Object.assign(document.createElement("li"), {textContent: item}));
  }
  part("words").replaceChildren(heading, ...(items.length ? [list] : []));
  part("view").replaceChildren();
  view.draw(part("view"), Math.max(part("view").clientWidth, 280), index);
  part("slider").value = index;
  part("slider").setAttribute("aria-valuetext", `step ${index} of ${view.times.length - 1}`);
  part("place").textContent = `${index} of ${view.times.length - 1}`;
}

function go(index) {
  state.index = Math.min(Math.max(index, 0), state.view.times.length - 1);
  show();
}

function pause() {
  clearTimeout(state.timer);
  state.timer = null;
  part("play").textContent = "Play";
}

/** Shows the next step when its time has come, as recorded, and slower by as much as was chosen. */
function playOn() {
  const {view, index} = state;
  if (index + 1 >= view.times.length) return pause();
  const shortest = 80;  // ms: less is not to be seen
  const wait = (view.times[index + 1] - view.times[index]) * Number(part("speed").value);
  state.timer = setTimeout(() => {
    go(state.index + 1);
    playOn();
  }, Math.max(wait, shortest));
}

function playOrPause() {
  if (state.timer !== null) return pause();
  if (state.index + 1 >= state.view.times.length) go(0);
  part("play").textContent = "Pause";
  playOn();
}

function step(to) {
  pause();
  go(to);
}

function choose(name) {
  pause();
  part("recording").value = name;
  state.view = makeView(name);
  part("slider").max = state.view.times.length - 1;
  part("about").textContent = state.view.about;
  go(0);
}

function chooseByAddress() {
  const name = location.hash.slice(1);
  choose(name in RECORDINGS ? name : "ring");
}

/** As the site: the system's choice, unless its switch was used (doxygen-awesome-css keeps that). */
function chooseColours() {
  let dark = matchMedia("(prefers-color-scheme: dark)").matches;
  try {
    const key = dark ? "prefers-light-mode-in-dark-mode" : "prefers-dark-mode-in-light-mode";
    if (localStorage.getItem(key)) dark = !dark;
  } catch {
    // A page opened as a file may have no storage.
  }
  document.documentElement.classList.toggle("dark", dark);
}

const keys = {" ": playOrPause, ArrowLeft: () => step(state.index - 1),
              ArrowRight: () => step(state.index + 1), Home: () => step(0),
              End: () => step(state.view.times.length - 1)};
document.addEventListener("keydown", (event) => {
  const {target, key} = event;
  const own = target.matches("select") || (key === " " && target.matches("button"));
  if (own || event.altKey || event.ctrlKey || event.metaKey || !(key in keys)) return;
  event.preventDefault();
  keys[key]();
});
part("first").addEventListener("click", () => step(0));
part("back").addEventListener("click", () => step(state.index - 1));
part("next").addEventListener("click", () => step(state.index + 1));
part("play").addEventListener("click", playOrPause);
part("slider").addEventListener("input", () => step(Number(part("slider").value)));
part("recording").addEventListener("change", () => {
  history.replaceState(null, "", `#${part("recording").value}`);
  choose(part("recording").value);
});
addEventListener("hashchange", chooseByAddress);
addEventListener("resize", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", chooseColours);
chooseColours();
chooseByAddress();
