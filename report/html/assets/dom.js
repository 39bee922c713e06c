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

// fixed is toFixed, but it rounds a half to the even digit, as the tables of the page do: 0.0625 is 0.062.
function fixed(v, digits) {
  const exact = v.toFixed(digits + 50);
  return /[02468]\.?50{49}$/.test(exact) ? exact.slice(0, -50).replace(/\.$/, "") : v.toFixed(digits);
}

// ratio formats a score with three digits, or with more if it would look like a whole number but
// is not one.
function ratio(v, digits = 3) {
  if (v === null || v === undefined) return "–";
  const whole = Math.round(v);
  if (Math.abs(v - whole) <= 1e-9) return (whole + 0).toFixed(digits);
  while (Number(fixed(v, digits)) === whole) digits++;
  return fixed(v, digits);
}

// signed formats a difference with its sign, as the tables of the page do.
const signed = (v) => (v > 1e-9 ? "+" : "") + ratio(v);

function milliseconds(ms) {
  if (!ms) return "–";
  if (ms < 0.9995) return fixed(ms * 1000, 0) + " µs";
  if (ms < 9.95) return fixed(ms, 1) + " ms";
  if (ms < 999.5) return fixed(ms, 0) + " ms";
  if (ms < 99950) return fixed(ms / 1000, 1) + " s";
  const s = Math.round(ms / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60);
  return (h ? h + "h" : "") + (m % 60) + "m" + (s % 60) + "s";
}

function dollars(v) {
  if (v === null || v === undefined) return "–";
  return "$" + fixed(v, v ? Math.min(12, Math.max(2, 1 - Math.floor(Math.log10(v)))) : 2);
}

const count = (n) => n.toLocaleString("en");
const counted = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
