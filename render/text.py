"""`jaxenvs play ID --text`: play in a terminal, which shows `Env.describe` instead of pictures."""

import io
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxenvs.core.spaces import Discrete
from jaxenvs.text.actions import MOST_LISTED, ActionError, choose, labels, named

from .session import Session

PROMPT = "> "
COMMANDS = {
    "actions": "list every legal action",
    "undo": "take the last action back",
    "new": "begin a new level",
    "help": "print this",
    "quit": "leave (so do Ctrl-C and the end of the input)",
}


class Choice(NamedTuple):
    """A parsed line of input: an action's index, a command, or a problem to print."""

    action: int = -1
    command: str = ""
    problem: str = ""


def play(session: Session, title: str) -> int:
    """Read commands and print their results until the input ends; return the exit code."""
    # Characters that the terminal's encoding lacks are printed as escape sequences.
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    print(f"{title}. Type an action, its beginning or its number; `help` lists the commands.")
    print(scene(session))
    env = session.env
    try:
        for line in lines():
            controls = env.controls
            others = () if controls.values else env.action_names
            choice = chosen(line, controls.names, legal(session), others)
            if choice.command == "quit":
                break
            print(answer(session, choice))
    except KeyboardInterrupt:
        print()
    return 0


def lines() -> Iterator[str]:
    """Yield non-empty input lines, and echo them if the input is not a terminal.

    Yields nothing in a process without standard input, where `sys.stdin` is None.
    """
    while sys.stdin is not None:
        print(f"\n{PROMPT}", end="", flush=True)
        line = sys.stdin.readline()
        if not sys.stdin.isatty() or not line:
            print(line.rstrip())
        if not line:
            return
        if line.strip():
            yield line.strip()


def answer(session: Session, choice: Choice) -> str:
    """Carry out a parsed line of input; return the text to print."""
    if choice.problem:
        return choice.problem
    if choice.command == "help":
        rows = (f"  {name:<8} {does}" for name, does in COMMANDS.items())
        return "\n".join(["Type an action's name, its beginning or its number; or", *rows])
    if choice.command == "actions":
        return offered(session, len(session.env.controls.names))
    if choice.command == "undo":
        if session.cursor == 0:
            return "There is nothing to take back."
        session.seek(session.cursor - 1)
    elif choice.command == "new":
        session.new_level()
    elif not session.act(choice.action):
        return f"The episode is over. {after_the_end()}"
    return scene(session)


def scene(session: Session) -> str:
    """Return a description of the current state, with the step, return and legal actions."""
    env, now, state = session.env, session.now, session.state()
    words = "\n".join(["", env.describe(state), *_effects(session)])
    limit = int(np.asarray(env.time_limit(state, env.default_params)))
    clock = f"Step {int(state.time)} of at most {limit}, return {float(now.score[0]):.4g}."
    if session.is_over():
        how = "at the time limit" if now.truncated[0] else "here"
        end = f"The episode ends {how} with the return {float(now.score[0]):.4g}."
        return "\n".join([words, clock, end, after_the_end()])
    return "\n".join([words, clock, offered(session)])


def _effects(session: Session) -> list[str]:
    """Return a line for each fact that the latest action affected, such as a rule that has fired.

    Facts that do not appear in the description of the state are omitted.
    """
    known, facts = session.env.describe(session.state()), session.env.facts(session.state())
    values = (facts[i].value for i in session.effects().facts)
    return [f"Just now: {value}." for value in values if value in known]


def after_the_end() -> str:
    """Return a sentence that lists the commands after the end of an episode."""
    return "Type `new` for the next level, `undo` to go back, or `quit`."


def offered(session: Session, most: int = MOST_LISTED) -> str:
    """Return a sentence that lists at most `most` legal actions with their indices."""
    allowed = legal(session)
    shown = ", ".join(labels(session.env.controls.names, allowed[:most]))
    more = len(allowed) - most
    rest = f" and {more:,} more (`actions` lists them)" if more > 0 else ""
    return f"Actions: {shown}{rest}." if allowed else "No action is legal."


def legal(session: Session) -> list[int]:
    """Return the indices of the actions that are legal in the current state.

    If the action space is not discrete, every action of `Env.controls` is legal.
    """
    if not isinstance(session.env.action_space, Discrete):
        return [*range(len(session.env.controls.actions))]
    return np.flatnonzero(np.asarray(session.env.action_mask(session.state()))).tolist()


def chosen(
    line: str, names: Sequence[str], allowed: Sequence[int], other_names: Sequence[str] = ()
) -> Choice:
    """Parse a line as an action or a command.

    The first interpretation that fits counts: an action's name, a command, an action's index, or
    the start of an action's name. `names` are the names of the actions, `other_names` alternative
    names, and `allowed` the indices of the legal actions.
    """
    word = " ".join(line.lower().split())
    if word in COMMANDS and not (named(line, names) or named(line, other_names)):
        return Choice(command=word)
    try:
        return Choice(action=choose(line, names, allowed, other_names, [*COMMANDS]))
    except ActionError as error:
        return Choice(problem=str(error))
