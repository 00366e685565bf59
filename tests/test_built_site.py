"""Tests of the documentation's layout in a browser, at 1280 x 800 pixels.

The environment variable `SITE` names a site that `make docs` has built. Without it the test builds
a site with a few ids, which needs the extra `docs`. Of the pages of ids, only those in `IDS` are
opened.
"""

import functools
import http.server
import importlib.util
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
ALONE = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
ALONE += " --disable-background-networking --disable-component-update --remote-debugging-port=0"
IDS = ("Grid-DoorKey-5x5-v0", "Grid-DoorKey-8x8-v0", "Classic-CartPole-v0", "Classic-Pendulum-v0")
ID = re.compile(r"/envs/(.*-v\d+)/")  # pattern of the environment id in a page's address
LOOKED_AT = 12  # number of pages per browser process, so that no process takes long

# JavaScript that loads each page into a frame of 1280 x 800 pixels and reports faults of its
# layout.
PROBE = """<!doctype html><body style="margin:0">
<iframe id="page" width="1280" height="800" style="border:0"></iframe><script>
const frame = document.getElementById("page");
function look(inside, view) {
  const whole = inside.documentElement;
  const overflows = part => part.clientWidth > 0 && part.scrollWidth > part.clientWidth + 1;
  const wide = part => overflows(part)
      && ["auto", "scroll"].includes(view.getComputedStyle(part).overflowX);
  const words = part => part.textContent.trim().slice(0, 60);
  const all = names => [...inside.querySelectorAll(names)];
  const before = part => part.previousSibling ? part.previousSibling.textContent : "";
  return {
    width: whole.clientWidth,
    scrolls: all("*").filter(part => part == whole ? overflows(part) : wide(part)).map(words),
    cutStars: all("em").filter(part => /\\b[AQ]$/.test(before(part))).map(words),
    headless: all("article th").filter(part => !words(part)).map(part => words(part.parentNode)),
    pictures: all("article img").map(part => part.getAttribute("src")),
    beside: all(".md-nav--primary a").map(part => words(part)),
    text: inside.querySelector("article").innerText,
  };
}
(async () => {
  const found = {};
  for (const address of ADDRESSES) {
    await new Promise(done => { frame.onload = done; frame.src = address; });
    await frame.contentDocument.fonts.ready;
    await new Promise(done => setTimeout(done, 100));  // its scripts wrap its tables
    found[address] = look(frame.contentDocument, frame.contentWindow);
  }
  await fetch("/results", {method: "POST", body: JSON.stringify(found)});
})().catch(error => fetch("/results", {method: "POST", body: JSON.stringify({error: `${error}`})}));
</script>"""

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        BROWSER is None,
        reason="THE TEST OF THE SITE DID NOT RUN: no Chromium here (apt install chromium)",
    ),
    pytest.mark.skipif(
        "SITE" not in os.environ and importlib.util.find_spec("mkdocs") is None,
        reason="THE TEST OF THE SITE DID NOT RUN: no mkdocs here (make docs installs it)",
    ),
]


class Pages(http.server.SimpleHTTPRequestHandler):
    """HTTP handler that serves a site and the page `PROBE`, and receives the probe's findings."""

    def __init__(self, probe: bytes, results: queue.Queue, *given, **more) -> None:
        self.probe, self.results = probe, results
        super().__init__(*given, **more)

    def do_GET(self) -> None:
        if self.path != "/probe":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(self.probe)))
        self.end_headers()
        self.wfile.write(self.probe)

    def do_POST(self) -> None:
        self.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *given) -> None:
        pass


def looks(site: Path, addresses: list[str], profile: Path) -> dict[str, dict]:
    """Open pages of a site in a browser; return what `PROBE` reports of each page, by address."""
    results: queue.Queue = queue.Queue()
    probe = PROBE.replace("ADDRESSES", json.dumps(addresses)).encode()
    pages = functools.partial(Pages, probe, results, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = [BROWSER, *ALONE.split(), f"--user-data-dir={profile}", "--window-size=1280,900"]
        words += [f"http://127.0.0.1:{server.server_port}/probe"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(words, **quiet) as browser:
            try:
                found = results.get(timeout=300)
            finally:
                browser.terminate()
                server.shutdown()
    assert set(found) == {*addresses}, found
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    if "SITE" in os.environ:
        return Path(os.environ["SITE"])
    folder = tmp_path_factory.mktemp("site")
    given = {**os.environ, "IDS": " ".join(IDS), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    subprocess.run([*command, str(folder)], cwd=ROOT, env=given, check=True, timeout=900)
    return folder


@pytest.fixture(scope="module")
def seen(site, tmp_path_factory) -> dict[str, dict]:
    """Return what `PROBE` reports of the site's pages, by address."""
    found, addresses = {}, []
    for path in sorted(site.rglob("index.html")):
        address = f"/{path.parent.relative_to(site).as_posix()}/".replace("/./", "/")
        id = ID.fullmatch(address)
        if id is None or id[1] in IDS:
            addresses.append(address)
    for first in range(0, len(addresses), LOOKED_AT):
        some = addresses[first : first + LOOKED_AT]
        found |= looks(site, some, tmp_path_factory.mktemp("profile"))
    return found


def test_the_site_has_none_of_the_programs_that_build_it(site):
    assert not [*site.glob("*.py"), *site.rglob("*.pyc")]


def test_nothing_scrolls_sideways(seen):
    assert len(seen) > 25 and {page["width"] for page in seen.values()} <= {*range(1260, 1281)}
    assert not {address: page["scrolls"] for address, page in seen.items() if page["scrolls"]}


def test_the_stars_of_searches_survive(seen):
    assert not {address: page["cutStars"] for address, page in seen.items() if page["cutStars"]}
    assert "A*, Q*, beam" in seen["/"]["text"] and "A*" in seen["/reference/"]["text"]


def test_columns_have_names(seen):
    assert not {address: page["headless"] for address, page in seen.items() if page["headless"]}


def test_a_page_of_an_id_has_its_animation_and_its_family_in_the_navigation(seen):
    for id in IDS:
        page, family = seen[f"/envs/{id}/"], id.split("-")[0]
        assert page["pictures"] == [f"../{id}.gif"]
        assert {other for other in IDS if other.split("-")[0] == family} <= {*page["beside"]}
