"""`jaxenvs play ID`: play an environment with the keyboard, in a window or in the terminal."""

import argparse
import sys
from collections.abc import Callable, Iterator

from jaxenvs.commands.parser import UsageError, make_env
from jaxenvs.core.env import Env
from jaxenvs.core.typed import program

from . import arguments, oracle, outputs, text
from .controls import Controller, playable, viewable
from .pilots import RANDOM
from .session import Session

SUMMARY = """Play an environment in a window, or with --text in the terminal.

Arrows or WASD move, or point at a place where Space (or a click) acts; `jaxenvs info ID` lists the
keys of every action. Backspace undoes, N begins a new level, G saves a GIF, H lists the keys, Esc
quits."""
EXAMPLES = (
    "play Grid-DoorKey-8x8-v0",
    "play Grid-FourRooms-v0 --seed 3 --set view_size=9",
    'play Grid-Empty-5x5-v0 --keys "up up right up up" --gif walk.gif',
    "play Craft-Classic-Pixels-v0",
    "play Puzzle-Cube-3x3-v0 --set scramble=3",
    "play Grid-v0 --screenshot window.png",
    "play Grid-v0 --text",
    "play Grid-DoorKey-8x8-v0 --web",
)


def main(argv: list[str]) -> int:
    """Run `jaxenvs play`; return the exit code."""
    return arguments.guarded("play", _run, argv)


def _run(argv: list[str]) -> int:
    parser = arguments.parser("play", SUMMARY, EXAMPLES)
    parser.add_argument("id", metavar="ID", help=f"an id listed by `{program()} list`")
    parser.add_argument(
        "--keys", help="keys to play in the file, such as 'w w a space' (default: random actions)"
    )
    parser.add_argument(
        "--text", action="store_true", help="play in the terminal, with states described in words"
    )
    options = parser.read(argv)
    arguments.check_web(options, "text", "keys")
    headless = arguments.checked_outputs(options)
    if options.text:
        return _play_text(options, headless)
    if options.keys is not None and not headless:
        raise UsageError("--keys needs a file: add --gif FILE, --html FILE or --screenshot FILE")
    env = make_env(options.id, options.fields, options.params)
    viewable(env)
    playable(env)
    if options.oracle:
        oracle.check(env)
    if options.web:
        return arguments.pages().open_pages(
            lambda: _controller(env, options), "play", argv, options
        )
    if not headless:
        from .window import open_window

        return open_window(lambda: _controller(env, options), options.id, options.tile_size)
    if options.keys is not None and options.frames is None:  # play all keys
        is_run_through = outputs.is_animation(options) or options.html
        options.frames = len(_split(options.keys)) + (1 if is_run_through else 0)
    controller = _controller(env, options)
    outputs.draw_files(controller, options, _moves(controller, options.keys))
    return 0


def _play_text(options: argparse.Namespace, headless: bool) -> int:
    if headless or options.keys is not None:
        raise UsageError("--text plays in the terminal; remove --keys, --gif, --html, --screenshot")
    if options.oracle:
        raise UsageError("--oracle shows its plan in a picture; remove --text or --oracle")
    env = make_env(options.id, options.fields, options.params)
    playable(env)
    if sys.stderr.isatty():
        print("compiling, a few seconds", file=sys.stderr)
    return text.play(Session(env, seed=options.seed), options.id)


def _controller(env: Env, options: argparse.Namespace) -> Controller:
    has_moves = outputs.is_animation(options) or options.html or options.frames
    moves_by_itself = options.keys is None and has_moves
    session = Session(
        env, RANDOM if moves_by_itself else None, seed=options.seed, speed=options.fps
    )
    return outputs.with_oracle(Controller(session, options.id, "play"), options)


def _split(keys: str) -> list[str]:
    return keys.replace(",", " ").split()


def _moves(controller: Controller, keys: str | None) -> Callable[[], bool]:
    """Return a function that advances the session by one step.

    A step presses the next key of `keys`; the function returns False when no key is left. If `keys`
    is None, a step lets the random policy act.
    """
    if keys is None:
        return controller.session.forward
    rest: Iterator[str] = iter(_split(keys))

    def press() -> bool:
        key = next(rest, None)
        if key is None:
            return False
        if not controller.press(key):
            known = " ".join(k for binding in controller.bindings for k in binding.keys)
            raise UsageError(f"--keys: {key!r} has no action here; use {known}")
        return True

    return press
