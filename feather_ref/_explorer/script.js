"use strict";
// Tables from Python, a search in them, and what a person sees. No rounding by arithmetic, no codec.
const TABLES = JSON.parse(document.getElementById("tables").textContent);
const BY_NAME = new Map(TABLES.formats.map((row) => [row.name, row]));
const $ = (id) => document.getElementById(id);
const hex = (code, bits) => code.toString(16).toUpperCase().padStart(Math.ceil(bits / 4), "0");
const state = { f: "e4m3", c: 0x2a, x: "0.3", o: "", n: "", s: "keep", g: "", w: [0x30, 0x40, 0x34, 0x44] };

// --- the search -----------------------------------------------------------------------------

const f32 = new DataView(new ArrayBuffer(4));
function bitsOf(x) { f32.setFloat32(0, x); return f32.getUint32(0); }
function floatOf(bits) { f32.setUint32(0, bits); return f32.getFloat32(0); }

/** The two codes around a magnitude: `upper` is null past the greatest. */
function neighbours(row, negative, magnitude) {
  const codes = negative ? row.down : row.up, size = (code) => Math.abs(row.values[code]);
  let low = 0, high = codes.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (size(codes[middle]) <= magnitude) low = middle; else high = middle;
  }
  const past = row.past && row.past[negative ? 1 : 0];
  const last = low === codes.length - 1;
  return {
    lower: codes[low], below: size(codes[low]),
    upper: last ? null : codes[low + 1], above: last ? past : size(codes[low + 1]),
  };
}

/** Which of the two is taken, and why, in words. */
function choose(row, rounding, negative, magnitude, near) {
  const { lower, below, above } = near;
  if (magnitude <= below) return [false, magnitude === below ? "exact" : "nothing lies below"];
  if (above === null) return [false, "nothing lies above"];
  const middle = (below + above) / 2, even = lower % 2 === 0;
  switch (rounding) {
    case "nearest_even":
      if (magnitude !== middle) return [magnitude > middle, magnitude > middle ? "past the midpoint" : "before the midpoint"];
      if (row.kind === "table") return [false, "a tie: the smaller magnitude"];
      return [!even, "a tie: the even code"];
    case "nearest_away":
      if (magnitude === middle) return [true, "a tie: away from zero"];
      return [magnitude > middle, magnitude > middle ? "past the midpoint" : "before the midpoint"];
    case "toward_zero": return [false, "the smaller magnitude"];
    case "toward_positive": return [!negative, "the greater number"];
    case "toward_negative": return [negative, "the smaller number"];
    default: return [even, even ? "inexact: the odd code is above" : "inexact: the code is odd already"];
  }
}

/** The code of a float32, or null where the policy makes it an error; and why. */
function encode(row, bits, rounding, choices) {
  const x = floatOf(bits), negative = bits >>> 31 === 1;
  if (Number.isNaN(x)) return { code: row.nan[choices.nan][+negative], why: "NaN: " + choices.nan };
  let magnitude = Math.abs(x), note = "";
  if (choices.subnormals === "flush_input" && magnitude < 2 ** -126) {
    if (magnitude) note = "the float32 is subnormal and flushed; ";
    magnitude = 0;
  }
  const refused = negative && !row.signed && magnitude > 0;
  const late = choices.overflow === "p3109_satnone" && choices.negative === "nan";
  if (refused && !late) {
    if (choices.negative === "error") return { code: null, why: "negative: an error" };
    if (choices.negative === "nan") return { code: row.made, why: "negative: NaN" };
    if (choices.negative === "zero") return { ...encode(row, 0, rounding, choices), why: "negative: zero" };
  }
  const down = negative && row.signed;
  if (magnitude === Infinity) {
    if (refused && late) return { code: row.made, why: "negative: NaN" };
    return { code: row.beyond[choices.overflow][rounding][2 + down], why: "infinite: " + choices.overflow };
  }
  const near = neighbours(row, down, magnitude);
  let up, why;
  if (magnitude >= near.above && near.above !== null) [up, why] = [true, "beyond the greatest"];
  else [up, why] = choose(row, rounding, (refused && late) || down, magnitude, near);
  if (refused && late) {
    const nonzero = row.values[up ? near.upper : near.lower] !== 0;
    return { code: nonzero ? row.made : near.lower, why: nonzero ? "negative: NaN" : "negative, but rounds to zero" };
  }
  if (up && near.upper === null) {
    if (rounding === "to_odd") why = "inexact, and what follows has no code";
    return { code: row.beyond[choices.overflow][rounding][+down], why: note + why + ", overflow: " + choices.overflow };
  }
  let code = up ? near.upper : near.lower;
  if (choices.subnormals === "flush_output" && /subnormal/.test(TABLES.classes[row.classes[code]])) {
    [code, note] = [(down ? row.down : row.up)[0], note + "a subnormal result is flushed; "];
  }
  return { code, why: note + why };
}

// --- numbers as text ------------------------------------------------------------------------

function show(value) {
  if (typeof value === "string") return { nan: "NaN", inf: "Inf", "-inf": "-Inf" }[value];
  return Object.is(value, -0) ? "-0" : String(value).replace("Infinity", "Inf");
}

/** A float32 in the nine digits that tell it from every other. */
function showFloat32(x) {
  return show(Number.isFinite(x) && x !== 0 ? Number(x.toPrecision(9)) : x);
}

/** The float32 bits of what was typed; null where it is no number. */
function readNumber(text) {
  const word = text.trim().toLowerCase();
  if (/^[+-]?(inf|infinity)$/.test(word)) return word[0] === "-" ? 0xff800000 : 0x7f800000;
  if (/^[+-]?nan$/.test(word)) return word[0] === "-" ? 0xffc00000 : 0x7fc00000;
  if (/^0x[0-9a-f]{8}$/.test(word)) return parseInt(word, 16) >>> 0;
  const power = word.match(/^([+-]?)(?:(\d+(?:\.\d+)?)\s*\*\s*)?2\s*(?:\^|\*\*)\s*([+-]?\d+)$/);
  if (power) return bitsOf(Number((power[1] || "") + (power[2] || "1")) * 2 ** Number(power[3]));
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(word)) return null;
  return bitsOf(Number(word));
}

function formula(row, code) {
  const value = row.values[code], sign = row.signed ? "(-1)<sup>" + (code >> (row.bits - 1)) + "</sup> &times; " : "";
  if (row.kind === "table") return "the table's entry " + code;
  if (typeof value === "string") return show(value) + " by definition of the format";
  if (row.kind === "integer") return "two's complement" + (row.bias ? ", times 2<sup>-" + row.bias + "</sup>" : "");
  const m = row.mantissa, mantissa = code & ((1 << m) - 1), exponent = (code >> m) & ((1 << row.exponent) - 1);
  const subnormal = exponent === 0 && row.zero, power = (subnormal ? 1 : exponent) - row.bias;
  const part = m ? (subnormal ? "0" : "1") + " + " + mantissa + "/" + (1 << m) : subnormal ? "0" : "1";
  return sign + "(" + part + ") &times; 2<sup>" + power + "</sup>"
    + (subnormal ? " <span class=quiet>exponent field 0: no hidden bit</span>" : " <span class=quiet>exponent " + exponent + " - bias " + row.bias + "</span>");
}

// --- what a person sees ---------------------------------------------------------------------

function roles(row) {
  if (row.kind === "table") return Array(row.bits).fill("index");
  if (row.kind === "integer") return Array(row.bits).fill("integer");
  return [...Array(row.signed ? 1 : 0).fill("sign"), ...Array(row.exponent).fill("exponent"), ...Array(row.mantissa).fill("mantissa")];
}

function drawCode(row) {
  const names = roles(row);
  const kept = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.bit : undefined;
  $("bits").replaceChildren(...names.map((role, i) => {
    const place = row.bits - 1 - i, one = (state.c >> place) & 1, button = document.createElement("button");
    button.type = "button"; button.className = "bit " + role; button.dataset.bit = place;
    button.setAttribute("aria-pressed", String(one === 1));
    button.setAttribute("aria-label", role + " bit " + place + " is " + one);
    button.innerHTML = one + "<small aria-hidden=true>" + place + "</small>";
    button.onclick = () => { state.c ^= 1 << place; update(); };
    return button;
  }));
  if (kept !== undefined) $("bits").querySelector('[data-bit="' + kept + '"]')?.focus();
  if (document.activeElement !== $("code")) $("code").value = hex(state.c, row.bits);
  $("value").textContent = show(row.values[state.c]);
  $("class").textContent = TABLES.classes[row.classes[state.c]];
  $("formula").innerHTML = "= " + formula(row, state.c);
}

/** Which bits of the float32 the format keeps: by the weight of the last place between the neighbours. */
function markBits(row, bits) {
  const x = Math.abs(floatOf(bits)), role = ["sign", ...Array(8).fill("exponent"), ...Array(23).fill("kept")];
  if (!Number.isFinite(x) || x === 0 || row.kind === "table") return role;
  const near = neighbours(row, bits >>> 31 === 1 && row.signed, x);
  const last = Math.log2(near.above - near.below); // spacings are powers of two
  const exponent = Math.max((bits >>> 23) & 255, 1) - 127;
  for (let i = 0; i < 23; i++) {
    const weight = exponent - 1 - i;
    if (weight < last) role[9 + i] = weight === last - 1 ? "guard" : "sticky";
  }
  return role;
}

function drawSource(row, bits, choices) {
  const role = markBits(row, bits), text = bits.toString(2).padStart(32, "0");
  $("source").replaceChildren(...[...text].map((bit, i) => {
    const span = document.createElement("span");
    span.textContent = bit; span.className = role[i] + (i === 1 || i === 9 ? " gap" : "");
    return span;
  }));
  $("source").setAttribute("aria-label", "float32 " + hex(bits, 32) + ", bits " + text);
  const x = floatOf(bits), typed = Number(state.x);
  const changed = !Number.isNaN(typed) && Number.isFinite(x) && typed !== x;
  $("source-text").innerHTML = "As float32: <code>" + hex(bits, 32) + "</code> = " + showFloat32(x)
    + (changed ? " <span class=quiet>(what you typed is no float32; this is the nearest one)</span>" : "");
  drawLine(row, x, bits);
  $("roundings").replaceChildren(...row.roundings.map((rounding) => {
    const found = encode(row, bits, rounding, choices), tr = document.createElement("tr");
    const cells = [rounding, found.code === null ? "error" : hex(found.code, row.bits),
      found.code === null ? "" : show(row.values[found.code]), found.why];
    tr.replaceChildren(...cells.map((cell) => Object.assign(document.createElement("td"), { textContent: cell })));
    if (found.code !== null) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: cells[1], title: "show this code above" });
      button.onclick = () => { state.c = found.code; update(); };
      tr.children[1].replaceChildren(button);
    }
    return tr;
  }));
}

function drawLine(row, x, bits) {
  if (!Number.isFinite(x)) { $("line").replaceChildren(); return; }
  const negative = bits >>> 31 === 1 && row.signed, near = neighbours(row, negative, Math.abs(x)), sign = negative ? -1 : 1;
  if (near.above === null || Math.abs(x) > near.above || Math.abs(x) < near.below || (bits >>> 31 && !row.signed)) {
    $("line").innerHTML = "<p class=quiet>It lies outside the numbers of the format.</p>";
    return;
  }
  const at = (v) => 70 + (340 * (Math.abs(v) - near.below)) / (near.above - near.below), middle = (near.below + near.above) / 2;
  const label = (x, y, text) => `<text x=${Math.min(Math.max(x, 70), 410)} y=${y} text-anchor=middle>${text}</text>`;
  const tick = (v, code) => `<line class=axis x1=${at(v)} x2=${at(v)} y1=40 y2=60></line>${label(at(v), 80, show(sign * v))}`
    + label(at(v), 98, code === null ? "no code" : hex(code, row.bits));
  $("line").innerHTML = `<svg viewBox="0 0 480 138" role=img aria-label="${showFloat32(x)} between ${show(sign * near.below)} and ${show(sign * near.above)}, midpoint ${show(sign * middle)}">`
    + `<line class=axis x1=50 x2=430 y1=50 y2=50></line>${tick(near.below, near.lower)}${tick(near.above, near.upper)}`
    + `<line class=mid x1=240 x2=240 y1=34 y2=108></line>${label(240, 126, "midpoint " + show(sign * middle))}`
    + `<path class=here d="M${at(x)} 46 l-7 -14 h14 z"></path>${label(at(x), 24, showFloat32(x))}</svg>`;
}

function drawWords(row) {
  const w = row.storage, lanes = Math.floor(32 / w);
  const codes = Array.from({ length: lanes }, (_, i) => state.w[i] ?? 0);
  if (document.activeElement !== $("lanes")) $("lanes").value = codes.map((code) => hex(code, row.bits)).join(" ");
  const bits = codes.map((code) => code.toString(2).padStart(w, "0")), rest = "0".repeat(32 - w * lanes);
  const words = [
    ["order=\"little\": the first code in the low bits", [...bits].reverse(), true],
    ["order=\"big\": the first code in the high bits", bits, false],
  ];
  $("words").innerHTML = words.map(([title, parts, little]) => {
    const all = little ? rest + parts.join("") : parts.join("") + rest;
    const spans = parts.map((part, i) => {
      const lane = little ? lanes - 1 - i : i;
      return `<span class="${lane % 2 ? "odd" : "even"}">${part}</span>`;
    });
    const pad = rest ? `<span class=quiet>${rest}</span>` : "";
    return `<p>${title}: <b><code>${hex(parseInt(all, 2), 32)}</code></b></p><div class=word>${little ? pad + spans.join("") : spans.join("") + pad}</div>`;
  }).join("") + (rest ? `<p class=quiet>The next code begins in the last ${rest.length} bits and goes on in the next word.</p>` : "");
}

// --- choices --------------------------------------------------------------------------------

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
}

function choicesOf(row) {
  const pick = (value, names, own) => (names.includes(value) ? value : own);
  return {
    overflow: pick(state.o, Object.keys(row.beyond), row.default.overflow),
    nan: pick(state.n, Object.keys(row.nan), row.default.nan),
    negative: pick(state.g, row.negative, row.default.negative),
    subnormals: pick(state.s, TABLES.subnormals, "keep"),
  };
}

function drawChoices(row, choices) {
  $("format").value = row.name;
  fill($("overflow"), Object.keys(row.beyond), choices.overflow);
  fill($("nan"), Object.keys(row.nan), choices.nan);
  fill($("negative"), row.negative, choices.negative);
  fill($("subnormals"), TABLES.subnormals, choices.subnormals);
  $("negative-label").hidden = row.signed;
  $("about").textContent = row.about + (row.kind === "float" ? `: ${row.bits} bits, bias ${row.bias}` : `: ${row.bits} bits`);
  const split = row.kind === "float" && row.signed; // what the sliders can say
  if (split) { $("e").value = row.exponent; $("m").value = row.mantissa; }
  if (split) $("special").value = row.values.includes("inf") ? "Inf and NaN" : row.made === null ? "finite" : "NaN";
  $("e-text").textContent = split ? row.exponent : "–"; $("m-text").textContent = split ? row.mantissa : "–";
}

function slide(moved) {
  let e = +$("e").value, m = +$("m").value;
  if (1 + e + m > 8) { if (moved === "e") m = 7 - e; else e = 7 - m; }
  if (e + m < 2) { if (moved === "m") e = 2; else m = 1; }
  const special = $("special").value === "Inf and NaN" && (e < 2 || m < 1) ? "NaN" : $("special").value;
  change(`e${e}m${m}, ${special}`);
}

/** Another format: the numbers stay, as near as it has them. */
function change(name) {
  const old = BY_NAME.get(state.f), row = BY_NAME.get(name);
  state.f = name; state.o = ""; state.n = ""; state.g = "";
  const choices = choicesOf(row);
  const again = (code) => encode(row, bitsOf(Number(String(old.values[code]).replace("inf", "Infinity"))), "nearest_even", choices).code ?? 0;
  state.c = again(state.c); state.w = state.w.map(again);
  update();
}

function complain(id, text) {
  $(id + "-error").textContent = text;
  $(id).setAttribute("aria-invalid", String(text !== ""));
}

// --- state ----------------------------------------------------------------------------------

function save() {
  const all = new URLSearchParams({ f: state.f, c: hex(state.c, 8), x: state.x });
  for (const key of ["o", "n", "s", "g"]) if (state[key] && state[key] !== "keep") all.set(key, state[key]);
  if (state.w.length) all.set("w", state.w.map((code) => code.toString(16)).join("-"));
  history.replaceState(null, "", "#" + all);
}

function load() {
  const all = new URLSearchParams(location.hash.slice(1));
  if (BY_NAME.has(all.get("f"))) state.f = all.get("f");
  const code = parseInt(all.get("c"), 16);
  if (code >= 0 && code < 256) state.c = code;
  if (all.has("x") && readNumber(all.get("x")) !== null) state.x = all.get("x");
  for (const key of ["o", "n", "s", "g"]) state[key] = all.get(key) ?? (key === "s" ? "keep" : "");
  if (all.has("w")) state.w = all.get("w").split("-").map((part) => parseInt(part, 16)).filter((part) => part >= 0 && part < 256);
  $("x").value = state.x;
}

function update() {
  const row = BY_NAME.get(state.f), mask = (1 << row.bits) - 1, choices = choicesOf(row);
  state.c &= mask; state.w = state.w.map((part) => part & mask);
  drawChoices(row, choices); drawCode(row); drawWords(row);
  drawSource(row, readNumber(state.x), choices);
  save();
}

function step(up) {
  const row = BY_NAME.get(state.f), value = row.values[state.c];
  const order = [...(row.down ?? [])].reverse().concat(row.up);
  if (typeof value === "string") return;
  const sorted = [...new Set(order)].sort((a, b) => row.values[a] - row.values[b] || Object.is(row.values[b], -0) - Object.is(row.values[a], -0));
  const next = sorted[sorted.indexOf(state.c) + (up ? 1 : -1)];
  if (next !== undefined) { state.c = next; update(); }
}

function listen() {
  for (const group of [...new Set(TABLES.formats.map((row) => row.group))]) {
    const box = Object.assign(document.createElement("optgroup"), { label: group });
    box.append(...TABLES.formats.filter((row) => row.group === group).map((row) => new Option(row.name)));
    $("format").append(box);
  }
  $("format").onchange = () => change($("format").value);
  $("e").oninput = () => slide("e"); $("m").oninput = () => slide("m"); $("special").onchange = () => slide("e");
  for (const [id, key] of [["overflow", "o"], ["nan", "n"], ["subnormals", "s"], ["negative", "g"]]) {
    $(id).onchange = () => { state[key] = $(id).value; update(); };
  }
  $("code").oninput = () => {
    const row = BY_NAME.get(state.f), text = $("code").value.trim().replace(/^0x/i, ""), code = parseInt(text, 16);
    const good = /^[0-9a-f]+$/i.test(text) && code < 1 << row.bits;
    complain("code", good ? "" : "a code is hex, 0 to " + hex((1 << row.bits) - 1, row.bits));
    if (good) { state.c = code; update(); }
  };
  $("x").oninput = () => {
    const good = readNumber($("x").value) !== null;
    complain("x", good ? "" : "a number is like 0.3, -1e-3, 2^-9, nan, inf, or 0x and 8 hex digits for float32 bits");
    if (good) { state.x = $("x").value; update(); }
  };
  $("lanes").oninput = () => {
    const row = BY_NAME.get(state.f), parts = $("lanes").value.trim().split(/[\s,]+/).filter(Boolean);
    const good = parts.every((part) => /^[0-9a-f]+$/i.test(part) && parseInt(part, 16) < 1 << row.bits);
    const fits = parts.length <= Math.floor(32 / row.storage);
    complain("lanes", !good ? "codes are hex, 0 to " + hex((1 << row.bits) - 1, row.bits) : !fits ? "more codes than a word holds" : "");
    if (good && fits) { state.w = parts.map((part) => parseInt(part, 16)); update(); }
  };
  $("down").onclick = () => step(false); $("up").onclick = () => step(true);
  for (const id of ["code", "x", "lanes"]) $(id).onblur = () => update();
  $("bits").onkeydown = (event) => {
    const move = { ArrowLeft: 1, ArrowRight: -1 }[event.key], place = event.target.dataset.bit;
    if (move === undefined || place === undefined) return;
    $("bits").querySelector('[data-bit="' + (Number(place) + move) + '"]')?.focus();
    event.preventDefault();
  };
  window.onhashchange = () => { load(); update(); };
}

listen(); load(); update();
window.explorer = { encode, TABLES, BY_NAME, choicesOf, markBits, readNumber };
