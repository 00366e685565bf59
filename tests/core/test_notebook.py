"""Tests of an environment's summary in notebooks: it is short and quick, and never raises."""

import base64
import io
import re
import threading

import numpy as np
import pytest
from PIL import Image

import jaxenvs
from jaxenvs.core import notebook
from jaxenvs.core.env import Env, Params

GRID = "Grid-DoorKey-5x5-v0"
HOSTILE = '<script>alert("1")</script>'


def pictures(page: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    return [Image.open(io.BytesIO(base64.b64decode(content))) for content in found]


def test_it_shows_a_level_the_spaces_and_the_params(monkeypatch):
    # Let the summary wait long for the picture, because the machine may be busy.
    monkeypatch.setattr(notebook, "PATIENCE", 60)
    env = jaxenvs.make(GRID)
    page = env._repr_html_()
    (picture,) = pictures(page)
    assert max(picture.size) <= notebook.SIDE and len(page) < 8_000
    assert len(np.unique(np.asarray(picture))) > 4
    for text in ("DoorKey(", "Discrete(7)", "uint8", "max_steps_in_episode", "250"):
        assert text in page
    wrapped = jaxenvs.wrappers.EpisodeStatistics(env=env)
    assert pictures(wrapped._repr_html_())[0].tobytes() == picture.tobytes()


class Broken(Env):
    """Environment whose action names contain markup, and whose other members raise."""

    label: str = HOSTILE
    action_names = (HOSTILE,) * 100


def test_an_authors_mistakes_leave_the_rest_and_markup_stays_text():
    page = Broken()._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page and len(page) < 3_000
    assert not pictures(page)


class Slow(Env):
    """Environment for a test that replaces its drawing by a function that blocks."""

    @property
    def default_params(self):
        """Return params whose time limit is an array of shape (3, 2)."""
        return Params(max_steps_in_episode=np.zeros((3, 2), np.int32))


def test_it_does_not_wait_for_a_compiler(monkeypatch):
    may_go_on = threading.Event()

    def draw(env):
        may_go_on.wait(60)
        return b"drawn"

    monkeypatch.setattr(notebook, "_level", draw)
    monkeypatch.setattr(notebook, "PATIENCE", 0.01)
    early = Slow()._repr_html_()
    assert notebook.WAITING in early and "int32[3, 2]" in early
    may_go_on.set()
    monkeypatch.setattr(notebook, "PATIENCE", 60)
    assert base64.b64encode(b"drawn").decode() in Slow()._repr_html_()
    notebook._drawn.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("id", jaxenvs.registry.list())
def test_every_id_shows_itself(id, monkeypatch):
    monkeypatch.setattr(notebook, "PATIENCE", 300)
    page = jaxenvs.make(id)._repr_html_()
    assert len(pictures(page)) == 1 and len(page) < 60_000
