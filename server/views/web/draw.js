"use strict";
// The pictures: the running chart of IDs per second, and the peers' clocks.

// past has the points of the chart: those of the daemon, and what the page has seen since,
// of which as many are merged into one as one of the daemon's takes. wanted is true while
// the daemon's are to be asked for.
const past = { points: [], pending: [], each: 5, reach: 3600000, wanted: true };

function remember(point) {
  past.pending.push(point);
  if (point.snowflake !== null && past.pending.length < past.each) return;
  past.points = past.points.filter((p) => p.at > point.at - past.reach).concat(merged(past.pending));
  past.pending = [];
}

// recall puts the daemon's points into the chart; the process began at the time start.
function recall(history, start) {
  const points = history.points.map((p) => ({ at: start + p.uptime_ms, snowflake: p.snowflake, segment: p.segment }));
  const last = points.length ? points[points.length - 1].at : start;
  past.points = [...past.points.filter((p) => p.at < start), ...points, ...past.points.filter((p) => p.at > last)];
}

function merged(points) {
  const known = points.filter((p) => p.snowflake !== null);
  if (known.length === 0 || known.length < points.length && points.length > 1) return { at: points[points.length - 1].at, snowflake: null, segment: null };
  const mean = (name) => known.reduce((sum, p) => sum + p[name], 0) / known.length;
  return { at: points[points.length - 1].at, snowflake: mean("snowflake"), segment: mean("segment") };
}

// topOf returns a round number that is at least n.
function topOf(n) {
  if (n <= 10) return 10;
  const size = 10 ** Math.floor(Math.log10(n));
  for (const step of [1, 2, 4, 5, 10]) if (step * size >= n) return step * size;
  return 10 * size;
}

function drawRate() {
  const holder = byId("rate");
  const width = Math.max(240, holder.clientWidth), height = 190, left = 46, right = 8, top = 8, bottom = 22;
  const points = past.points.concat(past.pending);
  const known = points.filter((p) => p.snowflake !== null);
  const highest = known.reduce((m, p) => Math.max(m, p.snowflake, p.segment), 0);
  const most = topOf(highest);
  const first = points.length ? points[0].at : 0, last = points.length ? points[points.length - 1].at : 0;
  const reaches = Math.max(60000, last - first);
  const x = (at) => width - right - (last - at) / reaches * (width - left - right);
  const y = (v) => height - bottom - v / most * (height - top - bottom);

  const svg = makeSVG("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
  for (let i = 0; i <= 4; i++) {
    const v = most * i / 4;
    svg.append(makeSVG("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
    if (i % 2 === 0) svg.append(makeSVG("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, compact(v)));
  }
  svg.append(makeSVG("text", { x: left, y: height - 5 }, span(reaches) + " ago"));
  svg.append(makeSVG("text", { x: width - right, y: height - 5, "text-anchor": "end" }, "now"));
  for (const [name, style] of [["segment", "line b"], ["snowflake", "line"]]) {
    let path = "", drawing = false;
    for (const p of points) {
      if (p[name] === null) { drawing = false; continue; }
      path += (drawing ? "L" : "M") + x(p.at).toFixed(1) + " " + y(p[name]).toFixed(1);
      drawing = true;
    }
    if (path) svg.append(makeSVG("path", { class: style, d: path, "data-series": name, "data-points": known.length }));
  }
  const now = known[known.length - 1];
  svg.setAttribute("aria-label", now
    ? `IDs per second over the last ${span(last - first)}: snowflake ${rate(now.snowflake)} now, segment ${rate(now.segment)} now, highest ${rate(highest)}.`
    : "IDs per second: nothing measured yet.");
  holder.replaceChildren(svg);
}

// squash is the scale of offsets: linear around zero, logarithmic further out, so that a
// fraction of a millisecond and an hour fit on one axis.
const squash = (ms) => Math.sign(ms) * Math.log10(1 + Math.abs(ms));
const ticks = [0, 1, 10, 100, 1000, 10000, 60000, 600000, 3600000, 86400000, 31536000000];
const tickNames = ["0", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min", "1 h", "1 d", "1 year"];

const rowsAtMost = 12;

function drawClocks(clock) {
  const holder = byId("clocks");
  const peers = clock.peers.filter((p) => p.offset_ms !== undefined);
  const silent = clock.peers.filter((p) => p.offset_ms === undefined);
  const beyond = peers.filter((p) => isOff(p, clock));
  const furthest = peers.reduce((m, p) => Math.max(m, Math.abs(p.offset_ms)), clock.threshold_ms);
  const reach = squash(furthest) * 1.12;
  const width = Math.max(240, holder.clientWidth);
  const inRows = clock.peers.length <= rowsAtMost;
  const narrow = width < 560;
  const left = inRows ? (narrow ? 12 : 190) : 12, right = inRows && !narrow ? 110 : 12;
  const rowHeight = narrow ? 36 : 24;
  const body = inRows ? Math.max(1, clock.peers.length) * rowHeight + 6 : 120;
  const top = 20, bottom = 22, height = top + body + bottom;
  const x = (ms) => left + (squash(ms) / reach + 1) / 2 * (width - left - right);

  const svg = makeSVG("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
  const band = [x(-clock.threshold_ms), x(clock.threshold_ms)];
  svg.append(makeSVG("rect", { class: "allowed", x: band[0], y: top, width: band[1] - band[0], height: body }));
  drawTicks(svg, x, { left, right, width, top, bottom: top + body, reach, label: height - 6 });
  for (const [i, at] of band.entries()) {
    svg.append(makeSVG("line", { class: "limit", x1: at, x2: at, y1: top, y2: top + body }));
    svg.append(makeSVG("text", { x: at, y: 13, "text-anchor": i ? "end" : "start" }, (i ? "+" : "−") + span(clock.threshold_ms)));
  }
  svg.append(makeSVG("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: top + body }));
  if (band[1] - band[0] > 170) svg.append(makeSVG("text", { x: x(0), y: 13, "text-anchor": "middle" }, "this clock"));
  if (clock.estimate_ms !== undefined) {
    svg.append(makeSVG("line", { class: "estimate", x1: x(clock.estimate_ms), x2: x(clock.estimate_ms), y1: top + 2, y2: top + body - 2 }));
  }
  if (inRows) drawRows(svg, clock, x, { left, right, width, top, rowHeight, narrow });
  else drawSwarm(svg, peers, clock, x, { top, body, left, right, width, narrow });
  svg.setAttribute("aria-label", clocksInWords(clock, peers, beyond, silent));
  holder.replaceChildren(svg);
}

function drawTicks(svg, x, box) {
  const places = [];
  ticks.forEach((ms, i) => {
    if (squash(ms) > box.reach) return;
    for (const side of ms === 0 ? [0] : [ms, -ms]) places.push({ side, i, at: x(side) });
  });
  places.sort((a, b) => a.i - b.i);
  const taken = [];
  for (const p of places) {
    svg.append(makeSVG("line", { class: "grid", x1: p.at, x2: p.at, y1: box.top, y2: box.bottom }));
    if (taken.some((t) => Math.abs(t - p.at) < 52) || p.at < box.left + 14 || p.at > box.width - box.right - 14) continue;
    taken.push(p.at);
    svg.append(makeSVG("text", { x: p.at, y: box.label, "text-anchor": "middle" }, p.side === 0 ? "0" : (p.side > 0 ? "+" : "−") + tickNames[p.i]));
  }
}

function mark(peer, clock, at, y, r) {
  const out = isOff(peer, clock);
  const shape = out
    ? makeSVG("rect", { class: "outside", x: at - r, y: y - r, width: 2 * r, height: 2 * r, transform: `rotate(45 ${at} ${y})` })
    : makeSVG("circle", { class: "inside", cx: at, cy: y, r });
  shape.append(makeSVG("title", {}, `${peer.node || peer.address} ${offset(peer.offset_ms)}`));
  return shape;
}

const clip = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

function drawRows(svg, clock, x, box) {
  clock.peers.forEach((peer, i) => {
    const y = box.top + 3 + (i + 0.5) * box.rowHeight + (box.narrow ? 8 : 0);
    const silent = peer.offset_ms === undefined;
    const out = isOff(peer, clock);
    const value = silent ? "no answer" : offset(peer.offset_ms);
    const name = clip(peer.node || peer.address, box.narrow ? 30 : 26);
    const beside = box.narrow ? y - 12 : y + 4;
    svg.append(makeSVG("line", { class: "stem", x1: box.left, x2: box.width - box.right, y1: y, y2: y }));
    svg.append(makeSVG("text", { class: "name", x: box.narrow ? box.left : 0, y: beside }, name));
    svg.append(makeSVG("text", { class: silent || out ? "out" : "", x: box.narrow ? box.width - box.right : box.width, y: beside, "text-anchor": "end" }, value));
    if (!silent) svg.append(mark(peer, clock, x(peer.offset_ms), y, 5));
  });
}

// drawSwarm stacks the peers at their offsets, as bars where there are too many for dots.
// Peers beyond the threshold have names where there is room.
function drawSwarm(svg, peers, clock, x, box) {
  const pile = 8, ground = box.top + box.body - 6, room = box.body - 14;
  const bins = new Map();
  for (const peer of peers) {
    const bin = Math.round(x(peer.offset_ms) / pile);
    if (!bins.has(bin)) bins.set(bin, []);
    bins.get(bin).push(peer);
  }
  const highest = Math.max(1, ...[...bins.values()].map((b) => b.length));
  const asBars = highest * pile > room;
  for (const [bin, list] of bins) {
    const out = list.filter((p) => isOff(p, clock)), within = list.length - out.length;
    const height = asBars ? Math.max(2, within / highest * room) : within * pile;
    if (within && asBars) {
      const bar = makeSVG("rect", { class: "inside", x: bin * pile - 3.5, y: ground - height + 4, width: 7, height });
      bar.append(makeSVG("title", {}, `${within} peers, ${offset(list[0].offset_ms)} and so on`));
      svg.append(bar);
    }
    if (!asBars) list.filter((p) => !out.includes(p)).forEach((p, i) => svg.append(mark(p, clock, bin * pile, ground - i * pile, 3.4)));
    const pitch = Math.min(11, room / Math.max(1, out.length));
    out.forEach((p, i) => svg.append(mark(p, clock, bin * pile, ground - (within ? height : 0) - i * pitch, 4)));
  }
  let named = 0;
  for (const peer of peers) {
    if (box.narrow || !isOff(peer, clock) || named >= 5) continue;
    const right = peer.offset_ms > 0;
    svg.append(makeSVG("text", { class: "out", x: right ? box.width - box.right : box.left, y: box.top + 14 + 15 * named++, "text-anchor": right ? "end" : "start" },
      clip(peer.node || peer.address, 26) + " " + offset(peer.offset_ms)));
  }
}

function clocksInWords(clock, peers, beyond, silent) {
  if (clock.peers.length === 0) return "No peer's clock is known.";
  const all = peers.map((p) => p.offset_ms);
  let text = `Offsets of ${peers.length} of ${clock.peers.length} peers against a threshold of ${span(clock.threshold_ms)}`;
  if (all.length) text += `, from ${offset(Math.min(...all))} to ${offset(Math.max(...all))}`;
  text += `; ${beyond.length} beyond the threshold`;
  if (beyond.length) text += ": " + beyond.slice(0, 5).map((p) => `${p.node || p.address} ${offset(p.offset_ms)}`).join(", ");
  if (silent.length) text += `; no answer from ${silent.slice(0, 5).map((p) => p.node || p.address).join(", ")}`;
  return text + ".";
}
