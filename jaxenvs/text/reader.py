"""The reference agent `reader`, a script that solves simple grid worlds from the text alone.

The agent keeps a map of the cells that it has seen and walks to the object of the mission. It
understands missions such as "get to the green goal square", "use the key to open the door and then
get to the goal" and "go to the red ball". For any other mission, it walks to a goal square.
"""

import random
import re
from collections import deque
from collections.abc import Callable

from .prompts import PromptError, legal_names, observation

Cell = tuple[int, int]  # (row, column), counted from the cell where the episode began
Pose = tuple[int, int, int]  # row, column, direction; the episode begins with direction 0
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # cell offset of each direction, clockwise
# The sign of a cell is its text in the drawn view. Object -> first character of its sign.
LETTERS = {"key": "k", "ball": "o", "box": "x"}
OPEN = re.compile(r"[.Gf]|D.|f.")  # signs of cells that the agent can enter
UNKNOWN = "?"


class Reader:
    """Agent that maps all cells it has read, and infers its own position from its moves."""

    def __init__(self, seed: int = 0) -> None:
        """Start with an empty map.

        seed: seed of the random actions that the agent takes if the map shows no path.
        """
        self.random = random.Random(seed)
        self.reset()

    def reset(self) -> None:
        """Empty the map, and set the pose to the origin."""
        self.cells: dict[Cell, str] = {}
        self.pose: Pose = (0, 0, 0)

    def __call__(self, text: str) -> str:
        """Return the name of the next action, chosen from the prompt `text`.

        Raises `PromptError` if the observation has no drawn view.
        """
        lines = observation(text)
        self._read(lines)
        wanted = self._wanted(lines)
        action = self._way(lambda sign: bool(wanted.fullmatch(sign))) or self._way(
            lambda sign: sign == UNKNOWN or sign[0] == "C"
        )
        action = action or self.random.choice(["left", "right", "forward"])
        action = action if action in legal_names(text) else legal_names(text)[0]
        self._move(action)
        return action

    def _read(self, lines: list[str]) -> None:
        """Copy the cells of the drawn view to the map."""
        titles = [i for i, line in enumerate(lines) if line.startswith("Your view")]
        if not titles:
            raise PromptError(
                "the agent `reader` needs observations with a drawn view, as in Grid and BabyAI; "
                "give --agent random, first-legal or module:function"
            )
        title = titles[0]
        drawing = [line.split() for line in lines[title + 1 :]]
        row, column, way = self.pose
        (down, right), (down_r, right_r) = STEPS[way], STEPS[(way + 1) % 4]
        for i, signs in enumerate(drawing):
            for j, sign in enumerate(signs):
                ahead, aside = len(drawing) - 1 - i, j - len(signs) // 2
                at = row + ahead * down + aside * down_r, column + ahead * right + aside * right_r
                if sign != UNKNOWN:
                    self.cells[at] = "." if sign == "^" else sign

    def _wanted(self, lines: list[str]) -> re.Pattern[str]:
        """Return a regular expression for the signs of cells to which the agent should go."""
        mission = lines[0]
        if "use the key" in mission and not any(sign[0] == "D" for sign in self.cells.values()):
            return re.compile("k." if "You carry nothing." in lines else "L.")
        found = re.search(r"go to (?:a|the) (?:(\w+) )?(key|ball|box|door|object)\b", mission)
        if found is None:
            return re.compile("G")
        colour = {None: ".", "grey": "e"}.get(found[1], (found[1] or ".")[0])
        return re.compile(f"[{LETTERS.get(found[2], 'DCL')}]{colour}")

    def _way(self, is_wanted: Callable[[str], bool]) -> str | None:
        """Return the first action of a shortest path to a pose in front of a wanted cell.

        If the agent already faces a wanted cell, return the action for this cell, such as `pick
        up`. If there is no path, return None.
        """
        waiting, first = deque([self.pose]), {self.pose: ""}
        while waiting:
            row, column, way = pose = waiting.popleft()
            front = row + STEPS[way][0], column + STEPS[way][1]
            sign = self.cells.get(front, UNKNOWN)
            if is_wanted(sign):
                return first[pose] or _use(sign)
            after = {"left": (row, column, (way - 1) % 4), "right": (row, column, (way + 1) % 4)}
            if OPEN.fullmatch(sign):
                after["forward"] = (*front, way)
            for action, next_pose in after.items():
                if next_pose not in first:
                    first[next_pose] = first[pose] or action
                    waiting.append(next_pose)
        return None

    def _move(self, action: str) -> None:
        """Update the pose after an action; `forward` moves only into a free cell."""
        row, column, way = self.pose
        front = row + STEPS[way][0], column + STEPS[way][1]
        if action == "forward" and OPEN.fullmatch(self.cells.get(front, UNKNOWN)):
            self.pose = (*front, way)
        elif action in ("left", "right"):
            self.pose = row, column, (way + (1 if action == "right" else -1)) % 4


def _use(sign: str) -> str:
    """Return the action for the cell in front, such as `toggle` for a closed or locked door."""
    return {"k": "pick up", "L": "toggle", "C": "toggle", "G": "forward"}.get(sign[0], "left")
