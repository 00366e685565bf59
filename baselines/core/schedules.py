"""Progress of a run, on which scheduled settings (learning rate, epsilon and others) depend.

Progress is 0 at the start and 1 at the last update, and never falls. If a run is resumed with other
`total_steps`, progress continues from its present value and grows linearly to 1 at the new end. If
the run had already reached its end, progress stays 1, and every schedule keeps its last value; only
the learning rate may restart.
"""

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float32

from .bounds import NonNegativeInt


class Stage(NamedTuple):
    """Period of a run during which the planned last update stayed the same."""

    begin: int  # first update of this period
    end: int  # last update of the run, as it was planned during this period
    share: Fraction  # progress of the run (0 to 1) at the first update of this period

    def progress(self, update: Any) -> Any:
        """Return the progress (0 to 1) of the run after its first `update` updates."""
        return self.share + (1 - self.share) * Fraction(update - self.begin, max(self.length, 1))

    @property
    def length(self) -> int:
        """Number of updates from the first update of this period to the planned end of the run."""
        return self.end - self.begin


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """Base class of learners' settings: records how a run's planned end changed, for schedules.

    The fields of this class have no command-line flags.
    """

    # A pair (updates made, updates planned) for each time that the run was resumed with other
    # `total_steps`. Both numbers are those just before the run was resumed: how many updates had
    # been made, and how many the whole run was planned to have.
    plans: tuple[tuple[int, int], ...] = ()
    # update at which the learning-rate schedule started or last restarted
    rate_since: NonNegativeInt = 0

    restarts: ClassVar[bool] = True  # whether a resumed run may restart its learning rate

    @property
    def updates(self) -> int:
        """Number of updates of the whole run."""
        raise NotImplementedError

    def progress(self, update: Any, since: int = 0) -> Float32[Array, "*updates"]:
        """Return the progress (0 to 1) of the run after `update` updates.

        `since` is the update at which progress is 0: the start of the run or, for the learning
        rate, its last restart. `update` may be fractional or a traced array.
        """
        first, *later = self._stages(since)
        share = (update - first.begin) / max(first.length, 1)
        for stage in later:
            grown = (update - stage.begin) / max(stage.length, 1)
            grown = float(stage.share) + float(1 - stage.share) * grown
            share = jnp.where(update >= stage.begin, grown, share)
        return jnp.clip(share, 0.0, 1.0)

    def progress_at(self, update: int, since: int = 0) -> float:
        """Return `progress(update, since)` for a Python int, computed with exact fractions."""
        first, *later = self._stages(since)
        stage = next((stage for stage in reversed(later) if update >= stage.begin), first)
        return min(max(float(stage.progress(update)), 0.0), 1.0)

    def update_at(self, share: float) -> float:
        """Return the update, possibly fractional, at which the run's progress is `share`."""
        stages = self._stages()
        after = [stage.share for stage in stages[1:]] + [Fraction(2)]
        stage = next(s for s, next_share in zip(stages, after, strict=True) if share <= next_share)
        rest = float(1 - stage.share) or 1.0
        return stage.begin + (share - float(stage.share)) / rest * stage.length

    def check_plans(self) -> None:
        """Raise `ValueError` if the pairs in `plans` contradict each other.

        The updates at which the run was resumed must increase, and none may be later than the last
        update of the run as it was planned before.
        """
        updates = [at for at, _ in self.plans]
        if updates != sorted({*updates}) or any(not 0 < at <= end for at, end in self.plans):
            raise ValueError(f"plans={self.plans} must be pairs (update, last update), in order")

    def _stages(self, since: int = 0) -> list[Stage]:
        """Return the periods of the run after the update `since`, at which progress is 0.

        A new period begins where the run was resumed with other `total_steps`.
        """
        begins = [0, *(at for at, _ in self.plans)]
        ends = [*(end for _, end in self.plans), self.updates]
        last, stages, share = len(self.plans), list[Stage](), Fraction(0)
        for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if i < last and begins[i + 1] <= since:
                continue
            stages.append(Stage(max(begin, since), end, share))
            share = stages[-1].progress(begins[i + 1]) if i < last else share
        return stages


S = TypeVar("S", bound=Scheduled)


def resumed(settings: S, saved: S, update: int, restart: bool) -> S:
    """Return the settings with which a run continues after its update `update`.

    The result is the requested `settings` with new values of `plans` and `rate_since`, so that
    schedules continue from their present values. `saved` are the settings stored with the run.
    `restart` is whether the learning-rate schedule restarts.
    """
    if not update:  # the run was saved before its first update, so there is no progress to keep
        return dataclasses.replace(settings, plans=(), rate_since=0)
    since = update if restart else saved.rate_since
    if settings.updates == saved.updates:
        return dataclasses.replace(settings, plans=saved.plans, rate_since=since)
    before = next((end for at, end in saved.plans if at >= update), saved.updates)
    plans = tuple(plan for plan in saved.plans if plan[0] < update)
    if before != settings.updates:
        plans += ((update, max(before, update)),)
    return dataclasses.replace(settings, plans=plans, rate_since=since)


# Names of the settings that have no command-line flag.
UNSHOWN = tuple(field.name for field in dataclasses.fields(Scheduled))
