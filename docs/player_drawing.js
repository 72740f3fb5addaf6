// What both pictures are drawn with: SVG elements, bars over time, legends.
"use strict";

/** An SVG element in `parent`, with attributes and, perhaps, text. */
function add(parent, name, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== "") element.textContent = text;
  parent.append(element);
  return element;
}

/** A picture of that size in pixels. A screen reader gets the words of the step instead. */
function addPicture(parent, width, height, what) {
  const picture = add(parent, "svg",
                      {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": what});
  const patterns = add(picture, "defs");
  const look = {width: 6, height: 6, patternUnits: "userSpaceOnUse"};
  const stripes = add(patterns, "pattern", {...look, id: "stripes",
                                            patternTransform: "rotate(45)"});
  add(stripes, "line", {class: "stripe", x1: 1, y1: 0, x2: 1, y2: 6});
  add(add(patterns, "pattern", {...look, id: "dots"}), "circle", {class: "dot", cx: 2, cy: 2, r: 1});
  return picture;
}

/** What a look means: [class of a bar or cell, words] each. */
function addLegend(parent, entries) {
  const legend = document.createElement("div");
  legend.className = "legend";
  for (const [look, words] of entries) {
    const entry = document.createElement("span");
    add(add(entry, "svg", {viewBox: "0 0 18 14", "aria-hidden": "true"}), "rect",
        {class: look, x: 1.5, y: 1.5, width: 15, height: 11});
    entry.append(words);
    legend.append(entry);
  }
  parent.append(legend);
}

/**
 * Bars over time, a row each, and all that comes after `now` (ms) behind a veil. `rows` are
 * {label, space, bars: [{look, begin, end, text}]}, with `space` above, as high as `space` says;
 * `longest` (ms) is as wide as the picture.
 */
function addBars(parent, width, rows, now, longest, what) {
  const left = 58, right = 12, rowHeight = 26;
  let foot = 4;
  const places = rows.map(({space = 0}) => (foot += space + rowHeight) - rowHeight);
  const x = (time) => left + (width - left - right) * time / longest;
  const picture = addPicture(parent, width, foot + 34, what);
  rows.forEach((row, index) => {
    const y = places[index];
    const group = add(picture, "g", {class: "row"});
    add(group, "text", {x: 0, y: y + 17}, row.label);
    for (const bar of row.bars) {
      const wide = x(bar.end) - x(bar.begin);
      add(group, "rect", {class: `bar ${bar.look}`, x: x(bar.begin), y: y + 3, height: rowHeight - 6,
                          width: Math.max(wide, 0.5)});
      if (bar.text !== undefined && wide > 9) {
        add(group, "text", {class: `on-bar on-${bar.look}`, x: x(bar.begin) + wide / 2, y: y + 17,
                            "text-anchor": "middle"}, bar.text);
      }
    }
  });
  add(picture, "rect", {class: "veil", x: x(now), y: 0, width: width - x(now), height: foot});
  add(picture, "line", {class: "cursor", x1: x(now), x2: x(now), y1: 0, y2: foot});
  add(picture, "line", {class: "axis", x1: left, x2: width - right, y1: foot, y2: foot});
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => longest / step <= 6) ?? 1000;
  for (let time = 0; time <= longest; time += every) {
    add(picture, "line", {class: "axis", x1: x(time), x2: x(time), y1: foot, y2: foot + 5});
    add(picture, "text", {class: "small", x: x(time), y: foot + 17, "text-anchor": "middle"}, time);
  }
  add(picture, "text", {class: "small", x: width - right, y: foot + 31, "text-anchor": "end"},
      "ms since the beginning");
}

/** 12.3 ms */
const ms = (time) => `${time.toFixed(1)} ms`;
