"""The tree search with which a trained planner (MuZero, AlphaZero) chooses its actions.

The search uses the settings of the planner's training. To sample actions, it works as in training,
but without the added exploration noise (epsilon, Dirichlet noise). To choose greedy actions, it
makes no random draws at all.
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
    """A planner's search. It is static and hashable, so `jit` can close over it."""

    learner: Any  # the planner, a `Learner` whose module has a function `decide`

    @property
    def simulations(self) -> int:
        """Number of simulations with which the search chooses each action."""
        return self.learner.settings.simulations

    @property
    def model(self) -> str:
        """Name of the environment model in which the search simulates steps.

        `LEARNED` is a learned model. Otherwise the search steps the true environment: the name is
        `TRUE` if the agent's observations show the whole state, else `HIDDEN`.
        """
        if self.learner.algorithm.searches == LEARNED:
            return LEARNED
        return TRUE if self.learner.env.env.fully_observed else HIDDEN

    @property
    def needs_state(self) -> bool:
        """True if the search needs the environment's state, which Gymnasium does not expose."""
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
        """Return actions for a batch of observations, legal-action masks and environment states.

        `params` are environment params; None: the environment's defaults. With `greedy`, the search
        makes no random draws.
        """
        given = (obs, mask, state, params)
        return self.learner.algorithm.load().decide(self.learner, weights, key, *given, greedy)


def search_of(learner: Any, simulations: int | None = None) -> Search | None:
    """Return the search with which a learner's policy acts; None if the policy has no search.

    `simulations` is the number of simulations per action: by default the number used in training;
    0: no search. Raises `ValueError` if simulations are requested of a learner without a search.
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
