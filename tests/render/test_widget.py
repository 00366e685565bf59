"""Tests of `jaxenvs.show`: a fake Jupyter comm records the messages, without a notebook."""

import contextlib
import json
import queue
import re
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import comm
import jax.numpy as jnp
import numpy as np
import pytest
from comm.base_comm import BaseComm
from paging import ENV, ID, Page, drawn

import jaxenvs
from jaxenvs.core import extras
from jaxenvs.core.extras import MissingExtraError
from jaxenvs.core.typed import installation
from jaxenvs.render.controls import Controller
from jaxenvs.render.session import Session
from jaxenvs.render.web import clients, widget

pytestmark = pytest.mark.usefixtures("no_display")
PATIENCE = 60.0  # maximum time to wait for a message, in seconds
SIZE = (320, 240)


class Recorded(BaseComm):
    """A Jupyter comm (kernel-to-notebook channel) whose messages go into the queue `sent`."""

    def publish_msg(self, msg_type: str, data=None, metadata=None, buffers=None, **keys) -> None:
        if (data or {}).get("method") == "custom":
            sent.put((data["content"], buffers))


sent: queue.Queue = queue.Queue()


class View:
    """Stand-in for a view (an output) of the widget in a notebook."""

    def __init__(self, made: widget.PlayerWidget, name: str, size=SIZE) -> None:
        self.widget, self.name = made, name
        self.page = Page(None)  # type: ignore[arg-type]
        self.say("size", *size, 1.0)

    def say(self, *message: Any) -> None:
        content = {"view": self.name, "message": json.dumps(message)}
        data = {"method": "custom", "content": content}
        assert self.widget.comm is not None
        self.widget.comm.handle_msg({"content": {"data": data}, "buffers": []})

    def until(self, text: str, fact: str = "moment") -> np.ndarray:
        """Receive updates until `page.facts[fact]` contains the text; return the picture."""
        while text not in self.page.facts.get(fact, ""):
            self.take()
        return self.page.picture

    def take(self) -> None:
        """Receive one message, and draw it if it is an update of this view."""
        content, buffers = sent.get(timeout=PATIENCE)
        if content.get("view") == self.name:
            self.page.apply(buffers[0])
            self.say("shown", self.page.facts["number"])


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    while not sent.empty():
        sent.get()
    monkeypatch.setattr(comm, "create_comm", lambda *given, **named: Recorded(*given, **named))


@contextlib.contextmanager
def shown(*given: Any, **named: Any) -> Iterator[widget.PlayerWidget]:
    made = jaxenvs.show(*given, **named)
    try:
        yield made
    finally:
        made.close()
        assert not made._thread.is_alive()


def test_keys_act_and_the_notebook_reads_the_session(recorded):
    with shown(ID) as made:
        view = View(made, "first")
        view.until("moment 0 of 0")
        view.say("key", "right")
        picture = view.until("moment 1 of 1")
        assert made.session.now.action.tolist() == [1]
        same = Controller(Session(ENV), ID, "play")
        same.session.act(1)
        np.testing.assert_array_equal(picture, drawn(same, SIZE))
        view.say("key", "escape")
        view.until(widget.STAYS, "notice")


def test_two_outputs_show_one_session_and_a_removed_one_is_forgotten(recorded):
    with shown(ENV) as made:
        View(made, "first").until("moment 0")
        second = View(made, "second", (400, 300))
        second.until("moment 0")
        second.say("key", "left")
        second.until("moment 1")
        assert len(made._show.clients) == 2
        second.say("leave")
        View(made, "third").until("moment 1")
        assert set(made._views) == {"first", "third"}


def test_malformed_messages_harm_nothing(recorded):
    with shown(ID) as made:
        assert made.comm is not None
        for content in ({}, {"view": 1, "message": "[]"}, {"view": "x", "message": 3}):
            data = {"method": "custom", "content": content}
            made.comm.handle_msg({"content": {"data": data}, "buffers": []})
        view = View(made, "x")
        view.say("no", 1)
        view.until("moment 0")


def test_several_boards_play_at_random(recorded):
    with shown(ID, boards=3, speed=30) as made:
        view = View(made, "first")
        while made.session.cursor < 3:
            view.take()
        assert made.session.boards == 3 and not made.session.human


def test_time_stops_if_no_picture_is_answered(recorded, monkeypatch):
    monkeypatch.setattr(clients, "GONE_AFTER", 0.3)
    with shown(ID, boards=2, speed=30) as made:
        view = View(made, "first")
        while made.session.cursor < 1:
            view.take()
        for _ in range(20):
            before = made.session.cursor
            time.sleep(0.7)
            if made.session.cursor == before:
                break
        else:
            pytest.fail("time goes on")
        while made.session.cursor == before:
            view.take()


def test_the_policy_of_a_run_plays(recorded, monkeypatch):
    def think(memory, obs, mask):
        return memory, jnp.arange(7.0), jnp.float32(0.25)

    def load_policy(run, fields):
        assert run == "runs/demo"
        env = jaxenvs.make(ID, **fields)
        return types.SimpleNamespace(env_id=ID, env=env, think=think, begin=tuple)

    module = types.ModuleType("jaxenvs.baselines.storage.runs")
    monkeypatch.setattr(module, "load_policy", load_policy, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with shown(run="runs/demo", boards=2, size=6) as made:
        view = View(made, "first")
        while made.session.cursor < 1:
            view.take()
        assert made.session.pilot.name == "policy, sampled" and made.session.env.size == 6


def test_an_error_of_the_session_reaches_the_notebook(recorded, monkeypatch):
    monkeypatch.setattr(widget.threading, "excepthook", lambda given: None)
    with shown(ID) as made:
        monkeypatch.setattr(made._show, "_updates", lambda *given: 1 / 0)
        View(made, "first")
        content = {}
        while "ended" not in content:
            content, _ = sent.get(timeout=PATIENCE)
        assert "ZeroDivisionError" in content["ended"]


@pytest.mark.parametrize(
    ("given", "named", "says"),
    [
        ((), {}, "give an environment, or the folder of a run"),
        ((ID,), {"run": "runs/demo"}, "give an environment, or the folder of a run"),
        ((ID,), {"boards": 65}, "give 1 to 64"),
        ((ID,), {"speed": 0}, "give steps per second"),
        ((ID,), {"height": 10}, "give at least 160 pixels"),
        ((ENV,), {"size": 5}, "fields such as size need an id"),
        (("Grid-Emty-5x5-v0",), {}, "Grid-Empty-5x5-v0"),
    ],
)
def test_wrong_arguments_are_explained(given, named, says):
    with pytest.raises((ValueError, LookupError), match=re.escape(says)):
        jaxenvs.show(*given, **named)


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=re.escape(installation("widget"))):
        jaxenvs.show(ID)


def test_the_module_of_the_widget_contains_the_viewer_of_the_page():
    text = widget._module()
    assert "class Viewer" in text and "const STYLE = " in text and "export default" in text
