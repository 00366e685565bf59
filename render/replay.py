"""Replays: one HTML file with tile numbers, an atlas and a player, for any browser and no network.

Every frame of the compositor is cut into tiles, and tiles that are equal are one sprite of the
atlas. So whatever an environment draws comes back to the pixel: where that is a picture and not
made of tiles, there are more sprites.
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

ACROSS = 64  # sprites in a row of the atlas
WIDTH = 560  # pixels that a board may take on a side, unless told otherwise
FRAMES = 1000  # moments of a replay, unless told otherwise
NO_END = "cut here"  # where the replay ends before the episode does


class Film(NamedTuple):
    """What was seen of one board."""

    tiles: list[np.ndarray]  # uint32 (cells,) of every moment
    views: list[np.ndarray]  # what the agent saw, likewise; none where it sees no tiles
    missions: list[str]  # of every episode
    moments: list[tuple[int, float, float, bool, bool, int]]
    """Action, reward, return, terminated, truncated, number of the episode."""


class Reel:
    """Takes the moments of a session one by one, and writes them as a replay."""

    def __init__(
        self, env: Env, count: int = 1, tile_size: int | None = None, params: Any = None
    ) -> None:
        """By default tiles are as large as fits; smaller for pictures, which need many sprites."""
        largest = 32 if drawing.has_picture(env) else 64
        tile_size = tile_size or drawing.fitting_tile_size(
            drawing.board_shape(env), WIDTH, WIDTH, largest
        )
        self._env, self._params = env, params
        self._paint = frames.board_painter(env, tile_size)
        self._view = frames.view_painter(env, tile_size)
        self._size = tile_size
        self._numbers: dict[bytes, int] = {}  # of the sprites, by their pixels
        self._shape = self._view_shape = (0, 0)  # rows and columns of tiles
        self._films = [Film([], [], [], []) for _ in range(count)]
        self._names: dict[str, int] = {}  # of actions that are no numbers, as they come

    def add(self, session: Session) -> None:
        """Take the present moment of all boards."""
        self.add_moment(session.now, boards.pictures(session, self._size))

    def add_moment(self, now: Moment, pictures: frames.Frames | None = None) -> None:
        """Take a moment of all boards; `pictures` of them, where these show more than the state."""
        pictures = self._paint(now.state, self._params) if pictures is None else pictures
        views = self._view(now.state) if self._view else None
        for i, film in enumerate(self._films):
            tiles, self._shape = self._cut(pictures[i])
            film.tiles.append(tiles)
            if views is not None:
                tiles, self._view_shape = self._cut(views[i])
                film.views.append(tiles)
            if now.action[i] == NO_ACTION or not film.moments:
                film.missions.append(self._mission(now, i))
            numbers = (now.reward[i], now.score[i], now.terminated[i], now.truncated[i])
            reward, score, terminated, truncated = (number.item() for number in numbers)
            action, episode = self._action(now, i), int(now.episode[i])
            film.moments.append((action, reward, score, terminated, truncated, episode))

    def write(
        self,
        path: str | os.PathLike[str],
        title: str,
        names: Sequence[str],
        player: str,
        speed: float,
    ) -> int:
        """Write the file, whole or not at all; return how many episodes it shows.

        `names` are those of the actions; without them neither actions nor rewards are shown.
        `player` says who chose the actions, `speed` is in steps per second. Raises `OSError`.
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
            "frames": _packed([tiles for film in self._films for tiles in film.tiles]),
            "viewRows": self._view_shape[0],
            "viewColumns": self._view_shape[1],
            "views": _packed([tiles for film in self._films for tiles in film.views]),
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
        """Number of an action among the names that the file holds."""
        number = int(moment.action[board])
        if number == NO_ACTION or not jax.tree.leaves(moment.taken):
            return number
        name = action_name(self._env, board_moment(moment, board))
        return self._names.setdefault(name, len(self._names))

    def _mission(self, moment: Moment, board: int) -> str:
        """What the agent is to do, where an environment says it in a sentence."""
        state = board_state(moment, board)
        return " ".join(f.value for f in self._env.facts(state) if f.kind == "sentence")

    def _cut(
        self, picture: UInt8[np.ndarray, "height width 3"]
    ) -> tuple[UInt32[np.ndarray, " cells"], tuple[int, int]]:
        """Number the tiles of a picture, in rows and columns; what is new becomes a sprite."""
        size = self._size
        rows, columns = (-(-length // size) for length in picture.shape[:2])
        spare = (rows * size - picture.shape[0], columns * size - picture.shape[1])
        picture = np.pad(picture, ((0, spare[0]), (0, spare[1]), (0, 0)))
        tiles = picture.reshape(rows, size, columns, size, 3).swapaxes(1, 2)
        pixels = (tile.tobytes() for row in tiles for tile in row)
        numbers = [self._numbers.setdefault(tile, len(self._numbers)) for tile in pixels]
        return np.array(numbers, np.uint32), (rows, columns)

    def _episodes(self) -> list[dict[str, Any]]:
        """Episodes of all boards, one after another, with the place of their first frame."""
        episodes: list[dict[str, Any]] = []
        first = 0
        for board, film in enumerate(self._films):
            starts = [i for i, moment in enumerate(film.moments) if _begins(film, i)]
            for number, start in enumerate(starts):
                end = [*starts, len(film.moments)][number + 1]
                where = f"board {board + 1}, " if len(self._films) > 1 else ""
                name = f"{where}episode {film.moments[start][5] + 1}"
                row = _episode(name, first + start, film.moments[start:end])
                episodes.append({**row, "mission": film.missions[number]})
            first += len(film.moments)
        return episodes

    def _atlas(self) -> bytes:
        """All sprites as a PNG."""
        size, count = self._size, len(self._numbers)
        across = min(ACROSS, count)
        down = -(-count // across)
        sheet = np.zeros((down * across, size, size, 3), np.uint8)
        for number, pixels in enumerate(self._numbers):
            sheet[number] = np.frombuffer(pixels, np.uint8).reshape(size, size, 3)
        sheet = sheet.reshape(down, across, size, size, 3).swapaxes(1, 2)
        return png.encoded(sheet.reshape(down * size, across * size, 3))


def of_policy(policy: Any, path: str | os.PathLike[str], count: int = FRAMES) -> int:
    """Play a policy (see baselines/core/policy.py) for `count` moments, and write the replay.

    Returns how many episodes it shows. Raises `OSError`.
    """
    session = Session(policy.env, pilots.of_policy(policy))
    reel = Reel(policy.env)
    reel.add(session)
    for _ in range(count - 1):
        session.forward()
        reel.add(session)
    names = policy.env.controls.names
    return reel.write(path, policy.env_id, names, session.pilot.name, session.speed)


def _begins(film: Film, i: int) -> bool:
    return i == 0 or film.moments[i][0] == NO_ACTION


def _episode(name: str, first: int, moments: list[Any]) -> dict[str, Any]:
    """One episode, as the player reads it; its first moment has no action."""
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
    """A number of six digits; None where it is none, which JSON does not know."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _packed(tiles: list[np.ndarray]) -> str:
    """Differences to the frame before, deflated: what stays costs next to nothing."""
    films = np.stack(tiles) if tiles else np.zeros((0, 0), np.uint32)
    films[1:] -= films[:-1].copy()  # modulo 2**32
    return base64.b64encode(zlib.compress(films.astype("<u4").tobytes(), 9)).decode("ascii")


def _embedded(content: Any) -> str:
    """JSON that no HTML parser takes for markup, whatever names it holds."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
