"""Functions that draw states as pictures and animations, for scripts and notebooks.

The functions need neither a display nor pygame.
"""

import importlib
import numbers
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack, overload

import jax
import numpy as np

from jaxenvs.core import checks, drawing, png
from jaxenvs.core.env import Env
from jaxenvs.core.extras import require
from jaxenvs.core.vector import VectorEnv, VectorState

from . import animation, frames, gif

FPS = 8.0  # default frame rate of animations, in states per second
END_PAUSE = 0.8  # minimum time for which the last state of an episode is shown, in seconds
MOST_BOARDS = 64  # default of `boards`, the maximum number of environments drawn from a batch
MOST_TILE = 512  # largest `tile_size`, the side of a grid cell in pixels
REPLAYS = (".html", ".htm")
# Format -> required packages. Videos are not listed: `animation.suffix` checks their packages.
_NEEDED = {".gif": ["PIL"]}
# Number of pictures of environments drawn by one call in an animation, rounded up to whole time
# steps. The last batch is padded to this size, so that drawing is compiled only once.
AT_ONCE = 16


class Renderer(types.ModuleType):
    """Class that makes a module callable; `jaxenvs.render` is an instance of it."""

    def __call__(
        self,
        env: Env | VectorEnv,
        state: Any,
        *,
        tile_size: int | None = None,
        boards: int = MOST_BOARDS,
        params: Any = None,
    ) -> png.Picture:
        """Draw a state as a uint8 array (height, width, 3), which notebooks display.

        For a batch (a state of `make_vec`, or states stacked along a first axis), draw the first
        `boards` environments side by side in a grid. `tile_size` is the side of a grid cell in
        pixels; by default the picture fits into 512 pixels. Pass `params` if they change the
        picture, such as the light in Craft.

        Raises `TypeError` for a state of another environment and `NotImplementedError` for an
        environment without pictures.
        """
        shown = _sequence(env, state, "render", boards)
        _check_look("render", shown.env, tile_size, params)
        (picture,) = shown.pictures(tile_size, params)
        return picture.view(png.Picture)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form of this module: an instruction to import it by its name."""
        return importlib.import_module, (self.__name__,)


class Look(TypedDict, total=False):
    """Types of the optional keyword arguments of `animate`."""

    fps: float
    tile_size: int | None
    boards: int
    params: Any


@overload
def animate(
    env: Env | VectorEnv, states: Any, path: None = None, **look: Unpack[Look]
) -> "Animation": ...


@overload
def animate(
    env: Env | VectorEnv, states: Any, path: str | os.PathLike[str], **look: Unpack[Look]
) -> Path: ...


def animate(
    env: Env | VectorEnv,
    states: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    fps: float = FPS,
    tile_size: int | None = None,
    boards: int = MOST_BOARDS,
    params: Any = None,
) -> "Animation | Path":
    """Animate a sequence of states at `fps` states per second.

    `states` is a sequence of states, or one state whose leaves have time as their first axis, as
    `jax.lax.scan` returns it. States may be batched: states of `make_vec`, or leaves with
    environments as their second axis. Of a batch, the first `boards` environments are drawn side by
    side. `tile_size` and `params` are the same as for `jaxenvs.render`.

    Without a path, returns an `Animation`, which notebooks display as a GIF. With a path, writes an
    animation (.gif, .mp4, .webm) or a replay for the browser (.html) and returns the path.

    Raises `TypeError` for states of another environment, `ValueError` for any other suffix,
    `MissingExtraError` if Pillow or imageio-ffmpeg is missing, and `OSError` if the file cannot be
    written.
    """
    animation = Animation(_sequence(env, states, "animate", boards), fps, tile_size, params)
    return animation if path is None else animation.save(path)


def check_format(path: str | os.PathLike[str], where: str = "animate") -> str:
    """Return the suffix of the file that `animate` would write; error messages begin with `where`.

    Raises `ValueError` for a suffix that is neither an animation's nor a replay's, and
    `MissingExtraError` if a package for the format is missing.
    """
    found = Path(path).suffix.lower()
    if found in REPLAYS:
        return found
    if found not in animation.FORMATS:
        *most, last = (*animation.FORMATS, REPLAYS[0])
        raise ValueError(f"{where}: {path} must end in {', '.join(most)} or {last}")
    require(_NEEDED.get(found, []), "play")
    return animation.suffix(path)


class Animation:
    """An animated sequence of states, made by `animate`; notebooks display it as a GIF."""

    def __init__(
        self, sequence: "StateSequence", fps: float, tile_size: int | None, params: Any
    ) -> None:
        """Check the arguments, which are the same as for `animate`."""
        if isinstance(fps, bool) or not isinstance(fps, numbers.Real):
            raise TypeError(f"animate: fps must be a number, got {fps!r}")
        if not 0 < fps <= 100:
            raise ValueError(f"animate: fps={fps} is out of range; it must be above 0, at most 100")
        _check_look("animate", sequence.env, tile_size, params)
        self._sequence, self._fps, self._tile_size, self._params = sequence, fps, tile_size, params
        self._gif: bytes | None = None

    def __len__(self) -> int:
        """Return the number of pictures, one per time step."""
        return len(self._sequence)

    def __repr__(self) -> str:
        return f"<{checks.counted(len(self), 'picture')} of {self._sequence.env.name}>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the animation or replay that the suffix of `path` selects; return the path.

        A failure never leaves a partial file.
        """
        if check_format(path) in REPLAYS:
            self._write_replay(path)
        else:
            animation.write(path, self._timed(), self._fps)
        return Path(path)

    def _repr_html_(self) -> str:
        if self._gif is None:
            require(_NEEDED[".gif"], "play")
            self._gif = gif.encoded(self._timed())
        name = f"{checks.counted(len(self), 'state')}, one after another"
        return f'<img alt="{name}" src="{png.address(self._gif, "gif")}">'

    def _timed(self) -> Iterator[tuple[np.ndarray, float]]:
        """Yield pairs of a picture and its duration in seconds."""
        pictures = self._sequence.pictures(self._tile_size, self._params)
        for picture, ends in zip(pictures, self._sequence.pauses(), strict=True):
            yield picture, max(1 / self._fps, END_PAUSE if ends else 0.0)

    def _write_replay(self, path: str | os.PathLike[str]) -> None:
        from . import replay

        shown = self._sequence
        writer = replay.ReplayWriter(shown.env, shown.boards, self._tile_size, self._params)
        for moment in shown.moments():
            writer.add_moment(moment)
        title = type(drawing.unwrapped(shown.env)).__name__
        writer.write(path, title, [], "", float(self._fps))


class StateSequence(NamedTuple):
    """States over time of one or more environments, as NumPy arrays."""

    env: Env
    states: Any  # one pytree whose leaves have the shape (times, boards, ...)

    def __len__(self) -> int:
        return len(jax.tree.leaves(self.states)[0])

    @property
    def boards(self) -> int:
        """Number of environments that are drawn side by side."""
        return jax.tree.leaves(self.states)[0].shape[1]

    def pictures(self, tile_size: int | None, params: Any) -> Iterator[np.ndarray]:
        """Yield one picture per time step, with all environments side by side."""
        tile_size = tile_size or frames.wall_tile_size(self.env, self.boards)
        paint = frames.board_painter(self.env, tile_size)
        columns, boards = frames.wall_columns(self.boards), self.boards
        # Number of pictures. `reshape` cannot infer this length (-1) for a leaf without elements.
        rows = len(self) * boards
        flat = jax.tree.map(lambda leaf: leaf.reshape(rows, *leaf.shape[2:]), self.states)
        together = 1 if len(self) == 1 else AT_ONCE
        chunk = -(-together // boards) * boards
        for start in range(0, rows, chunk):
            part = jax.tree.map(lambda leaf, at=start: _padded(leaf[at : at + chunk], chunk), flat)
            drawn = paint(part, params)[: rows - start]
            for wall in np.split(drawn, len(drawn) // boards):
                yield frames.mosaic(wall, columns)

    def begins(self) -> np.ndarray:
        """Return a mask of the time steps at which an episode begins, bool (times, environments).

        True at the first time step, and wherever the state's `time` has not increased.
        """
        clock = self.states.time
        return np.concatenate([np.ones_like(clock[:1], np.bool_), clock[1:] <= clock[:-1]])

    def pauses(self) -> list[bool]:
        """Return for each time step whether it is shown for at least `END_PAUSE` seconds.

        True for the last time step. If a single environment is drawn, also True for the last time
        step of each episode.
        """
        begins = self.begins()[1:, 0] if self.boards == 1 else np.zeros(len(self) - 1, np.bool_)
        return [*begins.tolist(), True]

    def moments(self) -> Iterator[Any]:
        """Yield a `Moment` per time step.

        Values that a state does not contain, such as the reward, are NaN, False, 0 or empty.
        """
        from .session import NO_ACTION, Moment

        boards = self.boards
        unknown, no = np.full(boards, np.nan, np.float32), np.zeros(boards, np.bool_)
        rest: dict[str, Any] = {
            **dict.fromkeys(("reward", "score", "total"), unknown),
            **dict.fromkeys(("terminated", "truncated", "succeeded"), no),
            "finished": np.zeros(boards, np.int32),
            "earned": np.zeros((boards, 0), np.bool_),
            "taken": (),
            "memory": (),
        }
        begins = self.begins()
        episodes = np.cumsum(begins, axis=0, dtype=np.int32) - 1
        for i in range(len(self)):
            known: dict[str, Any] = {
                "state": jax.tree.map(lambda leaf, i=i: leaf[i], self.states),
                "action": np.where(begins[i], NO_ACTION, 0).astype(np.int32),
                "episode": episodes[i],
            }
            yield Moment(**known, **rest)


def _check_look(where: str, env: Env, tile_size: int | None, params: Any) -> None:
    """Raise an error for an invalid tile size or for params of another environment."""
    if tile_size is not None:
        checks.integer_field(where, "tile_size", tile_size, 1, MOST_TILE)
    if params is not None and jax.tree.structure(params) != jax.tree.structure(env.default_params):
        env.checked_params(params, where)  # raises if the params are invalid


def _sequence(env: Env | VectorEnv, states: Any, where: str, boards: int) -> StateSequence:
    """Check the states given to `render` or `animate`, and convert them to a `StateSequence`.

    where: the calling function, "render" (one state) or "animate" (states over time).
    """
    if not isinstance(env, (Env, VectorEnv)):
        kind = type(env).__name__
        raise TypeError(
            f"{where}: expected an environment of make() or make_vec(), got {kind} {env!r}"
        )
    env = env.env if isinstance(env, VectorEnv) else env
    if not drawing.is_drawn(env):
        raise NotImplementedError(f"{where}: {env.name} {drawing.UNDRAWN}")
    checks.integer_field(where, "boards", boards, 1)
    like, timed = env.state_shape, where == "animate"
    states = _inner(states)
    if isinstance(states, Iterator):
        states = list(states)
    listed = isinstance(states, (list, tuple))
    if timed and listed and jax.tree.structure(states) != jax.tree.structure(like):
        states = _stacked([_inner(state) for state in states], like)
    states = _on_host(states, like, where)
    axes = _axes(states, like, where)
    if axes - timed not in (0, 1):
        raise TypeError(f"{where}: {_ADVICE[where]}")
    before = () if timed else (None,)
    between = (None,) if axes == timed else ()
    cut = (*before, *([slice(None)] * timed), *between)
    states = jax.tree.map(lambda leaf: leaf[cut][:, :boards], states)
    return StateSequence(env, states)


_ADVICE = {
    "render": "expected one state or one batch of states; use jaxenvs.animate for states over time",
    "animate": "expected a sequence of states, or states with time as their first axis and "
    "optionally environments as their second; use jaxenvs.render for one state",
}


def _inner(state: Any) -> Any:
    return state.env if isinstance(state, VectorState) else state


def _stacked(states: list[Any], like: Any) -> Any:
    """Stack states along a new first axis; an error names the first state that differs."""
    if not states:
        raise ValueError("animate: no states to draw")
    states = [_on_host(state, like, "animate") for state in jax.device_get(states)]
    for state in states:
        _axes(state, like, "animate")
    first = jax.tree.map(np.shape, states[0])
    for i, state in enumerate(states):
        if jax.tree.map(np.shape, state) != first:
            raise TypeError(
                f"animate: state {i} has another batch size than state 0; give single states or "
                "batches of one size"
            )
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


def _on_host(states: Any, like: Any, where: str) -> Any:
    """Return the states with NumPy leaves.

    Raises `TypeError` if the pytree structures of `states` and `like`, the state of a single
    environment, differ.
    """
    if jax.tree.structure(states) != jax.tree.structure(like):
        checks.state_of(states, like, where)  # raises `TypeError` for another structure
    return jax.tree.map(np.asarray, jax.device_get(states))


def _axes(states: Any, like: Any, where: str) -> int:
    """Return the number of leading batch or time axes of `states`.

    like: a state of one environment at one time step. Raises `TypeError` if the lengths of the
        leading axes differ between the leaves, and `ValueError` if a length is 0.
    """
    leaves, shapes = jax.tree.leaves(states), jax.tree.leaves(like)
    axes = max(0, np.ndim(leaves[0]) - len(shapes[0].shape)) if leaves and shapes else 0
    if any(0 in np.shape(leaf)[:axes] for leaf in leaves):
        raise ValueError(f"{where}: no states to draw")
    one = jax.tree.map(lambda leaf: leaf[(0,) * min(axes, np.ndim(leaf))], states)
    checks.state_of(one, like, where)
    if len({np.shape(leaf)[:axes] for leaf in leaves}) > 1:
        raise TypeError(f"{where}: the leading axes of the states' leaves differ")
    return axes


def _padded(rows: np.ndarray, count: int) -> np.ndarray:
    """Pad a batch to `count` rows, by repeating the last row."""
    short = count - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], short, axis=0)]) if short else rows
