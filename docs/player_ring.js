// The ring of stage 04: which chunk goes where in each step, and when.
"use strict";

/** The ranks whose terms a sum holds: bit r is rank r's term. */
function termsOf(bits) {
  return [...Array(32).keys()].filter((rank) => bits >> rank & 1);
}

function wordsForTerms(bits) {
  const ranks = termsOf(bits);
  return ranks.length === 1 ? `1 term: rank ${ranks[0]}`
                            : `${ranks.length} terms: ranks ${ranks.join(" ")}`;
}

/** What player.js plays: {times (ms of each step), words(index), draw(parent, width, index)}. */
function makeRing(recording, longest) {
  const {ranks, steps, slow} = recording;
  const endOf = (step) => Math.max(...(step.messages ?? [{end_ms: 0}]).map((m) => m.end_ms));
  const times = steps.map(endOf);
  const everyone = [...Array(ranks).keys()];
  /** When the rank could begin the step: its own last end. */
  const freeAt = (index, rank) => index > 1 ? steps[index - 1].messages[rank].end_ms : 0;

  const [speed, latency] = recording.link.split(",").map(Number);  // GB/s, us
  const bytes = recording.gradient_bytes / ranks;
  const needed = bytes / speed / 1e6 + latency / 1e3;  // ms, for a chunk over the link

  function words(index) {
    const step = steps[index];
    if (index === 0) {
      return {title: "At first each rank has its own term in all of its chunks.", items: []};
    }
    const adds = step.phase === "reduce-scatter";
    const title = `${adds ? "Reduce-scatter" : "All-gather"}, step ${step.step} of 0 to ` +
        `${ranks - 2}: whoever gets a ` +
        (adds ? "chunk adds its own term." : "finished chunk keeps it.");
    const items = step.messages.map((message, rank) => {
      const late = message.begin_ms - freeAt(index, rank);
      const delay = slow && slow.rank === rank ? `, late by ${ms(late)},` : "";
      const terms = wordsForTerms(steps[index - 1].bits[rank][message.chunk]);
      return `rank ${rank}${delay} sends chunk ${message.chunk} (${terms}) to rank ${message.to}`;
    });
    return {title, items};
  }

  function drawCells(parent, width, index) {
    const step = steps[index], before = steps[Math.max(index - 1, 0)];
    const left = 74, right = 26, top = 24, rowHeight = 46;
    const column = (Math.min(width, 560) - left - right + 24) / ranks;
    const cellWidth = column - 24;
    const x = (rank) => left + rank * column, y = (chunk) => top + chunk * rowHeight;
    const picture = addPicture(parent, width, top + ranks * rowHeight,
                               "the chunks of each rank; the text above says what happens");
    for (const chunk of everyone) {
      add(picture, "text", {x: 0, y: y(chunk) + 24}, `chunk ${chunk}`);
    }
    for (const rank of everyone) {
      add(picture, "text", {x: x(rank) + cellWidth / 2, y: 15, "text-anchor": "middle"},
          `rank ${rank}`);
      step.bits[rank].forEach((bits, chunk) => {
        const terms = termsOf(bits);
        const cell = add(picture, "g", {class: "chunk", "data-rank": rank, "data-chunk": chunk,
                                        "data-terms": terms.join("")});
        add(cell, "rect", {class: `cell terms-${terms.length}`, x: x(rank), y: y(chunk),
                           width: cellWidth, height: rowHeight - 6});
        const middle = {x: x(rank) + cellWidth / 2, "text-anchor": "middle",
                        class: `on-${terms.length}`};
        add(cell, "text", {...middle, y: y(chunk) + 18, style: "font-weight:700"}, terms.length);
        add(cell, "text", {...middle, y: y(chunk) + 33, style: "font-size:10px"}, terms.join(" "));
        if (before.bits[rank][chunk] !== bits) {
          add(cell, "rect", {class: "frame", x: x(rank) + 1.5, y: y(chunk) + 1.5,
                             width: cellWidth - 3, height: rowHeight - 9});
        }
      });
    }
    const arrow = (from, at) => {
      add(picture, "path", {class: "arrow", d: `M${from} ${at} h15`});
      add(picture, "path", {class: "head", d: `M${from + 22} ${at} l-8 -5 v10 z`});
    };
    (step.messages ?? []).forEach((message, rank) => {
      const at = y(message.chunk) + rowHeight / 2 - 3;
      arrow(x(rank) + cellWidth + 1, at);
      if (message.to < rank) arrow(x(message.to) - 23, at);  // once around the circle
    });
    const terms = everyone.map((n) => [`cell terms-${n + 1}`, `${n + 1} of ${ranks} terms`]);
    addLegend(parent, [...terms, ["frame", "came in this step"]]);
  }

  function drawTimes(parent, width, index) {
    const rows = everyone.map((rank) => {
      const bars = [];
      steps.slice(1).forEach((step, i) => {
        const {begin_ms: begin, end_ms: end} = step.messages[rank];
        const sender = step.messages[(rank + ranks - 1) % ranks].begin_ms;
        const starts = Math.min(Math.max(begin, sender), end);
        if (begin - freeAt(i + 1, rank) > 0.5) {
          bars.push({look: "sleep", begin: freeAt(i + 1, rank), end: begin});
        }
        if (starts - begin > 0.2) bars.push({look: "wait", begin, end: starts});
        // And a large message only leaves when the right neighbour takes it.
        const taker = Math.min(step.messages[(rank + 1) % ranks].begin_ms, end);
        const busy = taker - (starts + needed) > 0.2 ? starts + needed : end;
        bars.push({look: step.phase, begin: starts, end: busy, text: step.step});
        if (busy < end) {
          bars.push({look: "wait", begin: busy, end: taker});
          bars.push({look: step.phase, begin: taker, end});
        }
      });
      return {label: `rank ${rank}`, bars};
    });
    addBars(parent, width, rows, times[index], longest, "when each rank was in which step");
    addLegend(parent, [["bar reduce-scatter", "step of the reduce-scatter"],
                       ["bar all-gather", "of the all-gather"],
                       ["bar wait", "waits for a neighbour to send or to take"],
                       ...(slow ? [["bar sleep", "sleeps"]] : [])]);
  }

  const about = `A chunk of ${Math.round(bytes / 1000)} kB needs ${ms(needed)} over a link of ` +
      `${speed} GB/s and ${latency} us. ` +
      (slow ? `Rank ${slow.rank} slept ${slow.ms} ms before each of its steps. Its right ` +
              `neighbour waits for what it sends, its left one until it takes what comes, a step ` +
              `later the next ones, and so on around the circle. `
            : "") +
      `All of it: ${ms(times.at(-1))}.`;
  const draw = (parent, width, index) => {
    drawCells(parent, width, index);
    drawTimes(parent, width, index);
  };
  return {times, words, draw, about};
}
