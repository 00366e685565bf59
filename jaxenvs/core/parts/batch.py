"""`BatchPart`, a base class of `Env`: how batches and wrappers restart episodes."""

from typing import Any, ClassVar

from .part import Part

BATCH = "envs"  # name of the `vmap` axis over the environments of a batch in `make_vec`
# Default of `rows_per_lane`, a number of environments. On a CPU, the reset source `exact` divides
# the batch into groups of this many environments, and generates one level at a time for each group.
# An episode of most families takes slightly more than 64 steps, so about one environment of a group
# is done in each step.
ROWS_PER_LANE = 64


class BatchPart(Part):
    """Members about resets: the source of new levels, and statistics that outlive an episode."""

    # Default reset source of `make_vec`, explained in `VectorEnv`.
    reset_source: ClassVar[str] = "exact"
    # Number of environments that share one level generator on a CPU: the reset source `exact`
    # generates num_envs / rows_per_lane levels at a time.
    rows_per_lane: ClassVar[int] = ROWS_PER_LANE
    # Maximum number of levels that `VectorEnv.reset` and the reset sources `fresh` and `pool`
    # generate in parallel; 0: no limit. A limit saves memory if levels are large.
    levels_at_once: ClassVar[int] = 0
    # Whether `carry_over` copies anything into the next episode.
    carries_over: ClassVar[bool] = False
    resets_itself: ClassVar[bool] = False  # whether `step` begins the next episode when one is done

    def carry_over(self, ended: Any, begun: Any, params: Any = None) -> Any:
        """Return `begun` with the statistics of `ended` that outlive an episode.

        `ended` is the last state of the old episode, `begun` the first state of the new one. By
        default nothing outlives an episode. An environment that overrides this method, such as
        `wrappers.LogWrapper`, must also set `carries_over`, because batches and adapters call the
        method only if `carries_over` is true.
        """
        return begun
