"""The tools of the MCP server: names, arguments, documentation and functions.

`call` runs a tool without any protocol: arguments are JSON values, the answer is text, data and
perhaps a picture.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxenvs.render.session import MAX_MOMENTS

from ..commands.info import WIDTH, plain
from ..commands.listing import matching
from ..commands.page import Section, page
from ..commands.parser import UsageError
from ..core.checks import counted, suggestion
from .arguments import FLAG, OBJECT, TEXT, Argument, checked, whole
from .episode import DETAILS, MAX_ACTIONS, MAX_SEED, NAMES_SHOWN, Episode
from .games import Games, check_id, environment

logger = logging.getLogger(__name__)
MAX_ITEMS = 1000  # maximum length of a list in an answer
MAX_PROBLEM = 4000  # maximum number of characters in the text of a failed answer
# The tool `rules` prints the page of an environment, which `jaxenvs info` prints too. FIELDS are
# the titles of the sections about arguments of `jaxenvs.make`. SECTIONS are the titles of the
# sections that `rules` prints by default; with its argument `full`, it prints all sections.
FIELDS = ("Constructor fields", "Params")
SECTIONS = ("Rules", "Actions", "Reward", "Episode ends", "Achievements", *FIELDS)


class Client(NamedTuple):
    """The client that calls a tool, and the `Games` object with its sessions (named episodes)."""

    games: Games
    name: str | None = ""  # identity of the client; None if the identity is not known

    def session(self, arguments: Mapping[str, Any]) -> tuple[str, Episode]:
        """Return the name and the episode of the session that the arguments name.

        If the arguments name no session, return the session that the client used last.
        """
        session = arguments["session"]
        if not session and self.name is None:
            raise UsageError(
                "give `session`, the name that reset returned: this protocol has no connections, "
                "so the server cannot tell your requests from others"
            )
        session = session or self.games.latest(self.name or "")
        return session, self.games.find(self.name, session)


class Answer(NamedTuple):
    """The result of a tool."""

    text: str
    data: Mapping[str, Any] | None = None  # content of `text` as JSON values
    png: bytes | None = None
    failed: bool = False


class Tool(NamedTuple):
    """A tool of the server."""

    name: str
    doc: str
    arguments: tuple[Argument, ...]
    run: Callable[[Client, Mapping[str, Any]], Answer]
    only_reads: bool = True  # whether the tool leaves all episodes unchanged


def call(client: Client, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Run a tool and return its answer, with `failed` set if the caller made a mistake."""
    tool = TOOLS.get(name)
    if tool is None:
        near = suggestion(name, TOOLS)
        return _failed(f"no tool {name!r}; the tools are {', '.join(TOOLS)}{near}")
    try:
        answer = tool.run(client, checked(tool.arguments, arguments))
    except UsageError as error:
        return _failed(f"{name}: {error}")
    except Exception as error:  # a fault of an environment must not end the server
        logger.exception("the tool %s failed", name)
        return _failed(f"{name} failed on the server: {type(error).__name__}: {error}")
    return _failed(answer.text, answer.data) if answer.failed else answer


def _failed(text: str, data: Mapping[str, Any] | None = None) -> Answer:
    """Return a failed answer.

    If the text is too long, its middle is left out, because its end gives advice.
    """
    if len(text) > MAX_PROBLEM:
        text = f"{text[: MAX_PROBLEM // 2 - 3]}...{text[-MAX_PROBLEM // 2 :]}"
    return Answer(text, data, failed=True)


SESSION = Argument(
    "session", TEXT, "name of the session, as reset returned it; default: the last one used", ""
)
DETAIL = Argument(
    "detail",
    {"type": "string", "enum": list(DETAILS)},
    "full: all that is known; short: one to three lines; changes: by the last actions",
    "full",
)


# Functions of the tools: each takes the client and the checked arguments, and returns an `Answer`.


def _list(client: Client, given: Mapping[str, Any]) -> Answer:
    found = matching(given["search"].split())
    shown = found[: given["limit"]]
    lines = [f"{spec.id}: {spec.summary}" for spec in shown]
    if len(found) > len(shown):
        more = len(found) - len(shown)
        lines.append(f"({more:,} more: give another word to search for, or a larger limit)")
    ids = [spec.id for spec in shown]
    return Answer("\n".join(lines), {"environments": ids, "found": len(found)})


def _rules(client: Client, given: Mapping[str, Any]) -> Answer:
    check_id(given["environment"])
    content = page(given["environment"])
    if not given["full"]:
        kept = [_shortened(part) for part in content.sections if part.title in SECTIONS]
        content = content._replace(sections=tuple(kept))
    return Answer("\n".join(plain(content, WIDTH)), {"environment": content.id})


def _shortened(part: Section) -> Section:
    """Return a section without the details that only human players and Python users need."""
    if part.title == "Actions":
        return part._replace(head=part.head[:2], rows=tuple(row[:2] for row in part.rows))
    if part.title in FIELDS:
        return part._replace(title="Fields of reset", text=())
    return part


def _reset(client: Client, given: Mapping[str, Any]) -> Answer:
    id, seed = given["environment"], given["seed"]
    if given["session"]:  # raise an error for an unknown session before the environment is compiled
        client.session(given)
    episode = Episode(environment(id, given["fields"]), seed, id)
    name = client.games.open(client.name, episode, given["session"])
    with episode.lock:
        head = f"Session {name}: {id}, seed {seed}."
        return Answer(f"{head}\n{scene(episode, given['detail'])}", _data(name, episode))


def _observe(client: Client, given: Mapping[str, Any]) -> Answer:
    name, episode = client.session(given)
    with episode.lock:
        return Answer(scene(episode, given["detail"]), _data(name, episode))


def _look(client: Client, given: Mapping[str, Any]) -> Answer:
    name, episode = client.session(given)
    with episode.lock:
        return Answer(status(episode), _data(name, episode), episode.picture())


def _legal(client: Client, given: Mapping[str, Any]) -> Answer:
    name, episode = client.session(given)
    with episode.lock:
        names = episode.legal()
        data = {"session": name, "actions": names[:MAX_ITEMS], "count": len(names)}
        return Answer(offered(episode, MAX_ITEMS), data)


def _act(client: Client, given: Mapping[str, Any]) -> Answer:
    name, episode = client.session(given)
    asked = given["actions"]
    with episode.lock:
        taken = episode.act(asked)
        count = len(taken.actions)
        lines = [f"Took {counted(count, 'action')}: {', '.join(taken.actions)}."] if count else []
        if taken.problem:
            stop = f"Stopped at action {count + 1} of {len(asked)}, {asked[count]!r}"
            lines.append(f"{stop}: {taken.problem}")
        if count:
            lines.append(f"Reward {taken.reward:.4g}.")
            lines.append(scene(episode, given["detail"], count))
        data = {"taken": list(taken.actions), "reward": taken.reward, "problem": taken.problem}
        data |= _data(name, episode)
        return Answer("\n".join(lines), data, failed=not count)


def _undo(client: Client, given: Mapping[str, Any]) -> Answer:
    name, episode = client.session(given)
    with episode.lock:
        episode.undo(given["steps"])
        return Answer(scene(episode, given["detail"]), _data(name, episode))


def _score(client: Client, given: Mapping[str, Any]) -> Answer:
    name, episode = client.session(given)
    with episode.lock:
        score = episode.score()
        lines = [status(episode)]
        if score.success is not None:
            lines.append(f"Success: {'yes' if score.success else 'no'}.")
        if score.progress is not None:
            lines.append(f"Progress: {score.progress:.3g} of 1.")
        if episode.env.achievements:
            got, of = len(score.achievements), len(episode.env.achievements)
            names = f": {', '.join(score.achievements)}" if got else ""
            lines.append(f"Achievements: {got} of {of}{names}.")
        return Answer("\n".join(lines), _data(name, episode))


def _close(client: Client, given: Mapping[str, Any]) -> Answer:
    name, _ = client.session(given)
    client.games.close(client.name, name)
    return Answer(f"Closed session {name}.", {"session": name})


# Texts and data of an episode.


def scene(episode: Episode, detail: str, steps: int = 1) -> str:
    """Return the description of the current state, the status and the legal actions.

    steps: number of the last steps whose changes are described, if `detail` is `changes`.
    """
    words = episode.describe(detail, steps)
    return "\n".join([words, status(episode), offered(episode, NAMES_SHOWN)])


def status(episode: Episode) -> str:
    """Return text with the number of steps, the return and, at the end, how the episode ended."""
    score = episode.score()
    line = f"Step {score.steps} of at most {score.limit}, return {score.total:.4g}."
    if not score.over:
        return line
    how = "by the rules" if score.terminated else "at the time limit"
    success = {True: ", with success", False: ", without success", None: ""}[score.success]
    return f"{line} The episode has ended {how}{success}."


def offered(episode: Episode, most: int) -> str:
    """Return a sentence that lists at most `most` legal actions.

    After the end of the episode, return a sentence about `reset` and `undo` instead.
    """
    if episode.is_over:
        return "No action is legal: reset starts another episode, undo goes back."
    names = episode.legal()
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"Legal actions: {', '.join(names[:most])}{more}." if names else "No action is legal."


def _data(name: str, episode: Episode) -> dict[str, Any]:
    score = episode.score()._asdict()
    score |= {"return": score.pop("total"), "achievements": list(score["achievements"])}
    known = {"session": name, "environment": episode.id, "seed": episode.seed}
    return {**known, **score, "over": episode.is_over, "undoable": episode.undoable}


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "list_environments",
            "List environments: ids with a summary.",
            (
                Argument("search", TEXT, "words that the id or the summary must contain", ""),
                Argument("limit", whole(1, MAX_ITEMS), "maximum number of environments", 20),
            ),
            _list,
        ),
        Tool(
            "rules",
            "Explain an environment: rules, actions, reward, end, and the fields of reset.",
            (
                Argument("environment", TEXT, "an id of list_environments"),
                Argument("full", FLAG, "whether to add arrays and reference returns", False),
            ),
            _rules,
        ),
        Tool(
            "reset",
            "Start an episode of an environment. Returns the name of its session, the first "
            "observation and the legal actions. The same environment, fields, seed and actions "
            "give the same episode.",
            (
                Argument("environment", TEXT, "an id of list_environments"),
                Argument("seed", whole(0, MAX_SEED), "number of the random level", 0),
                Argument("fields", OBJECT, "settings of the environment, see rules", {}),
                SESSION._replace(
                    doc="name of a session whose episode to replace; default: open a new session"
                ),
                DETAIL,
            ),
            _reset,
            only_reads=False,
        ),
        Tool("observe", "Describe the current state in words.", (SESSION, DETAIL), _observe),
        Tool(
            "look",
            "Show what the agent sees as a picture; ahead is up in a grid world.",
            (SESSION,),
            _look,
        ),
        Tool("legal_actions", "List all actions that are legal now.", (SESSION,), _legal),
        Tool(
            "act",
            "Take one or several actions in order. Stops at the end of the episode and before an "
            "action that is not legal, and tells which one.",
            (
                Argument(
                    "actions",
                    {"type": "array", "items": TEXT, "minItems": 1, "maxItems": MAX_ACTIONS},
                    "names of legal actions, such as ['left', 'forward']",
                ),
                SESSION,
                DETAIL,
            ),
            _act,
            only_reads=False,
        ),
        Tool(
            "undo",
            "Take back the last actions. The same actions then have the same outcomes.",
            (
                Argument("steps", whole(1, MAX_MOMENTS), "number of actions to take back", 1),
                SESSION,
                DETAIL,
            ),
            _undo,
            only_reads=False,
        ),
        Tool(
            "score",
            "Report return, steps, success, progress and achievements of the episode.",
            (SESSION,),
            _score,
        ),
        Tool("close", "Close a session and free its memory.", (SESSION,), _close, only_reads=False),
    )
}
