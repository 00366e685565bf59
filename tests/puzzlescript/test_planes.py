"""Tests of bit planes and numbered matches against plain loops, and of code for GPUs on a CPU."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.puzzlescript.machine import matches, planes

SHAPES = ((3, 1), (5, 4), (33, 1), (6, 40))  # side of the plane, number of gaps


def drawn(side: int, *shape: int, density: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Return random planes, and their cells as flags [..., line, column]."""
    cells = np.random.default_rng(side).random((*shape, side, side)) < density
    words = np.zeros((*shape, side, -(-side // 32)), np.uint32)
    for x in range(side):
        words[..., x // 32] |= cells[..., x].astype(np.uint32) << np.uint32(x % 32)
    return words, cells


def numbered(side: int, gaps: int, vertical: bool) -> np.ndarray:
    """Return the number of each place, [gap, line, column]."""
    gap, y, x = np.indices((gaps, side, side))
    return ((x * side + y if vertical else y * side + x) * gaps + gap).astype(np.int32)


@pytest.mark.parametrize(("side", "gaps"), SHAPES)
@pytest.mark.parametrize("vertical", [False, True])
def test_matches_are_found_by_their_numbers(side, gaps, vertical):
    found, cells = drawn(side, 2, gaps)
    found, order, number = jnp.asarray(found), jnp.bool_(vertical), numbered(side, gaps, vertical)
    expected = [np.sort(number[row]) for row in cells]
    assert matches.first(found, order).tolist() == [row[0] for row in expected]
    assert matches.first(found & 0, order).tolist() == [planes.NONE] * 2
    before = matches.counts(found, order)
    assert before[:, -1].tolist() == [len(row) for row in expected]
    for rank in (0, min(map(len, expected)) - 1):
        ranks = jnp.array([rank, len(expected[1]) - 1 - rank], jnp.int32)
        picked = matches.nth(found, before, ranks, order)
        assert picked.tolist() == [expected[0][rank], expected[1][-1 - rank]]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 33, 70])
def test_digits_are_the_number_of_planes_that_have_a_cell(count):
    words, cells = drawn(5, 2, count, density=0.6)
    digits = np.asarray(planes.cells(planes.digits(jnp.asarray(words))))
    assert digits.shape[1:3] == (min(count, 32).bit_length(), -(-count // 32))
    weights = 1 << np.arange(digits.shape[1])[:, None, None, None]
    assert ((digits * weights).sum((1, 2)) == cells.sum(1)).all()


@pytest.mark.parametrize(("side", "gaps"), SHAPES)
@pytest.mark.parametrize("vertical", [False, True])
def test_places_since_a_number(side, gaps, vertical):
    number, words = numbered(side, gaps, vertical), -(-side // 32)
    least = np.arange(0, number.size + 1, max(1, number.size // 20), dtype=np.int32)
    made = planes.since(jnp.asarray(least), jnp.bool_(vertical), gaps, side, words)
    expected = number >= least[:, None, None, None]
    assert (np.asarray(planes.flags(made, side)) == expected).all()


@pytest.mark.parametrize("side", [5, 16, 32, 33, 64])
def test_starts_by_lines_equal_starts_by_steps(side):
    tail, _ = drawn(side, 200, 2, density=0.2 / side)
    draw = np.random.default_rng(side)
    direction, length = (
        jnp.asarray(draw.integers(end, size=(200, 2), dtype=np.int32)) for end in (4, 5)
    )
    steps = matches._starts_by_steps(jnp.asarray(tail), direction, length, 4)
    lines = matches._starts_by_lines(jnp.asarray(tail), direction, length)
    steps, lines = (planes.flags(plane, side) for plane in (steps, lines))
    assert (steps == lines).all() and lines.any() and not lines.all()


def test_stacked_scalars_of_a_gpu_equal_those_of_a_cpu():
    values = [jnp.int32(i) for i in (7, 0, -3, 5)]
    assert (
        planes._selected_from(values).tolist() == planes.stacked(values).tolist() == [7, 0, -3, 5]
    )
