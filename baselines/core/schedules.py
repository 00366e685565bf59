"""Schedules of settings that change over a run: functions of the run's progress.

Progress is 0 at the start and 1 at the last update, and never falls. A run resumed with other
`total_steps` keeps its progress, which then grows linearly to 1 at the new end. If the run had
finished, its progress stays 1, and every schedule keeps its last value; only the learning rate may
restart.
"""

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float32


class Stage(NamedTuple):
    """Period of a run in which its planned end did not change."""

    begin: int  # first update of the stage
    end: int  # last update of the run, as planned during the stage
    share: Fraction  # progress at the first update

    def progress(self, update: Any) -> Any:
        """Return the progress after this many updates of the run."""
        return self.share + (1 - self.share) * Fraction(update - self.begin, max(self.length, 1))

    @property
    def length(self) -> int:
        """Number of updates from the stage's first update to the planned end."""
        return self.end - self.begin


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """Settings that have no flag; they record changes to a run's planned end."""

    # Pairs: update at which a run was resumed with other `total_steps`, last update planned before.
    plans: tuple[tuple[int, int], ...] = ()
    rate_since: int = 0  # update at which the learning-rate schedule last started

    restarts: ClassVar[bool] = True  # whether a resumed run may restart its learning rate

    @property
    def updates(self) -> int:
        """Number of updates of the whole run."""
        raise NotImplementedError

    def progress(self, update: Any, since: int = 0) -> Float32[Array, "*updates"]:
        """Return the progress after `update` updates, a traced array that may be fractional.

        Progress is 0 at the update `since`.
        """
        first, *later = self._stages(since)
        share = (update - first.begin) / max(first.length, 1)
        for stage in later:
            grown = (update - stage.begin) / max(stage.length, 1)
            grown = float(stage.share) + float(1 - stage.share) * grown
            share = jnp.where(update >= stage.begin, grown, share)
        return jnp.clip(share, 0.0, 1.0)

    def progress_at(self, update: int, since: int = 0) -> float:
        """Return the progress after `update` updates, in exact arithmetic (not traced)."""
        first, *later = self._stages(since)
        stage = next((stage for stage in reversed(later) if update >= stage.begin), first)
        return min(max(float(stage.progress(update)), 0.0), 1.0)

    def update_at(self, share: float) -> float:
        """Return the update, possibly fractional, at which the progress is `share`."""
        stages = self._stages()
        after = [stage.share for stage in stages[1:]] + [Fraction(2)]
        stage = next(s for s, next_share in zip(stages, after, strict=True) if share <= next_share)
        rest = float(1 - stage.share) or 1.0
        return stage.begin + (share - float(stage.share)) / rest * stage.length

    def check_plans(self) -> None:
        """Raise `ValueError` for inconsistent plans."""
        updates = [at for at, _ in self.plans]
        if updates != sorted({*updates}) or any(not 0 < at <= end for at, end in self.plans):
            raise ValueError(f"plans={self.plans} must be pairs (update, last update), in order")

    def _stages(self, since: int = 0) -> list[Stage]:
        """Return the run's stages from the update `since`, at which progress is 0."""
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
    """Return settings with the `plans` of a run that is resumed after `update`.

    `saved` are the run's settings before; `restart` restarts the learning rate.
    """
    if not update:  # the run has made no progress
        return dataclasses.replace(settings, plans=(), rate_since=0)
    since = update if restart else saved.rate_since
    if settings.updates == saved.updates:
        return dataclasses.replace(settings, plans=saved.plans, rate_since=since)
    before = next((end for at, end in saved.plans if at >= update), saved.updates)
    plans = tuple(plan for plan in saved.plans if plan[0] < update)
    if before != settings.updates:
        plans += ((update, max(before, update)),)
    return dataclasses.replace(settings, plans=plans, rate_since=since)


UNSHOWN = tuple(field.name for field in dataclasses.fields(Scheduled))  # settings without a flag
