// A step of stage 05: what the compute and the communication stream of each rank do, and when.
"use strict";

const listed = (ranks) => ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks.join(" ")}`;

/** The same interface as makeRing. A step here is a moment at which something begins or ends. */
function makeStreams(recording, longest) {
  const {ranks, operations} = recording;
  const everyone = [...Array(ranks).keys()];
  const of = (rank, phase) => operations.filter((o) => o.rank === rank && o.phase === phase);
  const buckets = [...new Set(of(0, "all-reduce").map((o) => o.what))];
  /** By bucket: the all-reduce of each rank, and when the last of them had come to it. */
  const calls = new Map(buckets.map((bucket) => {
    const own = everyone.map((rank) => of(rank, "all-reduce").find((o) => o.what === bucket));
    return [bucket, {own, starts: Math.max(...own.map((o) => o.begin_ms))}];
  }));

  const moments = [{time: 0, title: "The step begins.", items: []}];
  const say = (time, title, items = []) => moments.push({time, title, items});
  for (const rank of everyone) {
    const backward = of(rank, "backward");
    const last = Math.max(...of(rank, "all-reduce").map((o) => o.end_ms));
    const ends = backward.at(-1).end_ms;
    say(of(rank, "forward")[0].begin_ms, `Rank ${rank} begins its forward pass.`);
    say(backward[0].begin_ms, `Rank ${rank} begins its backward pass, with the last layer.`);
    say(ends, `Rank ${rank} has ended its backward pass.`,
        last > ends ? [`its all-reduces go on for ${ms(last - ends)}: exposed`] : []);
    say(last, `Rank ${rank} has all sums and updates its weights.`);
  }
  for (const [bucket, {own, starts}] of calls) {
    for (const {rank, begin_ms: begin} of own) {
      const missing = everyone.filter((other) => own[other].begin_ms > begin);
      say(begin, `Rank ${rank} comes to the all-reduce of ${bucket}.`,
          [missing.length === 0 ? "it is the last: now the all-reduce can run"
                                : `it waits there for ${listed(missing)}`]);
    }
    const end = Math.max(...own.map((o) => o.end_ms));
    say(end, `The all-reduce of ${bucket} is done on all ranks.`,
        [`it ran for ${ms(end - starts)}, after the last had come`]);
  }
  say(recording.duration_ms, "The step is over on all ranks.",
      [`its all-reduces took ${ms(recording.all_reduce_ms)} on average over the ranks, ` +
           "waiting included",
       `${ms(recording.exposed_ms)} of that were exposed: the rank computed nothing meanwhile`]);
  moments.sort((a, b) => a.time - b.time);

  const rows = everyone.flatMap((rank) => [
    {label: `${rank} comp.`, space: 6, bars: operations
        .filter((o) => o.rank === rank && o.stream === "compute")
        .map((o) => ({look: o.phase, begin: o.begin_ms, end: o.end_ms}))},
    {label: `${rank} comm.`, bars: of(rank, "all-reduce").flatMap((o) => {
      const runs = Math.min(Math.max(o.begin_ms, calls.get(o.what).starts), o.end_ms);
      return [...(runs > o.begin_ms ? [{look: "wait", begin: o.begin_ms, end: runs}] : []),
              {look: "all-reduce", begin: runs, end: o.end_ms, text: o.what.split(" ").at(-1)}];
    })},
  ]);

  function words(index) {
    const {time, title, items} = moments[index];
    return {title: `${ms(time)}: ${title}`, items};
  }
  function draw(parent, width, index) {
    addBars(parent, width, rows, moments[index].time, longest,
            "the compute and communication streams of each rank over time");
    addLegend(parent, [["bar forward", "forward"], ["bar backward", "backward"],
                       ["bar update", "loss, checks, update"],
                       ["bar all-reduce", "all-reduce of bucket k"],
                       ["bar wait", "waits in it for a later rank"]]);
  }
  const [speed, latency] = recording.link.split(",");
  const about = `One steady step of a run, with overlap ${recording.overlap}, over links of ` +
      `${speed} GB/s and ${latency} us. Of each rank, comp. is its compute stream and comm. its ` +
      "communication stream. " +
      (recording.slow ? `On rank ${recording.slow.rank} every fourth operation came up to 1 ms late. `
                      : "") +
      `All of it: ${ms(recording.duration_ms)}.`;
  return {times: moments.map((moment) => moment.time), words, draw, about};
}
