"""The HTML summary of an environment that a notebook shows, made by `shown`.

`shown` never raises an error: if one member of an environment fails, the summary still shows the
other members. `shown` waits only a few seconds for XLA to compile the picture.
"""

import dataclasses
import functools
import html
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from . import drawing, png
from .env import Env

SIDE, LARGEST = 192, 512  # desired and maximum length of the picture's longer side, in pixels
# Seconds to wait for the picture. If drawing takes longer, the summary has no picture. A thread
# then finishes the picture, for the next summary of the same environment.
PATIENCE = 5.0
# Maximum number of characters of a value in the summary's table, and maximum number of its rows.
LETTERS, ROWS = 200, 24
WAITING = "The level is still being compiled: show this again in a few seconds."


def shown(env: Env) -> str:
    """Return HTML with a picture of a level, the spaces, the action names and the params."""
    rows = {
        "actions": lambda: env.action_space,
        "names": lambda: ", ".join(env.action_names),
        "observation": lambda: env.observation_space,
        **{name: functools.partial(_param, env, name) for name in _names(env)},
    }
    cells = ((name, _text(value)) for name, value in [*rows.items()][:ROWS])
    table = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left"><code>{text}</code></td></tr>'
        for name, text in cells
        if text
    )
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start">'
        f"{_picture(env)}<div><b><code>{_text(lambda: env)}</code></b><table>{table}</table></div>"
        "</div>"
    )


def _names(env: Env) -> list[str]:
    try:
        return [field.name for field in dataclasses.fields(env.default_params)]
    except Exception:  # an author's mistake must not hide the rest of the summary
        return []


def _param(env: Env, name: str) -> Any:
    """Return the value of a param; for arrays, text with their dtypes and shapes."""
    value = getattr(env.default_params, name)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
    if all(leaf.ndim == 0 for leaf in leaves):
        return value
    return ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves)


def _text(value: Callable[[], Any]) -> str:
    """Call a function and return its result as HTML text; "" if it raises."""
    try:
        text = str(value())
    except Exception:
        return ""
    return html.escape(text if len(text) <= LETTERS else f"{text[: LETTERS - 3]}...")


def _picture(env: Env) -> str:
    try:
        file = _drawn(env).result(PATIENCE)
    except TimeoutError:
        return f"<i>{WAITING}</i>"
    except Exception:  # raised, for example, if the environment cannot be drawn
        return ""
    return f'<img alt="a level" src="{png.address(file)}">'


@functools.lru_cache(maxsize=32)
def _drawn(env: Env) -> Future[bytes]:
    """Start to draw a level in a separate thread; return the future of a PNG file.

    The result is cached, so each environment is drawn only once.
    """
    pool = ThreadPoolExecutor(1, "picture of a level")
    future = pool.submit(_level, env)
    pool.shutdown(wait=False)
    return future


def _level(env: Env) -> bytes:
    """Draw the level of seed 0 and return a PNG file.

    `env.reset` is compiled to draw it, and the user's first `reset` reuses the compiled program.
    """
    state = env.reset(jax.random.key(0)).state
    paint = drawing.painter(
        env, drawing.fitting_tile_size(drawing.board_shape(env), SIDE, SIDE, 32)
    )
    picture = np.asarray(paint(state, None))
    stride = -(-max(picture.shape) // LARGEST)
    return png.encoded(picture[::stride, ::stride])
