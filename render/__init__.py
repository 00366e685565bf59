"""Pictures, films and replays of states, and the players: a window, `play`, `watch` and `solve`.

`jaxenvs.render(env, state)` draws a state: this package can be called, see `pictures.Renderer`.
"""

import sys

from .pictures import Animation, Renderer, animate

__all__ = ["Animation", "animate"]

# A package may be called if its class says how; Python lets a module change its class.
sys.modules[__name__].__class__ = Renderer
