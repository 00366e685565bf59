"""Open several simulated pages of `jaxenvs watch --web`; measure the server's memory and traffic.

`python tests/proofs/web_load.py --minutes 10 --pages 8` watches random play at 60 steps per second.
Page 0 confirms only one picture per second; page 1 reconnects every 5 seconds.
The command prints a line per minute, and fails if the server's memory grows by more than
`MOST_GROWTH` after the first minute.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "render"))

from paging import Page  # noqa: E402

# (width, height) of the pages in pixels; page i has the size SIZES[i % len(SIZES)].
SIZES = ((1280, 740), (880, 620), (390, 620))
MOST_GROWTH = 96 * 2**20  # allowed memory growth in bytes; the session's history takes up to 64 MiB
# SLOW: seconds that page 0 waits before each confirmation. BACK: seconds until page 1 reconnects.
SLOW, BACK = 1.0, 5.0


def main() -> int:
    """Run the load test; return 1 if the memory grows by more than `MOST_GROWTH`, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pages", type=int, default=8)
    parser.add_argument("--id", default="Grid-DoorKey-8x8-v0")
    parser.add_argument("--envs", default="4")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        words = ["watch", options.id, "--web", "--fps", "60", "--envs", options.envs]
        command = [sys.executable, "-m", "jaxenvs", *words]
        given = {**os.environ, "JAXENVS_CACHE": home, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().split()[1]
                return asyncio.run(_load(address, server.pid, options.minutes, options.pages))
            finally:
                server.terminate()


async def _load(address: str, process: int, minutes: float, pages: int) -> int:
    # Entry i: [number of pictures, number of bytes] that page i has received.
    counts = [[0, 0] for _ in range(pages)]
    tasks = [asyncio.ensure_future(_page(address, i, counts[i])) for i in range(pages)]
    while not all(pictures for pictures, _ in counts):  # wait while the session compiles
        await asyncio.sleep(0.1)
        for task in tasks:
            if task.done():
                task.result()
    end, memory, processor = time.monotonic() + 60 * minutes, [], _processor(process)
    while time.monotonic() < end:
        before, began = [[*count] for count in counts], time.monotonic()
        await asyncio.sleep(min(60.0, max(1.0, end - began)))
        seconds = time.monotonic() - began
        memory.append(_memory(process))
        used, processor = (_processor(process) - processor) / seconds, _processor(process)
        rates = [
            ((now[0] - then[0]) / seconds, (now[1] - then[1]) / seconds)
            for now, then in zip(counts, before, strict=True)
        ]
        pictures = " ".join(f"{rate[0]:.1f}" for rate in rates)
        kilobytes = " ".join(f"{rate[1] / 1000:.0f}" for rate in rates)
        print(f"RSS {memory[-1] / 2**20:.1f} MiB, {used:.2f} cores; pictures/s {pictures}; "
              f"kB/s {kilobytes}", flush=True)  # fmt: skip
        failed = [task for task in tasks if task.done()]
        for task in failed:
            task.result()
    for task in tasks:
        task.cancel()
    growth = memory[-1] - memory[0]
    print(f"growth after the first line: {growth / 2**20:.1f} MiB")
    return int(growth > MOST_GROWTH)


async def _page(address: str, index: int, counts: list[int]) -> None:
    """Act as page number `index`: receive pictures and confirm them, until the task is cancelled.

    Page 0 confirms slowly; page 1 reconnects regularly. `counts`, which is updated in place, is
    [number of pictures received, number of bytes received].
    """
    origin, there = address.split("/?")[0], address.replace("/?", "/session?")
    async with aiohttp.ClientSession() as http:
        while True:
            socket = await http.ws_connect(there, headers={"Origin": origin}, max_msg_size=0)
            page = Page(socket)
            await page.say("size", *SIZES[index % len(SIZES)], 1)
            until = time.monotonic() + (BACK if index == 1 else 1e9)
            while time.monotonic() < until:
                message = await socket.receive(60)
                assert message.type == aiohttp.WSMsgType.BINARY, message
                length = int.from_bytes(message.data[:4], "little")
                head = json.loads(message.data[4 : 4 + length])
                counts[0] += "blocks" in head
                counts[1] += len(message.data)
                await asyncio.sleep(SLOW if index == 0 else 0)
                await page.say("shown", head["number"])
            await socket.close()


def _memory(process: int) -> int:
    """Return the resident memory of a process, in bytes (Linux)."""
    fields = Path(f"/proc/{process}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def _processor(process: int) -> float:
    """Return the processor time that a process has used, in seconds (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
