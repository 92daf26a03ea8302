"use strict";
// All live daemons of the cluster, which the daemon of this page asks.

const cluster = { every: 5000, wanted: 0, got: null };

// rank orders the worst first.
const rank = ["no_answer", "not_ready", "degraded", "ready"];
const rankWords = { no_answer: "without an answer", not_ready: "not ready", degraded: "degraded", ready: "ready" };

// recallCluster asks for the daemons, once in 5 s. Where that fails the old ones stay, marked as old.
async function recallCluster(signal) {
  if (performance.now() < cluster.wanted) return;
  const answer = await fetch("api/cluster", { cache: "no-store", signal });
  if (!answer.ok) return;
  cluster.got = await answer.json();
  cluster.wanted = performance.now() + (cluster.got.as_of ? cluster.every : soon);
}

function showCluster(o) {
  const v = cluster.got;
  byId("cluster-card").hidden = !v || o.guards?.registry === "standalone";
  if (!v) return;
  const all = v.daemons.toSorted((a, b) => rank.indexOf(a.status) - rank.indexOf(b.status) || (a.worker_id ?? Infinity) - (b.worker_id ?? Infinity));
  const counts = rank.map((status) => [all.filter((d) => d.status === status).length, status]).filter(([n]) => n);
  const sum = (name) => count(Math.round(all.reduce((n, d) => n + d[name], 0)));
  let note = `${several(all.length, "live daemon")}: ${counts.map(([n, status]) => `${count(n)} ${rankWords[status]}`).join(", ")}. ${sum("snowflake")} snowflake and ${sum("segment")} segment IDs/s together.`;
  if (v.left_out) note += ` ${count(v.left_out)} are left out.`;
  const stale = v.stale || v.as_of !== undefined && o.time - v.as_of > 6 * cluster.every; // or it can't be got
  note += !v.as_of ? " The others are being asked." : stale ? ` As of ${timeOf(v.as_of)}.` : ` Asked ${ago(Math.max(0, o.time - v.as_of))}.`;
  put(byId("cluster-note"), note);
  byId("cluster").classList.toggle("stale", stale);
  const most = all.reduce((m, d) => Math.max(m, ...d.hour), 1);
  const kinds = ["n", "", "", "wide why", "n", "n", "wide", "dim", "n dim"];
  kinds.header = 1;
  fill(byId("cluster"), all, kinds, (row, cells, d) => {
    const silent = d.status === "no_answer";
    setClass(row, d.self ? "self" : "");
    put(cells[0], d.worker_id === undefined ? "–" : String(d.worker_id));
    putAddress(cells[1], d.node || d.address || "", d.address ? pageAt(d.address, o) : null);
    putPill(cells[2], pill(verdictKinds[d.status] || "bad", words(d.status)));
    put(cells[3], [d.code, d.message].filter(Boolean).join(": "));
    put(cells[4], silent ? "–" : rate(d.snowflake));
    put(cells[5], silent ? "–" : rate(d.segment));
    putHour(cells[6], d.hour, most);
    put(cells[7], d.version || "–");
    put(cells[8], silent ? "–" : span(d.uptime_ms));
  });
}

// putHour draws the IDs per second of each minute; most is the top, the same for all daemons.
function putHour(cell, hour, most) {
  const width = 120, height = 18;
  if (!cell.firstElementChild) {
    const svg = makeSVG("svg", { class: "hour", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
    svg.append(makeSVG("path", { class: "line" }));
    cell.append(svg);
  }
  const at = (i) => `${(width - (hour.length - 1 - i) * width / 59).toFixed(0)} ${(height - 1 - hour[i] / most * (height - 2)).toFixed(1)}`;
  const svg = cell.firstElementChild;
  svg.firstElementChild.setAttribute("d", hour.length ? "M" + hour.map((_, i) => at(i)).join("L") : "");
  svg.setAttribute("aria-label", hour.length ? `IDs per second of the last ${several(hour.length, "minute")}: up to ${rate(Math.max(...hour))}` : "nothing yet");
}
