"""`jaxenvs play ID --text`: play in a terminal, which shows `Env.describe` instead of pictures."""

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxenvs.core.checks import counted, suggestion
from jaxenvs.core.spaces import Discrete

from .session import Session

PROMPT = "> "
MOST = 40  # maximum number of legal actions that are listed after a step
DIGITS = 9  # maximum number of digits of a number that is taken as an action's index
LETTERS = 60  # maximum length of an input line that a message quotes in full
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
    # Print escape sequences instead of characters that the terminal's encoding lacks.
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

    `sys.stdin` is None in a process without standard input.
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
    """Return a line for each effect of the latest action, such as a rule that has fired.

    Effects that the description of the state does not mention are left out.
    """
    known, facts = session.env.describe(session.state()), session.env.facts(session.state())
    values = (facts[i].value for i in session.effects().facts)
    return [f"Just now: {value}." for value in values if value in known]


def after_the_end() -> str:
    """Return a sentence that lists the commands after the end of an episode."""
    return "Type `new` for the next level, `undo` to go back, or `quit`."


def offered(session: Session, most: int = MOST) -> str:
    """Return a sentence that lists at most `most` legal actions with their indices."""
    allowed = legal(session)
    shown = ", ".join(labels(session.env.controls.names, allowed[:most]))
    more = len(allowed) - most
    rest = f" and {more:,} more (`actions` lists them)" if more > 0 else ""
    return f"Actions: {shown}{rest}." if allowed else "No action is legal."


def labels(names: Sequence[str], actions: Iterable[int]) -> Iterator[str]:
    """Yield the index and name of each action; only the name if the name is a number."""
    return (names[i] if names[i].isdigit() else f"{i} {names[i]}" for i in actions)


def legal(session: Session) -> list[int]:
    """Return the indices of the actions that are legal in the current state."""
    if not isinstance(session.env.action_space, Discrete):
        return [*range(len(session.env.controls.actions))]
    return np.flatnonzero(np.asarray(session.env.action_mask(session.state()))).tolist()


def chosen(
    line: str, names: Sequence[str], allowed: Sequence[int], other_names: Sequence[str] = ()
) -> Choice:
    """Parse a line, in this order, as an action's name, a command, an index or the start of a name.

    `names` are the names of the actions, `allowed` the indices of legal actions, `other_names`
    alternative names of the actions.
    """
    word = " ".join(line.lower().split())
    found = _named(line, word, names) or _named(line, word, other_names)
    if not found and word in COMMANDS:
        return Choice(command=word)
    if not found and word.isdecimal() and len(word) <= DIGITS and int(word) < len(names):
        found = [int(word)]
    begun = [i for i, name in enumerate(names) if name.lower().startswith(word)]
    found = found or [i for i in begun if i in allowed] or begun
    if len(found) == 1 and found[0] in allowed:
        return Choice(action=found[0])
    return Choice(problem=_problem(line, found, names, allowed))


def _problem(line: str, found: Sequence[int], names: Sequence[str], allowed: Sequence[int]) -> str:
    """Return the error message for a refused line: the reason, and usually the legal actions.

    `found` has the actions that the line matches, possibly none.
    """
    known = ", ".join(labels(names, allowed[:MOST])) or "no action"
    given = repr(line if len(line) <= LETTERS else f"{line[: LETTERS - 3]}...")
    if len(found) == 1:
        return f"{names[found[0]]!r} is not legal now; legal actions: {known}."
    if found and found[0] not in allowed:
        kinds = counted(len(found), "action")
        return f"{given} matches {kinds}, none of them legal now; legal actions: {known}."
    if found:
        several = ", ".join(labels(names, found[:MOST]))
        return f"{given} matches {counted(len(found), 'action')}: {several}."
    near = suggestion(line[:LETTERS].lower(), [*(names[i] for i in allowed[:MOST]), *COMMANDS])
    legal_now = f"Legal now: {known}; or {', '.join(COMMANDS)}."
    return f"There is no action {given}{near or '.'} {legal_now}"


def _named(line: str, word: str, names: Sequence[str]) -> list[int]:
    """Return the indices of the actions with this name; `word` is the line in lower case.

    Case is ignored only if no name matches exactly: U' and u' are different actions of a cube.
    """
    exact = [i for i, name in enumerate(names) if name == line]
    return exact or [i for i, name in enumerate(names) if name.lower() == word]
