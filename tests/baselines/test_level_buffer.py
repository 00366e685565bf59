"""Tests of PLR's level buffer against slow NumPy references that handle one level at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.baselines.core import level_buffer
from jaxenvs.baselines.core.level_buffer import Played

pytestmark = pytest.mark.full

TEMPERATURE, STALENESS = 0.3, 0.4
inserted = jax.jit(level_buffer.inserted)


def levels_of(numbers):
    """Return one level for each number; the number determines both leaves of the level."""
    numbers = np.asarray(numbers)
    grid = np.stack([np.full((2, 3), n, np.uint8) for n in numbers])
    return {"grid": jnp.asarray(grid), "pose": jnp.asarray(numbers, jnp.int8)}


def played_of(scores, best=None):
    """Return statistics of levels: score, best return, mean (score + 1), success (score + 2)."""
    scores = jnp.asarray(scores, jnp.float32)
    best = scores if best is None else jnp.asarray(best, jnp.float32)
    return Played(scores, best, scores + 1, scores + 2)


def full(numbers, scores, slots, now=0):
    """Return a buffer of `slots` slots that contains the levels `numbers` with `scores`."""
    levels, played = levels_of(numbers), played_of(scores)
    buffer = level_buffer.empty(levels, played, slots)
    return insert(buffer, numbers, scores, now)


def insert(buffer, numbers, scores, now, best=None):
    """Return the buffer after the levels `numbers` with `scores` were inserted in update `now`."""
    given = levels_of(numbers), played_of(scores, best), jnp.int32(now)
    return inserted(buffer, *given, TEMPERATURE, STALENESS)


def content(buffer):
    """Return the score of each level in the buffer, by the level's number."""
    filled = np.flatnonzero(np.asarray(buffer.filled))
    numbers = np.asarray(buffer.levels["pose"])
    assert len(set(numbers[filled])) == len(filled)
    return {int(numbers[i]): round(float(buffer.played.score[i]), 4) for i in filled}


def reference(filled, score, time, now):
    """Return the replay probability of each slot, by the formulas of PLR (Jiang et al., 2021)."""
    order = sorted(np.flatnonzero(filled), key=lambda i: (-score[i], i))
    by_score, by_age = np.zeros(len(score)), np.zeros(len(score))
    for rank, i in enumerate(order, 1):
        by_score[i] = (1 / rank) ** (1 / TEMPERATURE)
        by_age[i] = now - time[i]
    by_age = by_age / by_age.sum() if by_age.sum() else filled / filled.sum()
    return (1 - STALENESS) * by_score / by_score.sum() + STALENESS * by_age


@pytest.mark.parametrize("number", range(6))
def test_probabilities_are_those_of_the_paper(number):
    """Compare replay probabilities of random buffers with `reference`.

    Some buffers contain a single level, or levels with equal scores or ages.
    """
    rng = np.random.default_rng(number)
    slots, count = 9, (1, 4, 9, 9, 6, 2)[number]
    buffer = full(range(count), rng.integers(0, 4, count) / 4, slots)
    time = rng.integers(0, 5, slots) if number % 2 else np.zeros(slots, int)
    buffer = buffer._replace(time=jnp.asarray(time, jnp.int32))
    now = 7 if number else 0
    found = level_buffer.probabilities(buffer, jnp.int32(now), TEMPERATURE, STALENESS)
    filled, score = np.asarray(buffer.filled), np.asarray(buffer.played.score)
    np.testing.assert_allclose(found, reference(filled, score, time, now), atol=1e-6)
    assert not np.asarray(found)[~filled].any()


def test_an_empty_buffer_has_no_probabilities():
    """Nothing divides by zero before the first level is inserted."""
    buffer = level_buffer.empty(levels_of([0]), played_of([0.0]), 4)
    found = level_buffer.probabilities(buffer, jnp.int32(3), TEMPERATURE, STALENESS)
    assert not np.asarray(found).any()


def test_free_slots_are_filled_first():
    """All levels enter while there is room, whatever their scores."""
    buffer = full([1, 2], [0.9, 0.1], 4)
    assert content(insert(buffer, [3, 4], [-1.0, 0.0], 1)) == {1: 0.9, 2: 0.1, 3: -1.0, 4: 0.0}


def test_a_full_buffer_replaces_the_least_probable_levels_by_better_ones():
    """Three levels are inserted; two of them replace the two least probable levels of the buffer.

    The third has a score that is too low.
    """
    buffer = full([1, 2, 3, 4], [0.9, 0.1, 0.5, 0.2], 4)
    after = insert(buffer, [5, 6, 7], [0.05, 0.3, 0.4], 0)
    assert content(after) == {1: 0.9, 3: 0.5, 6: 0.3, 7: 0.4}
    assert content(insert(buffer, [5], [0.1], 0)) == content(buffer)


def test_a_stale_level_survives_a_better_score():
    """A level not played for a long time keeps its slot, although a new level has a higher score.

    A new level competes only with the level that is least likely to be replayed. Stale levels are
    likely to be replayed.
    """
    buffer = full([1, 2, 3], [0.9, 0.1, 0.5], 3)
    buffer = buffer._replace(time=jnp.array([9, 9, 0], jnp.int32))  # slots contain levels 1, 3, 2
    assert content(insert(buffer, [4], [0.3], 10)) == {1: 0.9, 2: 0.1, 3: 0.5}
    assert content(insert(buffer, [4], [0.6], 10)) == {1: 0.9, 2: 0.1, 4: 0.6}


def test_a_known_level_gets_its_new_score_and_time():
    """A level that is inserted again gets its new score and time, and keeps its best return."""
    buffer = full([1, 2], [0.9, 0.1], 4)
    after = insert(buffer, [1], [0.3], 5)
    assert content(after) == {1: 0.3, 2: 0.1}
    row = int(np.argmax(np.asarray(after.levels["pose"]) == 1))
    assert int(after.time[row]) == 5 and float(after.played.best[row]) == np.float32(0.9)


def test_equal_levels_of_a_batch_count_once():
    """Statistics of equal levels are averaged, except the best return, which is their maximum."""
    buffer = full([1], [0.9], 4)
    after = insert(buffer, [2, 2, 1, 2], [0.0, 0.3, 0.5, 0.6], 1, best=[0, 7, 0, 1])
    assert content(after) == {1: 0.5, 2: 0.3}
    row = int(np.argmax(np.asarray(after.levels["pose"]) == 2))
    assert float(after.played.best[row]) == 7.0


def test_more_levels_than_slots():
    """After the insertion of a batch larger than the buffer, the buffer holds the best levels."""
    assert content(full([1, 2, 3, 4, 5], [0.1, 0.5, 0.3, 0.9, 0.2], 2)) == {2: 0.5, 4: 0.9}


def test_many_random_batches_against_a_reference():
    """Insert random batches with duplicates; a dictionary with the same rules must agree."""
    rng, slots = np.random.default_rng(0), 6
    buffer, known, time = level_buffer.empty(levels_of([0]), played_of([0.0]), slots), {}, {}
    order = []  # level in each slot
    for now in range(40):
        numbers = rng.integers(0, 14, 4)
        scores = np.round(rng.random(4).astype(np.float32), 3)
        buffer = insert(buffer, numbers, scores, now)
        means = {n: float(np.mean(scores[numbers == n])) for n in dict.fromkeys(numbers)}
        for n in [n for n in means if n in known]:
            known[n], time[n] = means[n], now
        fresh = sorted((n for n in means if n not in known), key=lambda n: -means[n])
        probability = np.array([])
        if order:
            filled = np.ones(len(order), bool)
            score, ages = (np.array([d[n] for n in order]) for d in (known, time))
            probability = reference(filled, score, ages, now)
        places = [*range(len(order), slots), *np.argsort(probability, kind="stable")]
        for n, place in zip(fresh, places, strict=False):
            if place >= len(order):
                order.append(n)
            elif means[n] > known[order[place]]:
                del known[order[place]], time[order[place]]
                order[place] = n
            else:
                continue
            known[n], time[n] = means[n], now
        assert content(buffer) == {int(n): round(s, 4) for n, s in known.items()}, now


def test_hashes_differ_where_a_leaf_differs():
    """Changing any element of any leaf, at any index, changes the hash; equal levels agree."""
    base = levels_of([1])
    other = [base, levels_of([2])]
    for place in range(6):
        grid = base["grid"].at[0, place // 3, place % 3].set(9)
        other.append({**base, "grid": grid})
    other.append({**base, "pose": base["pose"] + 1})
    found = [tuple(np.asarray(level_buffer.hashes_of(level))[0].tolist()) for level in other]
    assert len(set(found)) == len(found)
    assert np.array_equal(level_buffer.hashes_of(base), level_buffer.hashes_of(levels_of([1])))


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.int8, np.float16, bool])
def test_hashes_read_every_bit(dtype):
    """Values have different hashes even if they differ in only one half of their 64 bits."""
    values = np.array([[0], [1], [1 + 2.0**-40 if dtype == np.float64 else 0]], dtype)
    if dtype == np.int64:
        values[2] = 1 << 40
    with jax.enable_x64(True):
        found = level_buffer.hashes_of({"leaf": jnp.asarray(values)})
    assert found.dtype == jnp.uint32 and found.shape == (3, 2)
    rows = {tuple(row) for row in np.asarray(found).tolist()}
    assert len(rows) == len(np.unique(values))


def test_samples_follow_the_probabilities():
    """Slots with probability 0 are never drawn."""
    probability = jnp.array([0.5, 0.0, 0.2, 0.3, 0.0])
    drawn = level_buffer.sample(jax.random.key(1), probability, 20_000)
    share = np.bincount(np.asarray(drawn), minlength=5) / 20_000
    np.testing.assert_allclose(share, probability, atol=0.015)
    assert share[1] == share[4] == 0
