"use strict";
// The page of --web: a viewer that is connected to the server by a websocket.

const token = new URLSearchParams(location.search).get("token") || "";
const FIRST = 250, LONGEST = 5000;  // ms: shortest and longest time between attempts to connect
const TRIES = 4;  // failed attempts before the page says that the server has gone
const GONE = "The server has gone. This page connects again when it is back.";
let socket = null, failures = 0;

function send(...message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function tell(head) {
  if (head.title !== undefined) {
    document.title = `${head.title} - jaxenvs`;
    heading.textContent = head.title;
  }
  if (head.saved) {
    const link = page.at("saved");
    link.href = `saved?token=${encodeURIComponent(token)}`;
    link.textContent = `Download ${head.saved}`;
    link.hidden = false;
  }
}

// After an error, connect again and get the whole picture.
const page = new Viewer(document.body, {send, tell, fails: () => socket.close()});
const heading = document.createElement("h1");
document.body.prepend(heading);

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/session?token=${encodeURIComponent(token)}`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    failures = 0;
    page.begin();
  };
  socket.onmessage = event => page.receive(event.data);
  socket.onclose = event => {
    failures += 1;
    document.body.dataset.state = "gone";
    if (failures >= TRIES || event.code === 1001) page.end(GONE, page.facts.resume);
    const wait = Math.min(LONGEST, FIRST * 2 ** Math.min(failures, 8));
    setTimeout(connect, wait * (0.75 + Math.random() / 2));
  };
}

page.canvas.focus();
connect();
