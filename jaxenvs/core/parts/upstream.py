"""Part of `Env` for comparison with the reproduced package, and for `jaxenvs check`."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from .part import Part


class Ending(NamedTuple):
    """A level close to the end of its task, and the actions that lead there."""

    level: PyTree[Array]
    actions: Sequence[ArrayLike]  # actions, of which only the last one terminates the episode


class UpstreamPart(Part):
    """Conversion of states and observations of `package`, and how the task can end."""

    # Import name of the package whose rules are reproduced; "" for none.
    package: ClassVar[str] = ""

    def from_upstream(self, state: Any) -> Any:
        """Turn a state of `package` into one of this environment's.

        With this or `upstream_obs`, policies trained in jaxenvs can play in `package` (`jaxenvs
        eval --in`).
        """
        raise NotImplementedError(f"{self.name} takes no states of another package")

    def upstream_obs(self, shown: Any) -> PyTree[Any]:
        """Turn an observation of `package` into one of this environment's; not traceable.

        By default the values are cast to the dtype of `observation_space`.
        """
        return jax.tree.map(lambda one: np.asarray(one, self.observation_space.dtype), shown)

    def ending(self, level: PyTree[Array]) -> Ending | None:
        """Change a drawn level to one near the end of its task; return it with the last actions.

        `jaxenvs check` plays these actions. None, the default, if the task has no end. Not
        traceable.
        """
        return None
