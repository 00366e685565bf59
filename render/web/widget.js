// The module of the widget in notebooks: `parts` gives the style sheet (see widget.py), and
// viewer.js comes before this text.

const LATE = 1000;  // ms without an answer before the picture says that the kernel is busy
const GONE = "The kernel has ended or was restarted. Run the cell again to go on.";

// A frame that neither uses nor changes the styles of the notebook.
function framed(element, height) {
  const host = document.createElement("div"), root = document.createElement("div");
  host.className = "jaxenvs-viewer";
  host.style.cssText = `width: 100%; height: ${height}px; min-width: 0`;
  const style = document.createElement("style");
  style.textContent = STYLE;
  host.attachShadow({mode: "open"}).append(style, root);
  element.append(host);
  return root;
}

function render({model, el}) {
  const name = crypto.getRandomValues(new Uint32Array(4)).join("-");  // each output has its own
  let late = 0, viewer = null;
  const post = message => model.send({view: name, message: JSON.stringify(message)});

  function send(...message) {
    post(message);
    if (["key", "click"].includes(message[0]) && !late) {
      late = setTimeout(() => viewer.wait("waiting for the kernel"), LATE);
    }
  }
  function answered() {
    clearTimeout(late);
    late = 0;
    viewer.wait(viewer.facts.busy || "");
  }
  function hear(content, buffers) {
    if (content.ended) viewer.end(content.ended);
    if (content.view !== name) return;
    answered();
    const {buffer, byteOffset, byteLength} = buffers[0];
    viewer.receive(buffer.slice(byteOffset, byteOffset + byteLength));
  }
  function lose() {
    answered();
    viewer.end(GONE);
  }

  // After an update that cannot be drawn, leave and come back to get the whole picture.
  function again() {
    post(["leave"]);
    viewer.begin();
  }
  // Shift+Enter runs the cell also while the picture has the focus.
  const leaves = event => event.key === "Enter" && event.shiftKey;
  viewer = new Viewer(framed(el, model.get("height")), {send, tell() {}, fails: again, leaves});
  model.on("msg:custom", hear);
  model.on("comm_live_update", lose);
  viewer.begin();
  return () => {
    model.off("msg:custom", hear);
    model.off("comm_live_update", lose);
    clearTimeout(late);
    post(["leave"]);
    viewer.close();
  };
}

export default {render};
