"use strict";
// Helpers for the rest of the page: elements, and words for numbers. What the daemon
// says is set by textContent and by attributes that hold no script; no code of the page
// turns a string into HTML.

const byId = (id) => document.getElementById(id);

// plain replaces characters that are invisible, or that turn those around them round: tags
// and names were written by others.
const hidden = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu;
const plain = (text) => String(text).replace(hidden, "\uFFFD");

// put changes a text only where it differs, so as not to disturb selections and screen
// readers.
function put(element, text) {
  text = plain(text);
  if (element.textContent !== text) element.textContent = text;
}

function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = plain(text);
  return element;
}

function makeSVG(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, plain(value));
  if (text !== undefined) element.textContent = plain(text);
  return element;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short1 = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// count writes a number, or the digits of one beyond JavaScript's exact integers.
function count(n) {
  return whole.format(typeof n === "string" ? BigInt(n) : n);
}

// several writes a number of things, in the plural unless it is one.
function several(n, thing) {
  return `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
}

function rate(n) {
  if (n === 0) return "0";
  if (n < 0.1) return "<0.1";
  return n < 10 ? n.toFixed(1) : whole.format(n);
}

function compact(n) {
  return n < 10 ? String(Math.round(n * 10) / 10) : short1.format(n);
}

// span writes a duration in at most two units.
function span(ms) {
  const sign = ms < 0 ? "−" : "";
  const a = Math.abs(ms);
  if (a < 0.0005) return "0 ms";
  if (a < 10) return sign + a.toFixed(a < 1 ? 3 : 2) + " ms";
  if (a < 999.5) return sign + Math.round(a) + " ms";
  if (a < 59950) return sign + (a / 1000).toFixed(1) + " s";
  const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  for (let i = 0; i < units.length; i++) {
    const [name, size] = units[i];
    if (a < size) continue;
    const big = Math.floor(a / size);
    if (name === "d" && big >= 1000) return sign + whole.format(Math.round(big / 365)) + " years";
    const next = units[i + 1];
    const small = next && big < 100 ? Math.floor((a % size) / next[1]) : 0;
    return sign + whole.format(big) + " " + name + (small ? " " + small + " " + next[0] : "");
  }
  return sign + Math.round(a / 1000) + " s";
}

// offset writes how far a clock is ahead or behind.
function offset(ms) {
  return (ms > 0 ? "+" : "") + span(ms);
}

// isOff reports whether a peer's clock is off: from this daemon's, or from what most peers say where that is the wrong one.
function isOff(peer, clock) {
  return Math.abs(peer.offset_ms - (clock.verdict === "disagree" ? clock.estimate_ms : 0)) >= clock.threshold_ms;
}

// aged writes an age in whole seconds, so that it doesn't flicker.
function aged(ms) {
  return ms < 60000 ? Math.floor(ms / 1000) + " s" : span(ms);
}

function ago(ms) {
  return ms < 1000 ? "just now" : aged(ms) + " ago";
}

// timeOf is the time of day, here.
const timeOf = (ms) => new Date(ms).toLocaleTimeString("en-GB");

function pill(kind, text) {
  return { kind, text };
}

function putPill(cell, state) {
  let element = cell.firstElementChild;
  if (!element) cell.append(element = make("span"));
  setClass(element, "pill " + state.kind);
  put(element, state.text);
}

// putName shows a name that others chose; it can't change the direction of other text.
function putName(cell, name) {
  let element = cell.firstElementChild;
  if (!element) cell.append(element = make("bdi"));
  put(element, name);
}

// fill shows items as a table's rows. Rows are reused, so that focus, selection and
// position stay. kinds has the class of each cell; the first cell is the row's header. On
// a phone a row is a card: its cells have their headings as labels, and their roles, which
// they would lose there.
function fill(table, items, kinds, show) {
  const body = table.tBodies[0], headings = table.tHead.rows[0].cells;
  while (body.rows.length > items.length) body.deleteRow(-1);
  items.forEach((item, i) => {
    let row = body.rows[i];
    if (!row) {
      row = body.insertRow();
      row.setAttribute("role", "row");
      kinds.forEach((kind, k) => {
        const cell = make(k === (kinds.header || 0) ? "th" : "td", kind);
        if (cell.tagName === "TH") cell.scope = "row";
        cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
        cell.dataset.label = headings[k].textContent;
        row.append(cell);
      });
    }
    show(row, row.cells, item);
  });
}
