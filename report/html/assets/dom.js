// Elements are made from text only: no function here accepts markup.

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key === "class") e.className = value;
    else e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}

function svg(name, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

const byId = (id) => document.getElementById(id);
const bdi = (text) => el("bdi", null, text);

// ratio formats a score with three digits, or with more if it would look like a whole number but
// is not one.
function ratio(v, digits = 3) {
  if (v === null || v === undefined) return "–";
  const whole = Math.round(v);
  if (Math.abs(v - whole) <= 1e-9) return (whole + 0).toFixed(digits);
  while (Number(v.toFixed(digits)) === whole) digits++;
  return v.toFixed(digits);
}

function milliseconds(ms) {
  if (!ms) return "–";
  if (ms < 1) return Math.round(ms * 1000) + " µs";
  if (ms < 9.95) return ms.toFixed(1) + " ms";
  if (ms < 999.5) return Math.round(ms) + " ms";
  return (ms / 1000).toFixed(1) + " s";
}

function dollars(v) {
  if (v === null || v === undefined) return "–";
  if (v === 0 || v >= 0.995) return "$" + v.toFixed(2);
  return "$" + v.toFixed(Math.min(12, Math.max(2, 1 - Math.floor(Math.log10(v)))));
}

const count = (n) => n.toLocaleString("en");
const counted = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
