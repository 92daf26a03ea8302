(() => {
  const parse = (c) => { const n = c.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const part = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const under = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const faint = [];
  for (const e of document.body.querySelectorAll("*")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const style = getComputedStyle(e);
    if (!own || e.tagName === "title" || style.visibility === "hidden" || !e.getClientRects().length || e.closest(":disabled")) continue;
    const a = light(parse(e.namespaceURI.endsWith("svg") ? style.fill : style.color)), b = light(under(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${e.tagName} ${e.textContent.trim().slice(0, 40)}`);
  }
  return faint;
})()
