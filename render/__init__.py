"""Pictures, animations and replays of states; the window and the commands `play`, `watch`, `solve`.

`jaxenvs.render(env, state)` draws a state: the package is callable, see `pictures.Renderer`.
"""

import sys

from .pictures import Animation, Renderer, animate

__all__ = ["Animation", "animate"]

# Python lets a module change its class; `Renderer.__call__` makes the package callable.
sys.modules[__name__].__class__ = Renderer
