"""Tests of text on a canvas: letters are evenly spaced at every size."""

import numpy as np
import pygame
import pytest

from jaxenvs.render.canvas import Canvas

WORDS = "defeat skeleton, make iron pickaxe, 0 / 10000, Backspace undo"
SIZE = 12  # size in points of the smallest text of the panel
LARGE = 16  # scale of the text that gives the reference positions, relative to the tested text


@pytest.fixture(autouse=True)
def fonts(dummy_display):
    pygame.font.init()


def ends(scale: float) -> np.ndarray:
    """Return the position of the right end of each letter in `WORDS`, in pixels."""
    canvas = Canvas(pygame.Surface((1, 1)), scale)
    return scale * np.array([canvas.width(WORDS[: i + 1], SIZE) for i in range(len(WORDS))])


@pytest.mark.parametrize("scale", [0.7, 0.8, 0.9, 1.0, 1.25])
def test_letters_of_small_text_have_the_positions_of_large_text(scale):
    small, large = ends(scale), ends(scale * LARGE)
    large *= small[-1] / large[-1]
    assert np.abs(small - large).max() < 0.7  # largest deviation, in pixels


@pytest.mark.parametrize("scale", [0.7, 1.0])
def test_text_is_as_wide_as_width_returns(scale):
    surface = pygame.Surface((500, 20))
    canvas = Canvas(surface, scale)
    for words in ("defeat", "defeat skeleton", WORDS):
        surface.fill((0, 0, 0))
        canvas.write(words, (0, 2), (255, 255, 255), SIZE)
        ink = np.flatnonzero(pygame.surfarray.array3d(surface)[..., 0].sum(axis=1))
        assert 0 <= ink[0] <= 1 and abs(ink[-1] + 1 - canvas.pixels(canvas.width(words, SIZE))) <= 1


def test_nothing_is_written_for_no_words():
    surface = pygame.Surface((20, 20))
    assert Canvas(surface).write("", (3, 3), (255, 255, 255), SIZE) == 3
    assert not pygame.surfarray.array3d(surface).any()
