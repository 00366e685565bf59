"""Writer of replays. A replay is one HTML file with a player, for any browser, even offline.

Each frame is cut into square tiles. Equal tiles are stored once, as a sprite in an image (the
atlas), and a frame is an array of sprite indices. The player shows every pixel exactly. Pictures of
environments that do not draw tiles are cut in the same way, but yield more sprites.
"""

import base64
import html
import importlib.resources
import json
import math
import os
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import UInt8, UInt32

from jaxenvs.core import drawing, png
from jaxenvs.core.env import Env
from jaxenvs.core.files import replacing

from . import boards, frames, pilots
from .session import NO_ACTION, Moment, Session, action_name, board_moment, board_state

ACROSS = 64  # number of sprites in a row of the atlas
WIDTH = 560  # default length of the longer side of the picture of an environment, in pixels
FRAMES = 1000  # default number of time steps in a replay
# Text that the player shows after the last frame of an episode that the recording cut short.
NO_END = "cut here"


class Recording(NamedTuple):
    """Recorded time steps of one environment."""

    # Sprite indices of the tiles of the environment's picture at each time step, uint32 (tiles,).
    tiles: list[np.ndarray]
    # Sprite indices of the agent's view at each time step, uint32 (tiles,).
    # Empty if the view does not consist of tiles.
    views: list[np.ndarray]
    # Text of the mission of each episode; "" if the environment has no mission.
    missions: list[str]
    moments: list[tuple[int, float, float, bool, bool, int]]
    """Action, reward, return, terminated, truncated, episode number."""


class ReplayWriter:
    """Records the time steps of a session and writes them as a replay."""

    def __init__(
        self, env: Env, count: int = 1, tile_size: int | None = None, params: Any = None
    ) -> None:
        """Prepare drawing of `count` environments with tiles of `tile_size` pixels.

        The default is the largest tile size at which the picture of an environment is at most
        `WIDTH` pixels wide and high. It is at most 64 pixels, or 32 if the picture does not consist
        of tiles.
        """
        largest = 32 if drawing.has_picture(env) else 64
        tile_size = tile_size or drawing.fitting_tile_size(
            drawing.board_shape(env), WIDTH, WIDTH, largest
        )
        self._env, self._params = env, params
        self._paint = frames.board_painter(env, tile_size)
        self._view = frames.view_painter(env, tile_size)
        self._size = tile_size
        # Sprite (bytes of its pixels) -> index of the sprite in the atlas.
        self._numbers: dict[bytes, int] = {}
        # Rows and columns of tiles in the picture of an environment, and of the agent's view.
        self._shape = self._view_shape = (0, 0)
        self._recordings = [Recording([], [], [], []) for _ in range(count)]
        # Name of each action that is not discrete -> index in the replay's list of names.
        self._names: dict[str, int] = {}

    def add(self, session: Session) -> None:
        """Record the time step that the session shows, for all its environments."""
        self.add_moment(session.now, boards.pictures(session, self._size))

    def add_moment(self, now: Moment, pictures: frames.Frames | None = None) -> None:
        """Record a time step of all environments.

        pictures: one picture per environment; None draws them from the states.
        """
        pictures = self._paint(now.state, self._params) if pictures is None else pictures
        views = self._view(now.state) if self._view else None
        for i, recording in enumerate(self._recordings):
            tiles, self._shape = self._cut(pictures[i])
            recording.tiles.append(tiles)
            if views is not None:
                tiles, self._view_shape = self._cut(views[i])
                recording.views.append(tiles)
            if now.action[i] == NO_ACTION or not recording.moments:
                recording.missions.append(self._mission(now, i))
            numbers = (now.reward[i], now.score[i], now.terminated[i], now.truncated[i])
            reward, score, terminated, truncated = (number.item() for number in numbers)
            action, episode = self._action(now, i), int(now.episode[i])
            recording.moments.append((action, reward, score, terminated, truncated, episode))

    def write(
        self,
        path: str | os.PathLike[str],
        title: str,
        names: Sequence[str],
        player: str,
        speed: float,
    ) -> int:
        """Write the replay and return its number of episodes; a failure leaves no partial file.

        names: names of the actions; if empty, the replay shows no actions and rewards.
        player: name of the policy that chose the actions.
        speed: environment steps per second.

        Raises `OSError` if the file cannot be written.
        """
        shown = {
            "title": title,
            "player": player,
            "speed": speed,
            "actions": list(self._names) or names,
            "tile": self._size,
            "rows": self._shape[0],
            "columns": self._shape[1],
            "episodes": self._episodes(),
            "frames": _packed(
                [tiles for recording in self._recordings for tiles in recording.tiles]
            ),
            "viewRows": self._view_shape[0],
            "viewColumns": self._view_shape[1],
            "views": _packed(
                [tiles for recording in self._recordings for tiles in recording.views]
            ),
            "atlas": png.address(self._atlas()),
        }
        template = (
            importlib.resources.files("jaxenvs.render").joinpath("replay.html").read_text("utf-8")
        )
        name = f"{title}: {player}" if player else title
        content = template.replace("{{title}}", html.escape(name))
        with replacing(path) as temporary:
            temporary.write_text(content.replace("{{replay}}", _embedded(shown)), "utf-8")
        return len(shown["episodes"])

    def _action(self, moment: Moment, board: int) -> int:
        """Return the latest action of environment `board`, as an index into the action names.

        Returns `NO_ACTION` at the start of an episode. If actions are not discrete, the list of
        names grows: a name is appended when its action is first used.
        """
        number = int(moment.action[board])
        if number == NO_ACTION or not jax.tree.leaves(moment.taken):
            return number
        name = action_name(self._env, board_moment(moment, board))
        return self._names.setdefault(name, len(self._names))

    def _mission(self, moment: Moment, board: int) -> str:
        """Return the facts of environment `board` that are sentences, joined by spaces.

        In most environments, the only such fact is the mission.
        """
        state = board_state(moment, board)
        return " ".join(f.value for f in self._env.facts(state) if f.kind == "sentence")

    def _cut(
        self, picture: UInt8[np.ndarray, "height width 3"]
    ) -> tuple[UInt32[np.ndarray, " cells"], tuple[int, int]]:
        """Cut a picture into tiles, and add to the atlas each tile that it does not contain yet.

        Returns the sprite index of each tile, and the picture's numbers of rows and columns of
        tiles.
        """
        size = self._size
        rows, columns = (-(-length // size) for length in picture.shape[:2])
        spare = (rows * size - picture.shape[0], columns * size - picture.shape[1])
        picture = np.pad(picture, ((0, spare[0]), (0, spare[1]), (0, 0)))
        tiles = picture.reshape(rows, size, columns, size, 3).swapaxes(1, 2)
        pixels = (tile.tobytes() for row in tiles for tile in row)
        numbers = [self._numbers.setdefault(tile, len(self._numbers)) for tile in pixels]
        return np.array(numbers, np.uint32), (rows, columns)

    def _episodes(self) -> list[dict[str, Any]]:
        """Return the episodes of all environments in the format of the replay's player.

        Episodes are ordered by environment. The entry `first` of an episode is the index of its
        first frame.
        """
        episodes: list[dict[str, Any]] = []
        first = 0
        for board, recording in enumerate(self._recordings):
            moments = recording.moments
            starts = [i for i, moment in enumerate(moments) if not i or moment[0] == NO_ACTION]
            for number, start in enumerate(starts):
                end = [*starts, len(moments)][number + 1]
                where = f"board {board + 1}, " if len(self._recordings) > 1 else ""
                name = f"{where}episode {moments[start][5] + 1}"
                row = _episode(name, first + start, moments[start:end])
                episodes.append({**row, "mission": recording.missions[number]})
            first += len(moments)
        return episodes

    def _atlas(self) -> bytes:
        """Return an image of all sprites, as the bytes of a PNG file."""
        size, count = self._size, len(self._numbers)
        across = min(ACROSS, count)
        down = -(-count // across)
        sheet = np.zeros((down * across, size, size, 3), np.uint8)
        for number, pixels in enumerate(self._numbers):
            sheet[number] = np.frombuffer(pixels, np.uint8).reshape(size, size, 3)
        sheet = sheet.reshape(down, across, size, size, 3).swapaxes(1, 2)
        return png.encoded(sheet.reshape(down * size, across * size, 3))


def of_policy(policy: Any, path: str | os.PathLike[str], count: int = FRAMES) -> int:
    """Run a policy (of baselines/core/policy.py) for `count` time steps and write a replay.

    Returns the number of episodes. Raises `OSError` if the file cannot be written.
    """
    session = Session(policy.env, pilots.of_policy(policy))
    writer = ReplayWriter(policy.env)
    writer.add(session)
    for _ in range(count - 1):
        session.forward()
        writer.add(session)
    names = policy.env.controls.names
    return writer.write(path, policy.env_id, names, session.pilot.name, session.speed)


def _episode(name: str, first: int, moments: list[Any]) -> dict[str, Any]:
    """Return an episode in the format that the replay's player reads.

    first: index of the episode's first frame. moments: one entry of `Recording.moments` per frame.
    """
    actions, rewards, returns, terminated, truncated, _ = zip(*moments, strict=True)
    end = "terminated" if terminated[-1] else "truncated" if truncated[-1] else NO_END
    length = f"{len(moments) - 1} steps"
    known = "" if math.isnan(returns[-1]) else f"return {returns[-1]:.6g} after "
    return {
        "name": f"{name}: {known}{length}",
        "first": first,
        "actions": actions,
        "rewards": [_number(reward) for reward in rewards],
        "returns": [_number(score) for score in returns],
        "end": end,
    }


def _number(value: float) -> float | None:
    """Return a number rounded to six digits, or None for NaN and infinity, which JSON lacks."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _packed(tiles: list[np.ndarray]) -> str:
    """Return frames of sprite indices, compressed and base64-encoded.

    Each frame is stored as its difference from the previous frame. Unchanged tiles are then zeros,
    which take almost no space.
    """
    numbers = np.stack(tiles) if tiles else np.zeros((0, 0), np.uint32)
    # Negative differences wrap modulo 2**32. The player also adds modulo 2**32, so its sums are
    # the original indices.
    numbers[1:] -= numbers[:-1].copy()
    return base64.b64encode(zlib.compress(numbers.astype("<u4").tobytes(), 9)).decode("ascii")


def _embedded(content: Any) -> str:
    """Return JSON to embed in HTML, escaped so that no text in it can be parsed as markup."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
