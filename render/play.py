"""`jaxenvs play ID`: play an environment with the keyboard."""

import argparse
from collections.abc import Callable, Iterator

from ..core.env import Env
from ..fields import gathered
from . import arguments
from .arguments import UsageError
from .controls import Controller, playable
from .pilots import RANDOM
from .session import Session

SUMMARY = """Play an environment in a window.

Arrows or WASD turn and move. In a grid Space toggles, Tab picks up, Q or Left Shift drops. In Craft
Space gathers, hits and eats, Tab sleeps, R, T, F and P place a stone, a table, a furnace and a
plant, 1 to 6 make tools, Q waits. In a puzzle the arrows move what moves, or a cursor where Space
(or a click) acts; cubes turn by the letters of their faces, with Shift back. Backspace undoes, N
begins a new level, G saves a GIF, H lists the keys, Esc quits."""
EXAMPLES = """  jaxenvs play Grid-DoorKey-8x8-v0
  jaxenvs play Grid-FourRooms-v0 --seed 3 --set view_size=9
  jaxenvs play Grid-Empty-5x5-v0 --keys "up up right up up" --gif walk.gif
  jaxenvs play Craft-Classic-Pixels-v0
  jaxenvs play Puzzle-Cube-3x3-v0 --set scramble=3
  jaxenvs play Grid-v0 --screenshot window.png"""


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    return arguments.guarded("play", _run, argv)


def _run(argv: list[str]) -> int:
    parser = arguments.parser("play", SUMMARY, EXAMPLES)
    parser.add_argument("id", metavar="ID", help="as `jaxenvs list` prints them")
    parser.add_argument(
        "--keys", help="play these keys into the file, such as 'w w a space' (else: random moves)"
    )
    options = parser.parse_args(gathered(argv))
    headless = arguments.checked_outputs(options)
    if options.keys is not None and not headless:
        raise UsageError("--keys goes with --gif FILE, --html FILE or --screenshot FILE")
    env = _playable(options)
    if not headless:
        from .window import open_window

        return open_window(lambda: _controller(env, options), options.id, options.tile_size)
    controller = _controller(env, options)
    arguments.draw_files(controller, options, _moves(controller, options.keys))
    return 0


def _playable(options: argparse.Namespace) -> Env:
    """Build the environment, and refuse it where keys cannot play it."""
    env = arguments.make_env(options.id, options.fields)
    try:
        playable(env)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return env


def _controller(env: Env, options: argparse.Namespace) -> Controller:
    has_moves = arguments.is_film(options) or options.html or options.frames
    moves_by_itself = options.keys is None and has_moves
    session = Session(
        env, RANDOM if moves_by_itself else None, seed=options.seed, speed=options.fps
    )
    return Controller(session, options.id, "play")


def _moves(controller: Controller, keys: str | None) -> Callable[[], bool]:
    """Return what makes the next moment: the next key, or random play without keys."""
    if keys is None:

        def forward() -> bool:
            controller.session.forward()
            return True

        return forward
    rest: Iterator[str] = iter(keys.replace(",", " ").split())

    def press() -> bool:
        key = next(rest, None)
        if key is None:
            return False
        if not controller.press(key):
            known = " ".join(k for binding in controller.bindings for k in binding.keys)
            raise UsageError(f"--keys: {key!r} does nothing here; the keys are {known}")
        return True

    return press
