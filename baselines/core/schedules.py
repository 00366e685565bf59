"""Schedules: whatever changes over a run is a function of its progress, which never falls.

Progress is 0 at the start and 1 at the last update. Where a run is resumed with another total, the
progress that it has made stays, and the rest grows evenly to 1 at the new end. A run that has
finished keeps a progress of 1, and every schedule its last value. The learning rate may begin anew.
"""

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float32


class Stage(NamedTuple):
    """Updates during which the run had the same end."""

    begin: int  # update
    end: int  # last update that was planned during the stage
    share: Fraction  # progress at its beginning

    def progress(self, update: Any) -> Any:
        """Progress after this many updates of the run."""
        return self.share + (1 - self.share) * Fraction(update - self.begin, max(self.length, 1))

    @property
    def length(self) -> int:
        """Updates from the beginning to the planned end."""
        return self.end - self.begin


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """Settings without a flag, which record how the end of a run moved."""

    # Pairs: update after which the run was resumed with another total, last update planned before.
    plans: tuple[tuple[int, int], ...] = ()
    rate_since: int = 0  # update after which the learning rate began at `learning_rate`

    restarts: ClassVar[bool] = True  # whether a resumed run may have another learning rate

    @property
    def updates(self) -> int:
        """Updates of the whole run."""
        raise NotImplementedError

    def progress(self, update: Any, since: int = 0) -> Float32[Array, "*updates"]:
        """Progress after this many updates, which may be a fraction; counted from `since` on."""
        first, *later = self._stages(since)
        share = (update - first.begin) / max(first.length, 1)
        for stage in later:
            grown = (update - stage.begin) / max(stage.length, 1)
            grown = float(stage.share) + float(1 - stage.share) * grown
            share = jnp.where(update >= stage.begin, grown, share)
        return jnp.clip(share, 0.0, 1.0)

    def progress_at(self, update: int, since: int = 0) -> float:
        """`progress` of a known update, exactly."""
        first, *later = self._stages(since)
        stage = next((stage for stage in reversed(later) if update >= stage.begin), first)
        return min(max(float(stage.progress(update)), 0.0), 1.0)

    def update_at(self, share: float) -> float:
        """Update, perhaps a fraction, at which the progress reaches a share."""
        stages = self._stages()
        after = [stage.share for stage in stages[1:]] + [Fraction(2)]
        stage = next(s for s, next_share in zip(stages, after, strict=True) if share <= next_share)
        rest = float(1 - stage.share) or 1.0
        return stage.begin + (share - float(stage.share)) / rest * stage.length

    def check_plans(self) -> None:
        """Raise `ValueError` for plans that no run has had."""
        updates = [at for at, _ in self.plans]
        if updates != sorted({*updates}) or any(not 0 < at <= end for at, end in self.plans):
            raise ValueError(f"plans={self.plans} must be pairs (update, last update), in order")

    def _stages(self, since: int = 0) -> list[Stage]:
        """The stages after `since`, when the progress is 0."""
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
    """Settings for a run with the `saved` ones that is resumed after `update`, with its plans.

    `restart`: whether the learning rate begins anew there.
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
