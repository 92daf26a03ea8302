"use strict";
// Polls the daemon every two seconds while the page is visible, and says when there is no
// answer.

const every = 2000, soon = 400, patience = 5000, staleAfter = 5000;

const link = { timer: 0, abort: null, last: null, lastAt: 0, failing: "", since: 0, asking: 0 };

function show(o) {
  const before = link.last;
  // There is no rate for another process, or after the page was suspended.
  const same = before && o.uptime_ms >= before.uptime_ms && sameOwner(o, before);
  if (same && o.uptime_ms === before.uptime_ms) { // the daemon gives all browsers the same answer for a second
    shown.overview = o;
    showTags(o);
    return;
  }
  let rates = null;
  if (same) {
    const seconds = (o.uptime_ms - before.uptime_ms) / 1000;
    const per = (mode) => Math.max(0, Number(o.issued[mode] || 0) - Number(before.issued[mode] || 0)) / seconds;
    rates = { snowflake: per("snowflake"), segment: per("segment") };
    remember({ at: performance.now(), ...rates });
    put(byId("l-snowflake"), rate(rates.snowflake) + "/s");
    put(byId("l-segment"), rate(rates.segment) + "/s");
  } else if (before) {
    past.wanted = true;
    remember({ at: performance.now(), snowflake: null, segment: null });
  }
  link.last = shown.overview = o;
  showHead(o);
  showBanner(o);
  showTiles(o, rates);
  showGuards(o);
  drawPictures(o);
  showErrors(o, same ? before : null);
  showCluster(o);
  showWorkers(o);
  showTags(o);
}

function sameOwner(a, b) {
  return !a.worker || !b.worker || a.worker.owner === b.worker.owner;
}

function drawPictures(o) {
  drawRate();
  const clocks = byId("clocks");
  const known = o.clock && o.clock.peers.length > 0;
  byId("clocks-legend").hidden = clocks.hidden = !known;
  if (known) {
    drawClocks(o.clock);
    const late = o.time - o.clock.checked > 25000; // they are asked every 10 s, with jitter
    clocks.classList.toggle("stale", late);
    let note = `${late ? `As of ${timeOf(o.clock.checked)}` : `Asked ${ago(Math.max(0, o.time - o.clock.checked))}`}. The scale is logarithmic; right of the middle a peer's clock is ahead.`;
    const beyond = o.clock.peers.filter((p) => isOff(p, o.clock));
    if (beyond.length) note += ` Beyond ${span(o.clock.threshold_ms)}: ` + beyond.slice(0, 5).map((p) => `${p.node || p.address} ${offset(p.offset_ms)}`).join(", ") + (beyond.length > 5 ? ` and ${count(beyond.length - 5)} more.` : ".");
    if (o.clock.left_out) note += ` ${count(o.clock.left_out)} peers are left out.`;
    put(byId("clocks-note"), note);
    return;
  }
  clocks.replaceChildren();
  put(byId("clocks-note"), o.clock ? `No peers: ${verdicts[o.clock.verdict][1]}.` : "A standalone daemon has no peers to compare its clock with.");
}

// recallPast asks the daemon for what the page has not seen. Without it the chart is shorter.
async function recallPast(o, signal) {
  const start = performance.now() - o.uptime_ms;
  const answer = await fetch("api/history", { cache: "no-store", signal });
  if (!answer.ok) return;
  recall(await answer.json(), start);
  past.wanted = false;
}

async function ask() {
  clearTimeout(link.timer);
  if (link.abort) link.abort.abort();
  const abort = link.abort = new AbortController();
  const limit = setTimeout(() => abort.abort(), patience);
  const part = byId("tags-filter").value.trim();
  let next = every;
  try {
    const answer = await fetch("api/overview" + (part ? "?tag=" + encodeURIComponent(part) : ""), { cache: "no-store", signal: abort.signal });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const o = await answer.json();
    if (past.wanted) await recallPast(o, abort.signal);
    await recallCluster(abort.signal);
    if (link.abort !== abort) return; // a newer request is in progress
    link.lastAt = performance.now();
    link.failing = "";
    show(o);
    if (!o.workers.as_of && !o.workers.error && o.guards && o.guards.registry !== "standalone") next = soon;
  } catch (error) {
    if (link.abort !== abort) return;
    if (!link.failing && link.last) remember({ at: performance.now(), snowflake: null, segment: null });
    past.wanted = true;
    link.failing = error instanceof TypeError ? "no connection" : error.name === "AbortError" ? `no answer within ${patience / 1000} s` : error.message;
  } finally {
    clearTimeout(limit);
    if (link.abort === abort) {
      link.abort = null;
      showAge();
      if (!document.hidden) link.timer = setTimeout(ask, next);
    }
  }
}

// showAge shows the age of the figures, and marks them when they are too old.
function showAge() {
  const age = performance.now() - link.lastAt;
  const stale = link.failing !== "" || link.last !== null && !document.hidden && age > staleAfter + every;
  document.body.classList.toggle("stale", stale);
  const state = stale ? "no answer" : link.last && link.last.ready.status !== "ready" ? words(link.last.ready.status) : "";
  document.title = (state && `(${state}) `) + (link.last ? plain(link.last.node) + " · leafd" : "leafd");
  put(byId("when"), link.last === null ? "" : `updated ${ago(age)}`);
  const lost = byId("lost");
  lost.hidden = !stale;
  if (stale) {
    // The age has its own element: it changes each second, and a changed alert is read out.
    put(byId("lost-why"), `leafd does not answer (${link.failing || "waiting"}). Trying again.`);
    put(byId("lost-age"), link.last === null ? "Nothing is known yet." : `The figures below are ${aged(Math.max(1000, age))} old.`);
    showVerdict("bad", "no answer");
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    ask();
    return;
  }
  past.wanted = true;
  clearTimeout(link.timer);
  if (link.abort) {
    const abort = link.abort;
    link.abort = null;
    abort.abort();
  }
});

let typed = 0;
byId("tags-filter").addEventListener("input", () => {
  clearTimeout(typed);
  tagsPager.page = 0;
  typed = setTimeout(ask, 250);
});
byId("workers-filter").addEventListener("input", () => {
  workersPager.page = 0;
  if (shown.overview) showWorkers(shown.overview);
});
let drawnAt = 0;
new ResizeObserver(() => {
  const width = byId("rate").clientWidth;
  if (width === drawnAt || !link.last) return;
  drawnAt = width;
  requestAnimationFrame(() => drawPictures(link.last));
}).observe(byId("rate"));
setInterval(showAge, 1000);
ask();
