"use strict";
// The long tables: workers, tags, errors. Each shows a page of at most so many rows.

const perPage = 25;

// pager pages through one table. again redraws the table.
function pager(name, again) {
  const nav = byId(name + "-pages");
  const state = { page: 0 };
  const back = make("button", "", "Previous"), on = make("button", "", "Next"), where = make("span");
  back.type = on.type = "button";
  back.addEventListener("click", () => { state.page--; again(); });
  on.addEventListener("click", () => { state.page++; again(); });
  nav.append(back, where, on);
  state.cut = (items) => {
    const pages = Math.max(1, Math.ceil(items.length / perPage));
    state.page = Math.max(0, Math.min(state.page, pages - 1));
    const from = state.page * perPage;
    nav.hidden = pages === 1;
    back.disabled = state.page === 0;
    on.disabled = state.page === pages - 1;
    put(where, `${count(from + 1)}–${count(Math.min(from + perPage, items.length))} of ${count(items.length)}`);
    return items.slice(from, from + perPage);
  };
  return state;
}

const shown = { overview: null };
const workersPager = pager("workers", () => showWorkers(shown.overview));
const tagsPager = pager("tags", () => showTags(shown.overview));

// workerState names the state of a worker, of which seen is the time. An entry that this
// daemon had, and that another one has now, is not "this daemon".
function workerState(w, o, seen) {
  const self = o.worker && w.worker_id === o.worker.worker_id && w.node === o.worker.node;
  if (self) return pill(o.worker.state === "live" ? "ok" : "bad", "this daemon: " + words(o.worker.state));
  if (w.state === "live") {
    if (o.clock && isOff(w, o.clock)) return pill("bad", "live, clock off");
    return pill("ok", "live");
  }
  if (w.state === "not_live") return pill(w.free_from <= seen ? "" : "warn", w.age_ms === undefined ? "not live" : "not live for " + span(Math.max(0, w.age_ms)));
  return pill(w.state === "damaged" ? "warn" : "", words(w.state));
}

// free writes when a new daemon may take a worker ID.
function free(w, seen) {
  if (w.free_from === undefined) return w.state === "foreign" ? "never by itself" : "–";
  return w.free_from <= seen ? "now" : "in " + span(w.free_from - seen);
}

const isLocal = (address) => /^(127\.|\[::1\]|169\.254\.|\[fe[89ab])/i.test(address);

// pageAt returns the URL of the page of the daemon at address, which is what another daemon,
// or another writer, has written to ZooKeeper: only an IP address with a port is led to, and
// only a machine's own where this daemon's is one, too. Otherwise null.
function pageAt(address, o) {
  const own = (o.worker && o.worker.address) || location.host;
  if (!/^(\d{1,3}(\.\d{1,3}){3}|\[[0-9a-f:.]+\]):[1-9]\d{0,4}$/i.test(address) || isLocal(address) && !isLocal(own)) return null;
  const url = (o.secure ? "https://" : "http://") + address + "/", host = address.replace(/:\d+$/, "");
  return URL.canParse(url) && new URL(url).hostname === host && !/^(0\.|\[::\]|22[4-9]\.|2[345]\d\.|\[ff)/.test(host) ? url : null;
}

// putAddress shows an address, as a link where it leads to a page.
function putAddress(cell, address, url) {
  const name = url ? "A" : "BDI";
  if (cell.firstElementChild?.tagName !== name) cell.replaceChildren(make(name));
  const element = cell.firstElementChild;
  put(element, address);
  if (!url || element.getAttribute("href") === url) return;
  element.href = url;
  element.rel = "noopener noreferrer";
}

function showWorkers(o) {
  const v = o.workers, seen = v.as_of || o.time; // the time of the list
  byId("workers").classList.toggle("stale", v.stale);
  const words = byId("workers-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = v.list.map((w) => ({ w, state: workerState(w, o, seen) }));
  const match = all.filter(({ w, state }) => {
    const text = `${w.worker_id} ${w.node} ${w.address || ""} ${state.text}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  let note = v.as_of ? `${count(v.live)} of ${count(v.total)} live, ${asOf(o)}.` : "ZooKeeper has not answered yet.";
  if (o.guards && o.guards.registry === "standalone") note = "Standalone: this daemon alone.";
  if (v.left_out) note += ` ${count(v.left_out)} are left out here.`;
  if (words.length) note += ` ${count(match.length)} match the filter.`;
  put(byId("workers-note"), note);
  const kinds = ["n", "", "", "n", "n", "n dim", "n", "wide"];
  kinds.header = 1;
  fill(byId("workers"), workersPager.cut(match), kinds, (row, cells, { w, state }) => {
    const self = state.text.startsWith("this daemon");
    setClass(row, self ? "self" : "");
    put(cells[0], String(w.worker_id));
    putName(cells[1], w.node);
    putPill(cells[2], state);
    put(cells[3], w.timestamp ? ago(Math.max(0, w.age_ms)) : "never");
    const known = w.offset_ms !== undefined;
    put(cells[4], known ? offset(w.offset_ms) : w.offset_error || "–");
    setClass(cells[4], o.clock && isOff(w, o.clock) ? "n off" : "n");
    put(cells[5], w.ceiling ? offset(w.ceiling - seen) : "–");
    put(cells[6], self && o.worker.state === "live" ? "–" : free(self && o.worker.limit ? { free_from: o.worker.limit } : w, seen));
    putAddress(cells[7], w.address || "", pageAt(w.address || "", o));
  });
}

// left returns how much of a buffer is left, and its size.
function left(b) {
  if (!b) return { n: 0, of: 0 };
  return { n: Number(BigInt(b.high) - BigInt(b.position)), of: Number(BigInt(b.high) - BigInt(b.low)) };
}

function putBuffers(cell, t) {
  let box = cell.firstElementChild;
  if (!box) {
    cell.append(box = make("div", "buffers"));
    const one = make("div", "buffer"), two = make("div", "buffer next");
    one.append(make("i"));
    two.append(make("i"));
    box.append(one, two, make("small"));
  }
  const [one, two, text] = box.children;
  const now = left(t.current), next = left(t.next);
  one.firstChild.style.width = (now.of ? 100 * now.n / now.of : 0) + "%";
  two.firstChild.style.width = (next.of ? 100 * next.n / next.of : 0) + "%";
  let words = now.of ? `${count(now.n)} left` : "nothing in memory";
  if (next.of) words += ` + ${count(next.n)}`;
  else if (t.fetching) words += ", next on its way";
  put(text, words);
}

function tagState(t) {
  if (t.failing) return pill("bad", `${t.failing.replaceAll("_", " ")}, ${count(t.failures)}×`);
  if (t.fetching) return pill("", "fetching");
  return t.current ? pill("ok", "served") : pill("", "unused");
}

function lasts(t) {
  if (t.remaining_s !== undefined && (t.current || t.next)) return span(t.remaining_s * 1000);
  return t.current || t.next ? "while unused" : "–";
}

function showTags(o) {
  byId("tags-card").hidden = !o.segments;
  if (!o.segments) return;
  const v = o.segments;
  let note = `${several(v.total, "tag")}, ${rate(v.rate)} IDs/s.`;
  if (v.failing) note += ` ${count(v.failing)} failing.`;
  if (v.matched !== v.total) note += ` ${count(v.matched)} match the filter.`;
  if (v.left_out) note += ` Shown are the ${count(v.list.length)} that fail or are used most; filter for another.`;
  put(byId("tags-note"), note);
  fill(byId("tags"), tagsPager.cut(v.list), ["", "", "wide", "n", "n", "n", "n dim", "dim"], (row, cells, t) => {
    putName(cells[0], t.tag);
    putPill(cells[1], tagState(t));
    putBuffers(cells[2], t);
    put(cells[3], rate(t.rate || 0));
    put(cells[4], lasts(t));
    setClass(cells[4], t.remaining_s === 0 && t.rate > 0 ? "n off" : "n");
    put(cells[5], count(t.step));
    put(cells[6], count(t.issued || "0"));
    put(cells[7], t.fetched_by ? t.fetched_by + ", " + ago(Math.max(0, o.time - t.fetched_at)) : "–");
  });
}

function showErrors(o, before) {
  const list = Object.entries(o.errors).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const total = list.reduce((sum, [, n]) => sum + n, 0);
  byId("errors").parentElement.hidden = list.length === 0;
  put(byId("errors-note"), list.length ? "" : "None since the start.");
  const seconds = before ? (o.uptime_ms - before.uptime_ms) / 1000 : 0;
  const rows = list.length > 1 ? [["all", total], ...list] : list;
  fill(byId("errors"), rows, ["", "n", "n"], (row, cells, [code, n]) => {
    put(cells[0], code);
    put(cells[1], count(n));
    const was = !before ? n : code === "all" ? Object.values(before.errors).reduce((a, b) => a + b, 0) : before.errors[code] || 0;
    put(cells[2], seconds > 0 ? rate((n - was) / seconds) : "–");
  });
}
