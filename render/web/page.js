"use strict";
// The page of the viewer: shows the pictures that the server draws, and sends keys and clicks.

const at = id => document.getElementById(id);
const canvas = at("view"), context = canvas.getContext("2d", {alpha: false});
const token = new URLSearchParams(location.search).get("token") || "";
const FIRST = 250, LONGEST = 5000;  // ms: shortest and longest time between attempts to connect
const MOVES = 16;  // ms between two positions of the mouse
const TRIES = 4;  // failed attempts before the page says that the server has gone
// Names of keys: those of pygame by those of the browser. Letters and digits are their own names.
const NAMES = {
  " ": "space", ArrowUp: "up", ArrowRight: "right", ArrowDown: "down", ArrowLeft: "left",
  Enter: "return", Escape: "escape", Backspace: "backspace", Tab: "tab", Delete: "delete",
  Insert: "insert", Home: "home", End: "end", PageUp: "page up", PageDown: "page down",
  CapsLock: "caps lock",
};
const SIDED = {Shift: "shift", Control: "ctrl", Alt: "alt"};
let held = "";  // Shift, Ctrl or Alt while it is held and no other key was pressed
let socket = null, failures = 0, drawing = Promise.resolve(), pending = null, facts = {};

function send(...message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

// Connection

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/session?token=${encodeURIComponent(token)}`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    failures = 0;
    at("gone").hidden = true;
    fit();
    send("words", !at("words").hidden);
  };
  const mine = socket;  // after an error, connect again and get the whole picture
  socket.onmessage = event => {
    drawing = drawing.then(() => show(event.data)).catch(() => mine.close());
  };
  socket.onclose = event => {
    failures += 1;
    document.body.dataset.state = "gone";
    if (failures >= TRIES || event.code === 1001) sayGone();
    const wait = Math.min(LONGEST, FIRST * 2 ** Math.min(failures, 8));
    setTimeout(connect, wait * (0.75 + Math.random() / 2));
  };
}

function sayGone() {
  const box = at("gone");
  box.textContent = "The server has gone. This page connects again when it is back.";
  if (facts.resume) {
    const words = document.createElement("code");
    words.textContent = facts.resume;
    box.append(" To go on, type on its machine:", words);
  }
  box.hidden = false;
}

// Pictures

// An update: the length of its head (uint32), the head (JSON), and a PNG of the changed blocks.
async function show(data) {
  const length = new DataView(data).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  if (head.blocks) await draw(head, new Blob([new Uint8Array(data, 4 + length)]));
  tell(head);
  send("shown", head.number);
}

async function draw(head, file) {
  if (canvas.width !== head.width || canvas.height !== head.height) {
    canvas.width = head.width;
    canvas.height = head.height;
  }
  if (!head.blocks.length) return;
  const exact = {colorSpaceConversion: "none", premultiplyAlpha: "none"};
  const sheet = await createImageBitmap(file, exact);
  const size = head.block, columns = Math.ceil(head.width / size);
  const across = sheet.width / size;
  head.blocks.forEach((block, i) => {
    const from = [i % across * size, Math.floor(i / across) * size];
    const to = [block % columns * size, Math.floor(block / columns) * size];
    context.drawImage(sheet, ...from, size, size, ...to, size, size);
  });
  sheet.close();
}

// Show what the head of an update says about the session.
function tell(head) {
  Object.assign(facts, head);
  document.body.dataset.state = "shown";
  document.body.dataset.moment = facts.moment || "";
  if (head.title !== undefined) {
    document.title = `${head.title} - jaxenvs`;
    document.querySelector("h1").textContent = head.title;
  }
  if (head.busy !== undefined) {
    at("busy").textContent = head.busy;
    at("busy").hidden = !head.busy;
  }
  const label = [facts.title, facts.moment, facts.notice].filter(Boolean).join(", ");
  if (label) canvas.setAttribute("aria-label", label);
  if (head.keys) list(head.keys);
  if (head.words !== undefined) at("words").textContent = head.words;
  if (head.saved) {
    at("saved").href = `saved?token=${encodeURIComponent(token)}`;
    at("saved").textContent = `Download ${head.saved}`;
    at("saved").hidden = false;
  }
}

// One button for each command, with its first key.
function list(bindings) {
  at("keys").replaceChildren(...bindings.map(([keys, does]) => {
    const button = document.createElement("button"), sign = document.createElement("kbd");
    button.type = "button";
    button.textContent = does;
    sign.textContent = keys[0][1];
    button.append(sign);
    button.dataset.key = keys[0][0];
    return button;
  }));
}

// Ask for a picture that fits the page.
function fit() {
  const box = at("view").parentElement.getBoundingClientRect();
  const ratio = Math.min(window.devicePixelRatio || 1, 4);
  const side = length => Math.max(1, Math.round(length * ratio));
  send("size", side(box.width), side(box.height), ratio);
}

// Keys, mouse and touch

function nameOf(event) {
  if (event.key.length === 1 && event.key !== " ") {
    return event.shiftKey ? event.key.toUpperCase() : event.key.toLowerCase();
  }
  const sided = SIDED[event.key];
  return sided ? `${event.location === 2 ? "right" : "left"} ${sided}` : NAMES[event.key];
}

const isUsed = name => (facts.keys || []).some(([keys]) => keys.some(([key]) => key === name));

canvas.addEventListener("keydown", event => {
  const name = nameOf(event);
  held = SIDED[event.key] ? name : "";
  const isCombined = (event.ctrlKey || event.altKey) && !event.getModifierState("AltGraph");
  if (held || !name || event.metaKey || isCombined) return;
  if (name === "tab" && (event.shiftKey || !isUsed(name))) return;
  event.preventDefault();
  send("key", name);
});
// Shift acts when it is released, unless it was part of a combination such as Shift+Tab.
canvas.addEventListener("keyup", event => {
  if (SIDED[event.key] && held === nameOf(event) && isUsed(held)) send("key", held);
  if (SIDED[event.key]) held = "";
});

function pixel(event) {
  const box = canvas.getBoundingClientRect();
  const x = (event.clientX - box.left) * canvas.width / box.width;
  const y = (event.clientY - box.top) * canvas.height / box.height;
  return [Math.floor(x), Math.floor(y)];
}

canvas.addEventListener("pointerdown", event => {
  if (event.button !== 0) return;
  canvas.focus();
  canvas.setPointerCapture(event.pointerId);
  send("click", ...pixel(event));
});
canvas.addEventListener("pointermove", event => {
  if (pending === null) setTimeout(() => { send("move", ...pending); pending = null; }, MOVES);
  pending = pixel(event);
});
for (const name of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(name, event => { if (event.button <= 0) send("release"); });
}
canvas.addEventListener("pointerleave", () => send("move", -1, -1));

at("keys").addEventListener("click", event => {
  const button = event.target.closest("button");
  if (button) send("key", button.dataset.key);
});
at("listing").addEventListener("click", () => {
  const shown = document.body.classList.toggle("listed");
  at("listing").setAttribute("aria-expanded", shown);
});
at("wording").addEventListener("click", () => {
  const hidden = at("words").toggleAttribute("hidden");
  at("wording").setAttribute("aria-pressed", !hidden);
  send("words", !hidden);
});

if (matchMedia("(pointer: coarse)").matches) at("listing").click();
new ResizeObserver(fit).observe(canvas.parentElement);
canvas.focus();
connect();
