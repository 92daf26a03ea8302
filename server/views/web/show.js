"use strict";
// The head of the page, the figures and the guards.

function showHead(o) {
  put(byId("node"), o.node || "leafd");
  const worker = o.worker ? `worker ${o.worker.worker_id} · ` : "";
  put(byId("build"), `${worker}${o.version || ""} · up ${span(o.uptime_ms)}`);
  const ready = o.ready;
  showVerdict(verdictKinds[ready.status], ready.status === "not_ready" ? "not ready: " + ready.code : words(ready.status));
}

// verdictKinds has a color for each status of readyz.
const verdictKinds = { ready: "ok", degraded: "warn", not_ready: "bad" };

const words = (code) => code.replaceAll("_", " ");

function showVerdict(kind, text) {
  setClass(byId("head"), kind);
  setClass(byId("verdict"), "pill " + kind);
  put(byId("verdict"), text);
}

// showBanner says what is wrong, why, for how long, and what to do about it.
function showBanner(o) {
  const ready = o.ready, all = ready.conditions || [], lasting = all.some((c) => !c.event);
  byId("banner").hidden = all.length === 0 && o.events.length === 0;
  setClass(byId("banner"), "banner " + (ready.status === "ready" ? lasting ? "warn" : "" : verdictKinds[ready.status]));
  put(byId("h-banner"), ready.status === "not_ready" ? "Not ready: " + ready.message : ready.status === "degraded" ? "Degraded: IDs are issued, but" : "What happened last");
  fillList(byId("alarms"), all, (item, c) => {
    if (!item.firstElementChild) item.append(make("strong"), make("p", "why"), make("p", "do"));
    setClass(item, c.event ? "over" : "");
    const [what, why, action] = item.children;
    put(what, (c.subject ? c.subject + ": " : "") + c.message);
    put(why, (c.cause ? c.cause + ", " : "") + (c.event ? ago(c.age_ms) : `for ${aged(c.age_ms)}`));
    put(action, c.action ? `What to do: ${c.action} (${c.code})` : c.code);
  });
  fillList(byId("events"), o.events, (item, e) => put(item, `${ago(o.time - e.time)}: ${e.subject ? e.subject + ": " : ""}${e.message}${e.cause ? ": " + e.cause : ""}`));
}

function fillList(list, items, show) {
  while (list.children.length > items.length) list.lastElementChild.remove();
  items.forEach((item, i) => {
    if (!list.children[i]) list.append(make("li"));
    show(list.children[i], item);
  });
}

function tile(name, value, sub, kind) {
  const element = byId("t-" + name);
  put(element, value);
  setClass(element, kind || "");
  put(byId(`t-${name}-sub`), sub || "");
}

function showTiles(o, rates) {
  const issued = (mode) => count(o.issued[mode] || "0") + " since the start";
  tile("snowflake", rates ? rate(rates.snowflake) : "–", issued("snowflake"));
  tile("segment", rates ? rate(rates.segment) : "–", issued("segment"));
  const g = o.guards;
  if (g) tile("ceiling", g.ceiling === 0 ? "none" : span(g.ceiling_distance_ms), "recorded " + ago(g.report_age_ms), g.ceiling_distance_ms > 0 ? "" : "off");
  else tile("ceiling", "–", o.worker ? "" : "no worker ID yet");
  const c = o.clock;
  if (c && c.estimate_ms !== undefined) {
    tile("offset", offset(c.estimate_ms), `${c.answered} of ${c.asked} peers answered`, c.verdict === "disagree" ? "off" : "");
  } else {
    tile("offset", "–", c ? verdicts[c.verdict][1] : "no peers to compare with");
  }
  const w = o.workers;
  tile("workers", w.as_of ? `${count(w.live)} of ${count(w.total)}` : "–", asOf(o), w.stale ? "stale" : "");
  showShortest(o.segments);
}

function showShortest(segments) {
  if (!segments) return tile("tag", "–", "segment IDs are switched off");
  const finite = segments.list.filter((t) => t.remaining_s !== undefined && t.rate > 0);
  const least = finite.reduce((m, t) => !m || t.remaining_s < m.remaining_s ? t : m, null);
  const trouble = segments.failing ? `${count(segments.failing)} of ${count(segments.total)} failing` : several(segments.total, "tag");
  if (!least) return tile("tag", "–", trouble + (segments.failing ? "" : ", none in use"), segments.failing ? "off" : "");
  tile("tag", span(least.remaining_s * 1000), least.tag + (segments.failing ? " · " + trouble : ""), least.remaining_s === 0 ? "off" : "");
}

// asOf is the time of the list of workers, which is not to be taken for current where it is stale.
function asOf(o) {
  const w = o.workers;
  if (!w.as_of) return w.error ? `never seen: ${w.error}` : "asking";
  const why = w.error ? `, ${w.error} since` : "";
  return w.stale ? `as of ${timeOf(w.as_of)}${why}` : "seen " + ago(Math.max(0, o.time - w.as_of));
}

const verdicts = {
  unchecked: ["", "not asked yet"], alone: ["", "no peer to ask"], silent: ["warn", "no peer answered"],
  agree: ["ok", "agree"], undecided: ["warn", "no majority"], disagree: ["bad", "disagree"],
};

// guardRows returns the rows of the guards' table: name, state, detail.
function guardRows(o) {
  const rows = [];
  const add = (name, kind, state, detail) => rows.push({ name, state: pill(kind, state), detail: detail || "" });
  if (o.ready.status === "degraded") add("Ready", "warn", "degraded", o.ready.conditions[0].message);
  else if (o.ready.status === "ready") add("Ready", "ok", "ready", "IDs can be issued");
  else add("Ready", "bad", "not ready", o.ready.code + ": " + o.ready.message);
  if (o.worker) add("Worker ID", o.worker.state === "live" ? "ok" : "bad", words(o.worker.state), `${o.worker.worker_id}, layout ${o.worker.layout}` + (o.worker.slots_lent ? `, ${o.worker.slots_lent} of 128 slots lent` : ""));
  const g = o.guards;
  if (g) guardsOfWorker(g, add);
  if (o.clock) {
    const c = o.clock, [kind, words] = verdicts[c.verdict];
    const detail = c.estimate_ms === undefined ? "" : `${offset(c.estimate_ms)} by ${c.answered} of ${c.asked}; `;
    add("Peers' clocks", kind, words, `${detail}up to ${span(c.threshold_ms)} allowed`);
  }
  return rows;
}

function guardsOfWorker(g, add) {
  add("Fence", g.fenced ? "bad" : "ok", g.fenced ? "fenced" : "open", g.fenced ? "displaced: nothing is issued until a new life begins" : "the identity is ours");
  const near = g.ceiling_distance_ms < (g.ceiling_lead_ms - g.report_interval_ms) / 2;
  if (g.ceiling_distance_ms > 0) add("Ceiling", near ? "warn" : "ok", near ? "near" : "ahead", `${span(g.ceiling_distance_ms)} ahead of the clock, of ${span(g.ceiling_lead_ms)}`);
  else add("Ceiling", "bad", g.ceiling === 0 ? "none" : "reached", "no ID may be issued until it is raised");
  const late = g.report_age_ms > 2 * g.report_interval_ms + 500;
  add("Last report", late ? "warn" : "ok", late ? "late" : "on time", `${ago(g.report_age_ms)}, every ${span(g.report_interval_ms)}`);
  if (g.registry === "standalone") return add("Registry", "", "standalone", "no ZooKeeper; the worker ID is configured");
  const connected = g.registry === "connected" && !g.registry_failing;
  const detail = [g.registry_server, `for ${span(g.registry_for_ms)}`];
  if (g.registry_age_ms !== undefined) detail.push(`took a report ${ago(g.registry_age_ms)}`);
  if (g.registry_lease_ms !== undefined) detail.push(`issuing may go on for ${span(g.registry_lease_ms)} without it`);
  const state = g.registry === "connected" && g.registry_failing ? "takes no reports" : words(g.registry);
  add("ZooKeeper", connected ? "ok" : "warn", state, detail.filter(Boolean).join("; "));
}

function showGuards(o) {
  fill(byId("guards"), guardRows(o), ["", "", "dim"], (row, cells, g) => {
    put(cells[0], g.name);
    putPill(cells[1], g.state);
    put(cells[2], g.detail);
  });
}
