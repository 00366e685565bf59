"""Reinforcement-learning environments in JAX: environment, agent and search in one program.

env = jaxenvs.make("Grid-v0")
obs, state = env.reset(key)
obs, state, reward, terminated, truncated, info = env.step(key, state, action)
picture = jaxenvs.render(env, state)
jaxenvs.show(env)  # in a notebook
"""

import importlib
from typing import TYPE_CHECKING, Any

from .core import registry, spaces, wrappers
from .core.env import Env, Params, Reset, State, Step, Transition
from .core.registry import UnknownIdError, make, register, spec
from .core.struct import struct
from .core.vector import VectorEnv, VectorState, make_vec

if TYPE_CHECKING:  # names for type checkers; `__getattr__` imports each name at its first use
    from . import (  # noqa: F401
        adapters,
        babyai,
        classic,
        craft,
        demos,
        grid,
        levels,
        puzzles,
        puzzlescript,
        search,
        text,
        xland,
    )
    from .render.notebook import show
    from .render.pictures import Renderer, animate

    render: Renderer

__version__ = "0.2.0"
__all__ = [
    "Env",
    "Params",
    "Reset",
    "State",
    "Step",
    "Transition",
    "UnknownIdError",
    "VectorEnv",
    "VectorState",
    "adapters",
    "animate",
    "demos",
    "levels",
    "make",
    "make_vec",
    "register",
    "registry",
    "render",
    "search",
    "show",
    "spaces",
    "spec",
    "struct",
    "text",
    "wrappers",
]

# Map from the first word of ids and aliases to the module that registers them. The first use of an
# id or alias with this word imports the module; so does the first use of the module as an
# attribute.
registry.expect(
    {
        "Acrobot": "jaxenvs.classic",
        "BabyAI": "jaxenvs.babyai",
        "CartPole": "jaxenvs.classic",
        "Classic": "jaxenvs.classic",
        "Craft": "jaxenvs.craft",
        "Craftax": "jaxenvs.craft",
        "Grid": "jaxenvs.grid",
        "MiniGrid": "jaxenvs.grid",
        "MountainCar": "jaxenvs.classic",
        "MountainCarContinuous": "jaxenvs.classic",
        "Pendulum": "jaxenvs.classic",
        "Puzzle": "jaxenvs.puzzles",
        "PuzzleScript": "jaxenvs.puzzlescript",
        "XLand": "jaxenvs.xland",
    }
)


def _in_a_notebook(env: Env) -> str:
    """Return the HTML that notebooks show for an environment; the drawing code is imported here."""
    return importlib.import_module(f"{__name__}.core.notebook").shown(env)


# The method is set here and not in `core/env.py`, because the drawing code imports that file.
Env._repr_html_ = _in_a_notebook  # type: ignore[attr-defined]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_families()})


def _families() -> set[str]:
    """Return the names of the subpackages that register ids, such as `grid`."""
    return {home.removeprefix(f"{__name__}.") for home in registry.homes()}


if not TYPE_CHECKING:  # if type checkers saw `__getattr__`, they would accept any attribute name

    def __getattr__(name: str) -> Any:
        """Import a subpackage, `animate` or `show` when it is first used as an attribute."""
        if name == "animate":
            return importlib.import_module(f"{__name__}.render").animate
        if name == "show":
            return importlib.import_module(f"{__name__}.render.notebook").show
        if name in __all__ or name in _families():
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
