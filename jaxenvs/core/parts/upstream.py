"""`UpstreamPart`, a base class of `Env`: members for comparison with the reproduced package.

The class also has `ending`, which gives the command `jaxenvs check` actions that end an episode.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from .part import Part


class Ending(NamedTuple):
    """A level from which a few known actions end the task, for `jaxenvs check`."""

    level: PyTree[Array]
    # Actions from the level's start; only the last one terminates the episode.
    actions: Sequence[ArrayLike]


class UpstreamPart(Part):
    """Members that convert states and observations of the original environment.

    The original environment belongs to another package, such as MiniGrid; this environment
    reproduces its rules. The class also has `ending`, for the command `jaxenvs check`.
    """

    # Import name of the package whose rules this environment reproduces; "" if there is none.
    package: ClassVar[str] = ""

    def from_upstream(self, state: Any) -> Any:
        """Turn a state of the original environment in `package` into a state of this environment.

        With this method or `upstream_obs`, policies trained in jaxenvs can play in that package
        (`jaxenvs eval --in`).
        """
        raise NotImplementedError(f"{self.name} takes no states of another package")

    def upstream_obs(self, shown: Any) -> PyTree[Any]:
        """Turn an observation of `package`'s environment into an observation of this environment.

        By default the values are cast to the dtype of `observation_space`. Not traceable by JAX.
        """
        return jax.tree.map(lambda one: np.asarray(one, self.observation_space.dtype), shown)

    def ending(self, level: PyTree[Array]) -> Ending | None:
        """Return a level close to the end of its task, and the actions that end it.

        The level is made from `level`, a drawn level. `jaxenvs check` plays the
        actions. The default is None, for tasks without an end. Not traceable by JAX.
        """
        return None
