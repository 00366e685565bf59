"""Part of `Env` for batches and wrappers: resets."""

from typing import Any, ClassVar

from .part import Part

BATCH = "envs"  # name of the `vmap` axis over which `make_vec` maps steps
ROWS_PER_LANE = 64  # default `rows_per_lane`: a little less than most families' episode length


class BatchPart(Part):
    """Reset source of a batch, and the statistics that outlive an episode."""

    reset_source: ClassVar[str] = "exact"  # default source of new levels, see `VectorEnv`
    # On a CPU, `exact` generates a batch's levels num_envs / rows_per_lane at a time.
    rows_per_lane: ClassVar[int] = ROWS_PER_LANE
    levels_at_once: ClassVar[int] = 0  # maximum generated together, for large levels; 0: all
    carries_over: ClassVar[bool] = False  # whether `carry_over` changes states
    resets_itself: ClassVar[bool] = False  # whether `step` begins the next episode

    def carry_over(self, ended: Any, begun: Any, params: Any = None) -> Any:
        """Return the state `begun` of a new episode with the statistics of `ended`, the last state.

        By default nothing outlives an episode. An environment that overrides this, such as
        `wrappers.LogWrapper`, sets `carries_over`; batches and adapters then call it at each
        restart.
        """
        return begun
