"""Replay shards on Ray: processes that each store and sample a part of the actors' transitions.

A shard is a ring buffer in main memory. Its items are n-step transitions. Sampling is proportional
to priority (Schaul et al., 2016), and the priority of an item is its absolute TD error to the power
`priority`. `Replays` distributes new items over the shards and requests a part of every batch from
each shard. `Replays` replaces a dead shard by an empty one, so that only the dead shard's items are
lost.
"""

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import ray
from ray.exceptions import RayError

from ..storage.runs import RunError
from .cluster import DEATHS, reason

TINY = 1e-6  # added to absolute TD errors, so that every item can be sampled
# Several items, which are n-step transitions: a dict from each field of a transition, such as the
# reward, to an array (items, ...) with the values of all items.
Items = dict[str, Any]


class Drawn(NamedTuple):
    """Items that a shard sampled, and the numbers that the function `importance` needs."""

    items: Items  # sampled transitions; arrays are (batches, size, ...)
    # probability with which a draw of the shard returns this item, float32 (batches, size)
    chance: np.ndarray
    held: int  # number of items in the shard


class Replay:
    """Replay shard: it stores and samples a part of the transitions, in its own process."""

    def __init__(self, capacity: int, priority: float, seed: int) -> None:
        """Create an empty shard for `capacity` items."""
        self._capacity, self._power = capacity, priority
        self._draw = np.random.default_rng(seed)
        self._items: Items = {}
        self._weights = np.zeros(capacity, np.float64)  # priorities, |TD error| ** `priority`
        # Number of items written so far; modulo `capacity`, this is the index for the next item.
        self._written = 0
        self._born = np.full(capacity, -1)  # serial number of the item at each index; -1: no item
        # indices and serial numbers of the items in the latest sample, if there is one
        self._drawn: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, items: Items) -> None:
        """Store items; when the shard is full, they replace the oldest items.

        `items["error"]` are the TD errors, from which the priorities are computed.
        """
        items = jax.tree.map(lambda leaf: leaf[-self._capacity :], items)
        errors = items.pop("error")
        if not self._items:
            self._items = jax.tree.map(self._ring, items)
        count = len(errors)
        places = (self._written + np.arange(count)) % self._capacity
        for ring, new in zip(*map(jax.tree.leaves, (self._items, items)), strict=True):
            ring[places] = new
        self._weights[places] = self._weighed(errors)
        self._born[places] = self._written + np.arange(count)
        self._written += count

    def sample(self, batches: int, size: int) -> Drawn:
        """Sample `batches` batches of `size` items by priority, with replacement."""
        held = min(self._written, self._capacity)
        sums = np.cumsum(self._weights[:held])
        marks = self._draw.random((batches, size)) * sums[-1]
        places = np.minimum(np.searchsorted(sums, marks, side="right"), held - 1)
        self._drawn = (places, self._born[places])
        chance = (self._weights[places] / sums[-1]).astype(np.float32)
        return Drawn(jax.tree.map(lambda ring: ring[places], self._items), chance, held)

    def mark(self, errors: list[np.ndarray], share: int) -> None:
        """Set new priorities for the items of the latest sample, from their new TD errors.

        Items that have been overwritten since then are skipped. `errors` has one array per sampled
        shard, and `share` is the index of this shard's array.
        """
        assert self._drawn is not None
        places, born = self._drawn
        there = self._born[places] == born
        self._weights[places[there]] = self._weighed(errors[share][there])

    def alive(self) -> bool:
        """Return True. A remote call of this method fails only if the shard's process is dead."""
        return True

    def _weighed(self, errors: np.ndarray) -> np.ndarray:
        return (np.abs(errors.astype(np.float64)) + TINY) ** self._power

    def _ring(self, leaf: np.ndarray) -> np.ndarray:
        return np.zeros((self._capacity, *leaf.shape[1:]), leaf.dtype)


class Replays:
    """Handles of the replay shards of a run."""

    def __init__(self, settings: Any, seed: int) -> None:
        """Start the shards; `settings` are `apex.Settings`."""
        count = settings.replays
        self._capacity, self._patience = -(-settings.capacity // count), settings.patience
        self._priority, self._seed = settings.priority, seed
        self.lost = 0  # number of dead shards so far
        self._in_a_row = 0
        self._handles = [self._make(shard, 0) for shard in range(count)]
        self._held = [0] * count  # number of items in each shard
        self._next = 0  # index of the shard that receives the next transitions

    @property
    def held(self) -> int:
        """Number of items in all shards."""
        return sum(self._held)

    def add(self, reference: Any, count: int) -> None:
        """Send an actor's `count` items, to which the Ray reference points, to the next shard."""
        shard = self._next
        self._handles[shard].add.remote(reference)
        self._held[shard] = min(self._held[shard] + count, self._capacity)
        self._next = (shard + 1) % len(self._handles)

    def sample(self, batches: int, size: int) -> dict[int, Any]:
        """Request samples from the shards, which together are `batches` batches of `size` items.

        Each shard samples a number of items proportional to the number of items that it stores.
        Return a dict from the index of each sampled shard to a Ray reference to its sample.
        """
        return {
            shard: self._handles[shard].sample.remote(batches, share)
            for shard, share in shares(size, self._held)
        }

    def mark(self, errors: Any, shards: list[int]) -> None:
        """Send new TD errors to the shards of the latest sample.

        `errors` is a Ray reference to a list of arrays, one for each shard in `shards`.
        """
        self._in_a_row = 0
        for i, shard in enumerate(shards):
            self._handles[shard].mark.remote(errors, i)

    def replaced(self) -> bool:
        """Replace dead shards by empty ones; return whether any shard was dead."""
        found = False
        for shard, handle in enumerate(self._handles):
            try:
                ray.get(handle.alive.remote(), timeout=self._patience)
            except RayError as error:
                found = True
                self._replace(shard, reason(error))
        self._in_a_row += found
        if self._in_a_row > DEATHS:
            raise RunError(f"replay shards died {self._in_a_row} times in a row; see above")
        return found

    def end(self) -> None:
        """Kill all shards."""
        for handle in self._handles:
            ray.kill(handle)

    def _replace(self, shard: int, why: str) -> None:
        self.lost += 1
        lost, self._held[shard] = self._held[shard], 0
        print(f"Replay shard {shard} is replaced, {lost} items dropped: {why}", file=sys.stderr)
        ray.kill(self._handles[shard])
        self._handles[shard] = self._make(shard, self.lost)

    def _make(self, shard: int, generation: int) -> Any:
        kind = ray.remote(Replay).options(num_cpus=1)  # type: ignore[attr-defined]
        seed = np.random.SeedSequence([self._seed, shard, generation]).generate_state(1)[0]
        return kind.remote(self._capacity, self._priority, int(seed))


def shares(size: int, held: list[int]) -> Iterator[tuple[int, int]]:
    """Divide a batch of `size` items among the shards; yield (shard, number of items to sample).

    The numbers are proportional to `held`, the number of items that each shard stores. Shards that
    would sample no item are left out.
    """
    begins = np.cumsum([0, *held]) * size // max(sum(held), 1)
    for shard, (begin, end) in enumerate(itertools.pairwise(begins)):
        if end > begin:
            yield shard, int(end - begin)


def importance(drawn: Sequence[Drawn], beta: float) -> np.ndarray:
    """Return the importance weights of sampled items, (batches, size).

    The largest weight of each batch is 1. The exponent `beta` sets the correction for unequal
    sampling probabilities: 1 is full correction, 0 none.
    """
    size = sum(part.chance.shape[1] for part in drawn)
    total = sum(part.held for part in drawn)
    chance = [part.chance * (part.chance.shape[1] / size) for part in drawn]
    weight = (total * np.concatenate(chance, axis=1)) ** -np.float32(beta)
    return (weight / weight.max(axis=1, keepdims=True)).astype(np.float32)


def joined(drawn: Sequence[Drawn]) -> Items:
    """Concatenate the samples of several shards along the axis of items, the second one."""
    parts = (part.items for part in drawn)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
