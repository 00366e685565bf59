"""`jaxenvs.show`: play an environment, or watch a trained policy, in a notebook."""

import importlib
import os
from typing import TYPE_CHECKING, Any

from jaxenvs.core import extras, registry
from jaxenvs.core.env import Env

if TYPE_CHECKING:
    from .viewer import Viewer
    from .web.widget import PlayerWidget

MAX_BOARDS = 64  # maximum number of environments side by side
LEAST_HEIGHT = 160  # minimum height of the widget, in CSS pixels
# Module of the widget; it is imported only when its packages are known to be installed.
WIDGET = "jaxenvs.render.web.widget"


def show(
    env: Env | str | None = None,
    run: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    boards: int = 1,
    speed: float = 8,
    height: int = 480,
    **fields: Any,
) -> "PlayerWidget":
    """Show an environment in a notebook: a person plays by keys, mouse or touch.

    env: an environment, or an id; `fields` are the fields of the id's environment, as in `make`.
    run: folder of a trained run whose policy plays, instead of `env`; `fields` replace fields of
        the run's environment.
    seed: random seed of levels and outcomes.
    boards: number of environments side by side; if there are two or more, a random policy plays,
        unless `run` is given.
    speed: steps per second of automatic play.
    height: height in CSS pixels; the notebook's output area sets the width.

    Returns the widget. Its `close()` ends the session, and `session.now` is the displayed time
    step. Raises `MissingExtraError` if a package is missing, and `ValueError` for wrong arguments.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    extras.require(["anywidget"], "widget")
    extras.require(["pygame"], "play")
    if (env is None) == (run is None):
        raise ValueError("give an environment, or the folder of a run: show(env) or show(run=DIR)")
    if not 1 <= boards <= MAX_BOARDS:
        raise ValueError(f"boards={boards}: give 1 to {MAX_BOARDS}")
    if not 0 < speed <= 60:
        raise ValueError(f"speed={speed}: give steps per second, above 0 and up to 60")
    if height < LEAST_HEIGHT:
        raise ValueError(f"height={height}: give at least {LEAST_HEIGHT} pixels")
    given = {"boards": boards, "seed": seed, "speed": speed}
    viewer = _watched(run, fields, given) if env is None else _played(env, fields, given)
    return importlib.import_module(WIDGET).PlayerWidget(viewer, height)


def _played(env: Env | str, fields: dict[str, Any], given: dict[str, Any]) -> "Viewer":
    """Return the viewer of an environment; `given` are keyword arguments of `Session`."""
    from .controls import Controller, playable
    from .pilots import RANDOM
    from .session import Session
    from .viewer import Viewer

    title = env if isinstance(env, str) else env.name
    if isinstance(env, str):
        env = registry.make(env, **fields)
    elif fields:
        raise ValueError(f"fields such as {next(iter(fields))} need an id: show(ID, FIELD=VALUE)")
    if given["boards"] > 1:
        return Viewer(Controller(Session(env, RANDOM, **given), title, "watch"))
    playable(env)
    return Viewer(Controller(Session(env, **given), title, "play"))


def _watched(run: Any, fields: dict[str, Any], given: dict[str, Any]) -> "Viewer":
    """Return the viewer of a trained policy; `given` are keyword arguments of `Session`."""
    from jaxenvs.baselines.storage.runs import load_policy

    from .controls import Controller
    from .pilots import of_policy
    from .session import Session
    from .viewer import Viewer

    policy = load_policy(run, fields=fields)
    session = Session(policy.env, of_policy(policy), **given)
    return Viewer(Controller(session, policy.env_id, "watch"))
