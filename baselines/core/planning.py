"""Search by which a planner's policy (MuZero, AlphaZero) acts, with the settings of its training.

Sampled actions come from the search that acts in training, without its extra exploration (epsilon,
Dirichlet noise). Greedy actions come from the same search without any random draws.
"""

import dataclasses
from typing import Any

from jaxtyping import Array, Int32, PyTree

from jaxenvs.core.extras import require
from jaxenvs.core.masking import Mask
from jaxenvs.core.random import Key

LEARNED = "learned model"
TRUE = "true environment"
HIDDEN = "true environment with its hidden state"


@dataclasses.dataclass(frozen=True)
class Search:
    """Search from a batch of observations. Static and hashable, like `Learner`."""

    learner: Any  # `Learner` whose module has `decide`

    @property
    def simulations(self) -> int:
        """Number of simulations for each action."""
        return self.learner.settings.simulations

    @property
    def model(self) -> str:
        """Description of what the search steps: `LEARNED`, `TRUE` or `HIDDEN`."""
        if self.learner.algorithm.searches == LEARNED:
            return LEARNED
        return TRUE if self.learner.env.env.fully_observed else HIDDEN

    @property
    def needs_state(self) -> bool:
        """Whether it needs the environment's state, which environments of other packages hide."""
        return self.model != LEARNED

    def plan(
        self,
        weights: PyTree[Array],
        key: Key,
        obs: PyTree[Array],
        mask: Mask,
        state: Any,
        params: Any,
        greedy: bool,
    ) -> Int32[Array, " batch"]:
        """Return actions for a batch; `params` are environment params, None for the defaults."""
        given = (obs, mask, state, params)
        return self.learner.algorithm.load().decide(self.learner, weights, key, *given, greedy)


def search_of(learner: Any, simulations: int | None = None) -> Search | None:
    """Return the search of a learner's policy; None if it acts without one.

    `simulations` defaults to the number used in training; 0 turns the search off. Raises
    `ValueError` if simulations are requested of a learner without a search.
    """
    algorithm = learner.algorithm
    if not algorithm.searches:
        if simulations:
            raise ValueError(
                f"{algorithm.name} has no search: omit simulations={simulations}, or give 0"
            )
        return None
    if simulations == 0:
        return None
    require(["mctx"], "search")
    if simulations is None:
        return Search(learner)
    settings = dataclasses.replace(learner.settings, simulations=simulations)
    settings.check()
    return Search(dataclasses.replace(learner, settings=settings))
