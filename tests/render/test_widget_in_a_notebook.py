"""Test of `jaxenvs.show` in JupyterLab, with a real kernel, in Chromium."""

import asyncio
import base64
import contextlib
import importlib.util
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browsing import BROWSER, Page, browser
from paging import ENV, ID, drawn
from PIL import Image

from jaxenvs.render.controls import Controller
from jaxenvs.render.session import Session

HAS_LAB = importlib.util.find_spec("jupyterlab") is not None
pytestmark = [
    pytest.mark.full,
    pytest.mark.usefixtures("no_display"),
    pytest.mark.skipif(
        BROWSER is None or not HAS_LAB,
        reason="THE TEST OF THE WIDGET DID NOT RUN: it needs Chromium and `pip install jupyterlab`",
    ),
]
TOKEN = "only-for-this-test"
CELLS = (
    f"import jaxenvs\nwidget = jaxenvs.show({ID!r}, height=400)\nwidget",
    "print('moment', widget.session.cursor)",
    "import time; time.sleep(4)",
    "widget",
    "get_ipython().kernel.do_shutdown(False)",
)
ROOT = "document.querySelector('.jaxenvs-viewer').shadowRoot.querySelector('.viewer')"
MOMENT = f"{ROOT}.dataset.moment"
CANVAS = f"{ROOT}.querySelector('canvas')"
BOX = f"(b => [b.x, b.y, b.width, b.height])({CANVAS}.getBoundingClientRect())"
IS_IDLE = """fetch('/api/kernels').then(answer => answer.json())
    .then(kernels => kernels.length > 0 && kernels[0].execution_state === 'idle')"""
COUNT = "document.querySelectorAll('.jp-Notebook .jp-Cell').length"
SHIFT = {"modifiers": 8, "windowsVirtualKeyCode": 13, "text": "\r"}


@contextlib.contextmanager
def jupyter(folder: Path) -> Iterator[str]:
    """Run JupyterLab with a notebook of `CELLS`; yield the address of the notebook."""
    blank = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**blank, "source": text, "id": f"cell-{i}"} for i, text in enumerate(CELLS)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "play.ipynb").write_text(json.dumps(book))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = f"-m jupyterlab --no-browser --allow-root --ServerApp.port={port} "
    words += f"--IdentityProvider.token={TOKEN} --ServerApp.root_dir={folder}"
    homes = {"HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"), "JAX_PLATFORMS": "cpu"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        [sys.executable, *words.split()], env=os.environ | homes, cwd=folder, **quiet
    )
    try:
        yield f"http://127.0.0.1:{port}/lab/tree/play.ipynb?token={TOKEN}"
    finally:
        process.terminate()
        process.wait(30)


async def loaded(page: Page, address: str) -> None:
    """Load the notebook; try again until the server has started."""
    for _ in range(60):
        await page.ask("Page.navigate", url=address)
        await asyncio.sleep(1)
        if await page.value("location.protocol === 'http:'"):
            break
    await page.until(f"{COUNT} === {len(CELLS)}")
    while not await page.value(IS_IDLE):
        await asyncio.sleep(0.5)
    await page.until("document.querySelector('[data-status=idle]')")


async def run_cell(page: Page, number: int) -> None:
    """Click into a cell, and run it."""
    cell = f"document.querySelectorAll('.jp-Notebook .jp-Cell')[{number}]"
    await page.value(f"{cell}.scrollIntoView({{block: 'start'}})")
    content = f"{cell}.querySelector('.cm-content')"
    await page.until(content)
    x, y = await page.value(f"(b => [b.x + 9, b.y + 9])({content}.getBoundingClientRect())")
    for kind in ("Pressed", "Released"):
        await page.mouse(kind, x, y, pressed=True)
    await page.key("Enter", **SHIFT)


async def click(page: Page) -> None:
    """Click the picture, which gives it the focus."""
    await page.value(f"{CANVAS}.scrollIntoView({{block: 'center'}})")
    x, y, width, _ = await page.value(BOX)
    for kind in ("Pressed", "Released"):
        await page.mouse(kind, x + width / 2, y + 5, pressed=True)


async def pixels(page: Page) -> np.ndarray:
    found = await page.value(f"{CANVAS}.toDataURL('image/png')")
    with Image.open(io.BytesIO(base64.b64decode(found.split(",")[1]))) as image:
        return np.asarray(image.convert("RGB"))


def played(*actions: int) -> Controller:
    """Return a controller of the notebook's environment in which `actions` have been taken."""
    controller = Controller(Session(ENV), ID, "play")
    for action in actions:
        controller.session.act(action)
    return controller


async def at(page: Page, moment: str) -> None:
    await page.until(f"{MOMENT} === 'moment {moment}' && {ROOT}.querySelector('#busy').hidden")


def output(number: int) -> str:
    cell = f"document.querySelectorAll('.jp-Notebook .jp-Cell')[{number}]"
    return f"{cell}.querySelector('.jp-OutputArea').innerText"


async def play(page: Page, folder: Path) -> None:
    """Run the first cell, and play by keys."""
    await run_cell(page, 0)
    await at(page, "0 of 0")
    await click(page)
    # The widget must keep the keys from JupyterLab, in which D D and X delete cells.
    for key in ("ArrowRight", "ArrowUp", "d", "d", "x"):
        await page.key(key)
    await at(page, "4 of 4")
    shown, box = await pixels(page), await page.value(BOX)
    assert shown.shape[1] == round(box[2]) and 300 < shown.shape[0] < 400
    size = (shown.shape[1], shown.shape[0])
    np.testing.assert_array_equal(shown, drawn(played(1, 2, 1, 1), size))
    assert await page.value(COUNT) == len(CELLS)
    await page.screenshot(folder / "played.png")
    await run_cell(page, 1)
    await page.until(f"{output(1)}.includes('moment 4')")


async def wait(page: Page, folder: Path) -> None:
    """Press a key while the kernel is busy; the key must act once the kernel is free."""
    await run_cell(page, 2)
    await click(page)
    await page.key("ArrowRight")
    await page.until(f"{MOMENT} === 'moment 5 of 5' || !{ROOT}.querySelector('#busy').hidden")
    await page.screenshot(folder / "waiting.png")
    await at(page, "5 of 5")


async def run_again(page: Page, folder: Path) -> None:
    """Show the widget in a second output, run the first cell again, and end the kernel.

    Running the cell again starts a new session. After the end of the kernel, the widget says so.
    """
    await run_cell(page, 3)
    await page.until("document.querySelectorAll('.jaxenvs-viewer').length === 2")
    await run_cell(page, 0)
    await at(page, "0 of 0")
    await run_cell(page, 4)
    await page.until(f"!{ROOT}.querySelector('#gone').hidden")
    assert "Run the cell again" in await page.value(f"{ROOT}.querySelector('#gone').innerText")
    await page.value("document.querySelector('.jp-Dialog .jp-mod-accept')?.click()")
    await page.value(f"{CANVAS}.scrollIntoView()")
    await page.screenshot(folder / "gone.png")


def test_a_person_plays_in_jupyterlab(tmp_path):
    async def test(page: Page, address: str) -> None:
        await loaded(page, address)
        for part in (play, wait, run_again):
            await part(page, tmp_path)

    async def run() -> None:
        with jupyter(tmp_path) as address:
            async with browser(tmp_path / "profile") as opened:
                page = await opened.open("about:blank", 1100, 900)
                try:
                    await asyncio.wait_for(test(page, address), 300)
                except BaseException:
                    await page.screenshot(tmp_path / "failed.png")
                    raise

    asyncio.run(run())
