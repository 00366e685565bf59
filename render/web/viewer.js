"use strict";
// The viewer of a session, on the page of --web and in notebooks: shows the pictures that Python
// draws, and sends keys and clicks.

const MARKUP = `
<main>
  <canvas id="view" tabindex="0" role="application" aria-label="the session"
          aria-describedby="hint"></canvas>
  <p id="busy" role="status" hidden></p>
  <section id="gone" role="alert" hidden></section>
</main>
<form id="typing" hidden>
  <label for="field">Mission</label>
  <input id="field" autocomplete="off" autocapitalize="off" spellcheck="false" maxlength="300">
  <button type="submit">OK</button>
</form>
<nav id="keys" aria-label="keys"></nav>
<footer>
  <button id="listing" type="button" aria-expanded="false" aria-controls="keys">Buttons</button>
  <button id="wording" type="button" aria-pressed="false" aria-controls="words">In words</button>
  <a id="saved" hidden></a>
  <span id="hint">Keys act while the picture has the focus; Shift+Tab leaves it.</span>
</footer>
<p id="words" aria-live="polite" hidden></p>`;
const MOVES = 16;  // ms between two positions of the mouse
// Names of keys: those of pygame by those of the browser. Letters and digits are their own names.
const NAMES = {
  " ": "space", ArrowUp: "up", ArrowRight: "right", ArrowDown: "down", ArrowLeft: "left",
  Enter: "return", Escape: "escape", Backspace: "backspace", Tab: "tab", Delete: "delete",
  Insert: "insert", Home: "home", End: "end", PageUp: "page up", PageDown: "page down",
  CapsLock: "caps lock",
};
const SIDED = {Shift: "shift", Control: "ctrl", Alt: "alt"};

function nameOf(event) {
  if (event.key.length === 1 && event.key !== " ") {
    return event.shiftKey ? event.key.toUpperCase() : event.key.toLowerCase();
  }
  const sided = SIDED[event.key];
  return sided ? `${event.location === 2 ? "right" : "left"} ${sided}` : NAMES[event.key];
}

class Viewer {
  // root: the element that the viewer fills.
  // channel: `send(...message)` sends a message of protocol.py; `tell(head)` is called with the
  // facts of each update; `fails()` is called if an update cannot be drawn.
  constructor(root, channel) {
    this.root = root;
    this.channel = channel;
    this.facts = {};
    this.held = "";  // Shift, Ctrl or Alt while it is held and no other key was pressed
    this.pending = null;  // latest position of the mouse that was not sent yet
    this.drawing = Promise.resolve();
    this.ending = new AbortController();
    root.classList.add("viewer");
    root.innerHTML = MARKUP;
    this.canvas = this.at("view");
    this.context = this.canvas.getContext("2d", {alpha: false});
    this.listenToKeys();
    this.listenToPointer();
    this.listenToButtons();
    if (matchMedia("(pointer: coarse)").matches) this.at("listing").click();
    this.resizing = new ResizeObserver(() => this.fit());
    this.resizing.observe(this.canvas.parentElement);
  }

  at(id) { return this.root.querySelector(`#${id}`); }

  send(...message) { this.channel.send(...message); }

  on(target, kind, act, capture = false) {
    target.addEventListener(kind, act, {signal: this.ending.signal, capture});
  }

  // Ask for everything that is shown: the channel is open.
  begin() {
    this.at("gone").hidden = true;
    this.fit();
    this.send("words", !this.at("words").hidden);
  }

  // Say why nothing more comes; `command` can be typed to go on.
  end(reason, command = "") {
    const box = this.at("gone");
    box.textContent = reason;
    if (command) {
      const words = document.createElement("code");
      words.textContent = command;
      box.append(" To go on, type on its machine:", words);
    }
    box.hidden = false;
  }

  // Stop listening.
  close() {
    this.ending.abort();
    this.resizing.disconnect();
  }

  // Pictures

  // Draw an update (ArrayBuffer) after the earlier ones.
  receive(data) {
    this.drawing = this.drawing.then(() => this.show(data)).catch(() => this.channel.fails());
  }

  // An update: the length of its head (uint32), the head (JSON), and a PNG of the changed blocks.
  async show(data) {
    const length = new DataView(data).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    if (head.blocks) await this.draw(head, new Blob([new Uint8Array(data, 4 + length)]));
    this.tell(head);
    this.send("shown", head.number);
  }

  async draw(head, file) {
    const {canvas, context} = this;
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
  tell(head) {
    const facts = Object.assign(this.facts, head);
    this.root.dataset.state = "shown";
    this.root.dataset.moment = facts.moment || "";
    if (head.busy !== undefined) this.wait(head.busy);
    const label = [facts.title, facts.moment, facts.notice].filter(Boolean).join(", ");
    if (label) this.canvas.setAttribute("aria-label", label);
    if (head.keys) this.list(head.keys);
    if (head.words !== undefined) this.at("words").textContent = head.words;
    if (head.typing !== undefined) this.ask(head.typing);
    this.channel.tell(head);
  }

  // Show that something takes long; "" when it is done.
  wait(word) {
    this.at("busy").textContent = word;
    this.at("busy").hidden = !word;
  }

  // One button for each command, with its first key.
  list(bindings) {
    this.at("keys").replaceChildren(...bindings.map(([keys, does]) => {
      const button = document.createElement("button"), sign = document.createElement("kbd");
      button.type = "button";
      button.textContent = does;
      sign.textContent = keys[0][1];
      button.append(sign);
      button.dataset.key = keys[0][0];
      return button;
    }));
  }

  // Show the input field with this text while the editor of levels asks for one; false: hide it.
  ask(text) {
    const form = this.at("typing"), field = this.at("field");
    if (text === false) {
      if (!form.hidden) this.canvas.focus();
      form.hidden = true;
    } else if (form.hidden) {
      form.hidden = false;
      field.value = text;
      field.focus();
      field.select();
    }
  }

  // Ask for a picture that fits; not while the viewer is hidden.
  fit() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    if (!box.width) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 4);
    const side = length => Math.max(1, Math.round(length * ratio));
    this.send("size", side(box.width), side(box.height), ratio);
  }

  // Keys, mouse and touch

  isUsed(name) {
    return (this.facts.keys || []).some(([keys]) => keys.some(([key]) => key === name));
  }

  // Keys are taken at the window, before the shortcuts of a notebook.
  listenToKeys() {
    this.on(window, "keydown", event => this.press(event), true);
    this.on(window, "keyup", event => this.release(event), true);
  }

  has(event) { return event.composedPath()[0] === this.canvas; }

  press(event) {
    if (!this.has(event)) return;
    const name = nameOf(event);
    this.held = SIDED[event.key] ? name : "";
    const isCombined = (event.ctrlKey || event.altKey) && !event.getModifierState("AltGraph");
    const isControl = (event.ctrlKey || event.metaKey) && this.isUsed(`ctrl ${name}`);
    if (this.held || !name || ((event.metaKey || isCombined) && !isControl)) return;
    if (name === "tab" && (event.shiftKey || !this.isUsed(name))) return;
    if (this.channel.leaves && this.channel.leaves(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    this.send("key", isControl ? `ctrl ${name}` : name);
  }

  // Shift acts when it is released, unless it was part of a combination such as Shift+Tab.
  release(event) {
    if (!this.has(event) || !SIDED[event.key]) return;
    if (this.held === nameOf(event) && this.isUsed(this.held)) this.send("key", this.held);
    this.held = "";
  }

  pixel(event) {
    const {canvas} = this, box = canvas.getBoundingClientRect();
    const x = (event.clientX - box.left) * canvas.width / box.width;
    const y = (event.clientY - box.top) * canvas.height / box.height;
    return [Math.floor(x), Math.floor(y)];
  }

  // Send the latest position of the mouse; before another event, so that they stay in order.
  flush() {
    if (this.pending !== null) this.send("move", ...this.pending);
    this.pending = null;
  }

  listenToPointer() {
    const {canvas} = this;
    this.on(canvas, "pointerdown", event => {
      if (event.button !== 0 && !this.facts.edits) return;
      canvas.focus();
      canvas.setPointerCapture(event.pointerId);
      this.flush();
      if (event.button) this.send("button", ...this.pixel(event), event.button + 1);
      else this.send("click", ...this.pixel(event));
      if (event.button === 1) event.preventDefault();
    });
    this.on(canvas, "contextmenu", event => {
      if (this.facts.edits) event.preventDefault();
    });
    this.on(canvas, "pointermove", event => {
      if (this.pending === null) setTimeout(() => this.flush(), MOVES);
      this.pending = this.pixel(event);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      this.on(canvas, name, event => {
        if (event.button > 0 && !this.facts.edits) return;
        this.flush();
        this.send("release");
      });
    }
    this.on(canvas, "pointerleave", () => {
      this.flush();
      this.send("move", -1, -1);
    });
  }

  listenToButtons() {
    this.on(this.at("field"), "input", () => this.send("text", this.at("field").value));
    this.on(this.at("field"), "keydown", event => {
      const name = nameOf(event);
      if (["escape", "up", "down"].includes(name)) {
        event.preventDefault();
        this.send("key", name);
      }
    });
    this.on(this.at("typing"), "submit", event => {
      event.preventDefault();
      this.send("key", "return");
    });
    this.on(this.at("keys"), "click", event => {
      const button = event.target.closest("button");
      if (button) this.send("key", button.dataset.key);
    });
    this.on(this.at("listing"), "click", () => {
      const shown = this.root.classList.toggle("listed");
      this.at("listing").setAttribute("aria-expanded", shown);
    });
    this.on(this.at("wording"), "click", () => {
      const hidden = this.at("words").toggleAttribute("hidden");
      this.at("wording").setAttribute("aria-pressed", !hidden);
      this.send("words", !hidden);
    });
  }
}
