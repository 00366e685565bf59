"""Test that a browser plays a video of `jaxenvs watch` to its end."""

import functools
import http.server
import json
import queue
import shutil
import subprocess
import threading

import pytest

from jaxenvs.render import animation, watch

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
ALONE = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
ALONE += " --disable-background-networking --disable-component-update --mute-audio"
PAGE = b"""<!doctype html><video muted></video><script>
const video = document.querySelector("video");
const tell = what => fetch("/results", {method: "POST", body: JSON.stringify(what)});
video.onerror = () => tell({error: video.error.message});
video.onended = () => tell({
  ready: video.readyState, time: video.currentTime, frames: video.getVideoPlaybackQuality()
    .totalVideoFrames, width: video.videoWidth, height: video.videoHeight});
video.src = "video";
video.play().catch(error => tell({error: String(error)}));
</script>"""

pytestmark = [
    pytest.mark.usefixtures("no_display"),
    pytest.mark.skipif(
        BROWSER is None,
        reason="THE VIDEO TEST DID NOT RUN: no Chromium (apt install chromium)",
    ),
]


class Pages(http.server.BaseHTTPRequestHandler):
    """HTTP handler that serves the page and the video, and receives the page's report."""

    def __init__(self, kind: str, video: bytes, results: queue.Queue, *given) -> None:
        self.kind, self.video, self.results = kind, video, results
        super().__init__(*given)

    def do_GET(self) -> None:
        is_video = self.path == "/video"
        content = self.video if is_video else PAGE
        self.send_response(200)
        self.send_header("Content-Type", self.kind if is_video else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *given) -> None:
        pass


def played(path, profile) -> dict:
    """Return the report of the browser's video element at the end of the video."""
    results: queue.Queue = queue.Queue()
    kind = f"video/{path.suffix[1:]}"
    pages = functools.partial(Pages, kind, path.read_bytes(), results)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        autoplay = "--autoplay-policy=no-user-gesture-required"
        words = [BROWSER, *ALONE.split(), autoplay, f"--user-data-dir={profile}"]
        # With this option, a headless browser stays open after the page has loaded.
        words += ["--remote-debugging-port=0", address]
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as browser:
            try:
                return results.get(timeout=60)
            finally:
                browser.terminate()
                server.shutdown()


@pytest.mark.parametrize("suffix", animation.VIDEOS)
def test_a_browser_plays_the_video(tmp_path, suffix):
    path = tmp_path / f"watch{suffix}"
    shot = f"--random Grid-Empty-5x5-v0 --frames 8 --fps 16 --tile-size 16 --gif {path}"
    assert watch.main(shot.split()) == 0
    results = played(path, tmp_path / "profile")
    assert "error" not in results, results
    assert results["ready"] >= 2 and results["time"] == pytest.approx(0.5, abs=0.07)
    assert results["frames"] >= 1 and (results["width"], results["height"]) == (80, 80)


def test_a_damaged_video_fails(tmp_path):
    path = tmp_path / "damaged.mp4"
    path.write_bytes(bytes(4096))
    assert "error" in played(path, tmp_path / "profile")
