"""Command `jaxenvs eval-text`: evaluate an agent that reads text and answers with an action."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import IO, Any

from ..commands import fields
from ..commands.parser import Parser, UsageError, guarded, make_env, number, unwritable
from ..core import registry
from ..core.env import Env
from ..core.extras import version
from ..core.typed import program
from .agents import REFERENCES, Agent, load
from .evaluation import INVALID, AnswerError, Episode, Result, Settings, summary
from .prompts import FORMAT, PromptError

SUMMARY = """\
Evaluate an agent that reads text, such as a language model: a function from a prompt to an answer.

The prompt has the rules, the state in words and the legal actions by name. The answer is an
action's name, or ends in a line such as "Action: pick up". An object with a method `reset` is
reset before each episode; a class is called without arguments.

References without a language model: random (legal actions), first-legal, reader (a script for
simple grid worlds)."""
EXAMPLES = (
    "eval-text BabyAI-GoToLocal-v0 --agent my_agent:answer --episodes 20",
    "eval-text Grid-DoorKey-5x5-v0 --agent random --out results/random",
)
INTERVAL = 5.0  # seconds between progress lines if the output is not a terminal
BAR = 30  # width of the progress bar in characters
MOST = 1_000_000


def main(argv: list[str]) -> int:
    """Run the command; return the exit code."""
    return guarded("eval-text", _run, argv)


def _parser() -> Parser:
    made = Parser("jaxenvs eval-text", SUMMARY, EXAMPLES)
    made.add_argument("id", metavar="ID", help=f"an id listed by `{program()} list`, or an alias")
    made.add_argument(
        "--agent",
        required=True,
        metavar="AGENT",
        help=f"module:function, or one of {', '.join(REFERENCES)}",
    )
    whole, seed = number(1, MOST), number(0, 2**31 - 1)
    made.add_argument(
        "--episodes", type=whole, default=10, metavar="N", help="number of episodes (default 10)"
    )
    made.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of levels and random draws (default 0)",
    )
    rules = "; ".join(f"{name}: {does}" for name, does in INVALID.items())
    made.add_argument(
        "--invalid",
        choices=[*INVALID],
        default="noop",
        help=f"what follows an answer that is no legal action; {rules} (default noop)",
    )
    made.add_argument(
        "--detail",
        choices=["full", "short"],
        default="full",
        help="detail of the observations (default full)",
    )
    made.add_argument(
        "--out", metavar="FOLDER", help="write eval.json and transcripts.jsonl to this folder"
    )
    made.add_fields("view_size=5")
    return made


def _run(argv: list[str]) -> int:
    args = _parser().read(argv)
    env = make_env(args.id, args.fields, args.params)
    try:
        agent = load(args.agent, args.seed)
    except ValueError as error:
        raise UsageError(str(error)) from error
    try:
        folder = Path(args.out) if args.out else None
        if folder is None:
            results, words = _play(env, agent, args, None)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "transcripts.jsonl").open("w", encoding="utf-8") as transcripts:
                results, words = _play(env, agent, args, transcripts)
        found = _found(args, results, words)
        print(_statement(found))
        if folder is not None:
            path = folder / "eval.json"
            path.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
            print(f"wrote {path} and {folder / 'transcripts.jsonl'}")
    except OSError as error:
        raise unwritable(error) from error
    return 0


def _play(
    env: Env, agent: Agent, args: argparse.Namespace, transcripts: IO[str] | None
) -> tuple[list[Result], str]:
    """Play the episodes; return their results and the definition of progress in words."""
    settings = Settings(args.seed, args.invalid, args.detail)
    results, words, shown = [], "", _Shown(args.id, args.episodes)
    for index in range(args.episodes):
        episode = Episode(env, index, settings)
        try:
            for turn in episode.play(agent):
                if transcripts is not None:
                    transcripts.write(json.dumps(turn._asdict()) + "\n")
                    transcripts.flush()
                shown.show(index, turn.step + 1, results)
        except (AnswerError, PromptError) as error:
            raise UsageError(str(error)) from error
        results.append(episode.result())
        words = episode.progress.definition
    shown.clear()
    return results, words


def _found(args: argparse.Namespace, results: list[Result], words: str) -> dict[str, Any]:
    """Return the content of eval.json."""
    return {
        "id": registry.spec(args.id).id,
        "fields": fields.parse(args.fields),
        "params": fields.parse(args.params, fields.PARAM),
        "agent": args.agent,
        "episodes": args.episodes,
        "seed": args.seed,
        "invalid": args.invalid,
        "detail": args.detail,
        "prompt_format": FORMAT,
        "progress_is": words,
        "summary": summary(results),
        "results": [_named(result) for result in results],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": {name: version(name) for name in ("jaxenvs", "jax")},
    }


def _named(result: Result) -> dict[str, Any]:
    return {{"total": "return"}.get(name, name): it for name, it in result._asdict().items()}


def _statement(found: dict[str, Any]) -> str:
    """Return the line of text that reports the means over the episodes."""
    means = found["summary"]
    parts = [f"return {_number(means['return'], means['return_error'])}"]
    if means["success"] is not None:
        parts.append(f"success {means['success']:.1%}")
    if means["progress"] is not None:
        parts.append(f"progress {_number(means['progress'], means['progress_error'])}")
    parts.append(f"{means['steps']:.1f} steps")
    parts.append(f"{means['invalid_share']:.1%} of the answers invalid")
    return f"{found['agent']} on {found['id']}, {found['episodes']} episodes: {', '.join(parts)}"


def _number(mean: float, error: float | None) -> str:
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


class _Shown:
    """Progress on stderr: a bar in a terminal, else a line every few seconds."""

    def __init__(self, id: str, episodes: int) -> None:
        self.id, self.episodes, self.last = id, episodes, time.monotonic()

    def show(self, index: int, steps: int, results: list[Result]) -> None:
        """Show the current episode and step, and the mean return of the finished episodes.

        Does nothing if the last update was less than 0.1 seconds ago, or `INTERVAL` without a
        terminal.
        """
        is_terminal, now = sys.stderr.isatty(), time.monotonic()
        if now - self.last < (0.1 if is_terminal else INTERVAL):
            return
        self.last = now
        text = f"{self.id}  episode {index + 1} of {self.episodes}, step {steps}"
        if results:
            text += f", mean return {summary(results)['return']:.3f}"
        if is_terminal:
            done = BAR * index // self.episodes
            text = f"\r\x1b[K[{'#' * done}{'.' * (BAR - done)}] {text}"
        print(text, end="" if is_terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the bar."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
