"""GoToObject: go to the object that the mission names (MiniGrid 3.2 `gotoobject.py`)."""

from typing import ClassVar

from jaxtyping import Array, UInt8

from ..core import checks
from ..core.env import Ending
from ..core.random import Key, below, distinct, words
from . import missions, tasks
from .aims import Aim
from .env import SquareGridEnv, Verdict, register_level
from .placement import inner_cell, item, put_all, room
from .state import Action, GridState, Level

THINGS = 18  # number of different objects: keys, balls and boxes in six colours


@register_level("GoToObject-6x6-N2-v0", size=6)
@register_level("GoToObject-8x8-N2-v0", size=8)
class GoToObject(SquareGridEnv):
    """Take action `done` next to the object that the mission names; no two objects are alike.

    The agent must be next to the cell where the object lay at first, even if the object has been
    carried away.

    Reward: 1 - 0.9 * steps / max_steps for `done` next to that cell, facing any direction.
    Episode ends: on `done`, on toggle, or after 5 * size**2 steps.
    """

    size: int = 6
    objects: int = 2  # number of keys, balls and boxes in the room
    obs: str = "dict"
    see_through_walls: bool = True

    steps_per_cell: ClassVar[int] = 5

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        most = min((self.size - 2) ** 2 - 1, THINGS)
        checks.integer_field("GoToObject", "objects", self.objects, 1, most)

    def generate(self, key: Key) -> Level:
        """Draw the objects, the agent and the target.

        The field `task` of the level has the row, column and tile of the target.
        """
        inner, count = self.size - 2, self.objects
        word = words(key, 3 + 2 * count)
        things = item(distinct(word[3 + count :], THINGS))
        rows, columns = inner_cell(distinct(word[2 : 3 + count], inner * inner), inner)
        grid = put_all(room(self.size, self.size), rows[:-1], columns[:-1], things)
        wanted = below(word[0], count)
        task = tasks.pack(rows[wanted], columns[wanted], things[wanted])
        return Level.of(grid, rows[-1], columns[-1], below(word[1], 4), task=task)

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure) of a step.

        Action `done` is success next to the target's cell and failure elsewhere; toggle is failure.
        """
        return tasks.judge_stop(after, action)

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary condition of success: to stand next to the target."""
        return (tasks.aim_stop(state),)

    def ending(self, level: Level) -> Ending:
        """Return a level and the action `done`, which ends the episode in every cell."""
        return Ending(level, (Action.DONE,))

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids; it names the colour and the kind of the target."""
        wanted = tasks.tile(state.task, 2)
        colour, kind = missions.colour_word(wanted), missions.kind_word(wanted)
        return missions.sentence(self.mission_length, "go to the", colour, kind)
