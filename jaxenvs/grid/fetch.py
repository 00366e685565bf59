"""Fetch: pick up the object that the mission names (MiniGrid 3.2 `fetch.py`)."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from ..core import checks
from ..core.env import Ending
from ..core.random import Key, below, distinct, words
from . import missions, tasks
from .aims import Aim, has
from .env import SquareGridEnv, Verdict, register_level
from .placement import inner_cell, item, put_all, room
from .state import Action, GridState, Level
from .tiles import Kind

PHRASES = ("get a", "go get a", "fetch a", "go fetch a", "you must fetch a")
THINGS = 12  # number of different objects: keys and balls in six colours


@register_level("Fetch-5x5-N2-v0", size=5, objects=2)
@register_level("Fetch-6x6-N2-v0", size=6, objects=2)
@register_level("Fetch-8x8-N3-v0", size=8, objects=3)
class Fetch(SquareGridEnv):
    """Pick up the key or ball whose colour and kind the mission names, and no other object.

    Reward: 1 - 0.9 * steps / max_steps for the target. Episode ends: when anything is picked up, or
        after 5 * size**2 steps.
    """

    objects: int = 3  # number of keys and balls in the room
    obs: str = "dict"
    see_through_walls: bool = True

    steps_per_cell: ClassVar[int] = 5

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        most = min((self.size - 2) ** 2 - 1, 32)
        checks.integer_field("Fetch", "objects", self.objects, 1, most)

    def generate(self, key: Key) -> Level:
        """Draw the objects, the agent and the target.

        The field `task` of the level has the tile of the target, and the index in PHRASES of the
        mission's wording.
        """
        inner, count = self.size - 2, self.objects
        word_target, word_phrase, word_turn, *_ = word = words(key, 4 + 2 * count)
        cells = distinct(word[3 : 4 + count], inner * inner)
        things = item(below(word[4 + count :], THINGS))
        rows, columns = inner_cell(cells, inner)
        grid = put_all(room(self.size, self.size), rows[:-1], columns[:-1], things)
        target = things[below(word_target, count)]
        task = tasks.pack(target, below(word_phrase, len(PHRASES)))
        return Level.of(grid, rows[-1], columns[-1], below(word_turn, 4), task=task)

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure) of a step.

        Picking up the target is success, picking up another object is failure.
        """
        wanted = after.carried == tasks.tile(after.task, 0)
        return wanted, (after.carried != 0) & ~wanted

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary condition of success: to pick up the target."""
        target = tasks.tile(state.task, 0)
        return (Aim(has(state.grid, target), 1, state.carried != target),)

    def ending(self, level: Level) -> Ending:
        """Return a level and an action that ends its episode.

        The action picks up a red ball, which may or may not be the target.
        """
        return Ending(level.facing(Kind.BALL), (Action.PICKUP,))

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids: the phrase, then the target's colour and kind."""
        forms = np.stack([missions.ids(form, self.mission_length) for form in PHRASES])
        phrase, target = tasks.part(state.task, 1), tasks.tile(state.task, 0)
        length = jnp.asarray((forms != 0).sum(axis=1).astype(np.int32))[phrase]
        place = np.arange(self.mission_length, dtype=np.int32)
        words = jnp.where(place == length, missions.colour_word(target), jnp.asarray(forms)[phrase])
        return jnp.where(place == length + 1, missions.kind_word(target), words)
