"""Pictures, animations and replays of environment states, and the viewer.

`jaxenvs.render(env, state)` draws a state: the package itself is callable, see `pictures.Renderer`.
The viewer is the window of the commands `play`, `watch` and `solve`.
"""

import sys

from .pictures import Animation, Renderer, animate

__all__ = ["Animation", "animate"]

# Python allows a module to change its class. `Renderer.__call__` makes this package callable.
sys.modules[__name__].__class__ = Renderer
