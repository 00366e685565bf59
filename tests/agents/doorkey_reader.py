"""A scripted player of `Grid-DoorKey`: it reads descriptions and returns names of actions.

It collects the cells of all views in a map, whose origin is the agent's first cell. It walks to the
key, then to the door, then to the goal. While the map lacks the next target, it walks to the
nearest pose in which the agent has not been.
"""

import collections
import re
from collections.abc import Callable

NORTH = 0
STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # (x, y) of a step north, east, south, west
Pose = tuple[int, int, int]  # x, y, heading


class Reader:
    """Player of DoorKey; `next_action` maps a description of the state to an action's name."""

    def __init__(self) -> None:
        self.pose: Pose = (0, 0, NORTH)
        self.cells: dict[tuple[int, int], str] = {}
        self.stood: set[Pose] = set()
        self.action = ""

    def next_action(self, text: str) -> str:
        """Return the name of the next action, given the description of the state."""
        self._follow()
        self._read(text)
        self.stood.add(self.pose)
        carries = "You carry a yellow key." in text
        if not carries and "yellow key" in self.cells.values():
            self.action = self._towards(self._faces("yellow key")) or "pick up"
        elif carries and "locked yellow door" in self.cells.values():
            self.action = self._towards(self._faces("locked yellow door")) or "toggle"
        elif "goal" in self.cells.values():
            self.action = self._towards(lambda pose: self.cells[pose[:2]] == "goal")
        else:
            self.action = self._towards(lambda pose: pose not in self.stood)
        return self.action

    def _follow(self) -> None:
        """Compute the agent's pose after the last action."""
        x, y, heading = self.pose
        if self.action == "forward" and self._is_free(self._ahead(self.pose)):
            self.pose = (*self._ahead(self.pose), heading)
        turn = {"left": -1, "right": 1}.get(self.action, 0)
        if turn:
            self.pose = (x, y, (heading + turn) % 4)

    def _read(self, text: str) -> None:
        """Add the cells of the view to the map."""
        legend, drawing = re.search(r"Your view, ahead is up; (.*?):\n((?:.+\n?)+)", text).groups()
        meanings = dict(part.split(" ", 1) for part in legend.split(", "))
        meanings = {sign: meaning.removeprefix("is ") for sign, meaning in meanings.items()}
        rows = [line.split() for line in drawing.splitlines() if len(line.split()) >= 7][:7]
        x, y, heading = self.pose
        (ahead_x, ahead_y), (right_x, right_y) = STEPS[heading], STEPS[(heading + 1) % 4]
        for up, row in enumerate(reversed(rows)):
            for column, sign in enumerate(row):
                right, meaning = column - 3, meanings[sign]
                at = x + up * ahead_x + right * right_x, y + up * ahead_y + right * right_y
                if meaning != "not seen":
                    self.cells[at] = "free" if meaning == "you" else meaning

    def _ahead(self, pose: Pose) -> tuple[int, int]:
        x, y, heading = pose
        return x + STEPS[heading][0], y + STEPS[heading][1]

    def _is_free(self, cell: tuple[int, int]) -> bool:
        return self.cells.get(cell) in ("free", "goal", "open yellow door")

    def _faces(self, thing: str) -> Callable[[Pose], bool]:
        return lambda pose: self.cells.get(self._ahead(pose)) == thing

    def _towards(self, there: Callable[[Pose], bool]) -> str:
        """Return the first action of a shortest way to a pose for which `there` is true.

        Return "" if `there` is true for the agent's current pose.
        """
        waiting, seen = collections.deque([(self.pose, "")]), {self.pose}
        while waiting:
            pose, first = waiting.popleft()
            if there(pose):
                return first
            x, y, heading = pose
            reached = {"left": (x, y, (heading - 1) % 4), "right": (x, y, (heading + 1) % 4)}
            if self._is_free(self._ahead(pose)):
                reached["forward"] = (*self._ahead(pose), heading)
            for action, after in reached.items():
                if after not in seen:
                    seen.add(after)
                    waiting.append((after, first or action))
        raise AssertionError("there is no way to the place")
