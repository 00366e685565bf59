"""`jaxenvs --completion SHELL`: a script that completes commands, ids and options.

All words are in the script, so that a TAB starts no Python; they are taken from the registry and
from what each `--help` prints. After an update, or with new ids, it is printed again.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from typing import NamedTuple

from . import cli
from .core import registry

GLOBAL = ("--help", "--version", "--completion")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_CHOICES = re.compile(r"(--[a-z-]+) \{([\w.,-]+)\}(?!\|)")


class Words(NamedTuple):
    """What may stand after a command."""

    summary: str
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    values: dict[str, tuple[str, ...]]  # of an option


def words() -> dict[str, Words]:
    """Words of every command; without options where its extra is not installed."""
    return {name: _words(name, command) for name, command in cli.COMMANDS.items()}


def _words(name: str, command: cli.Command) -> Words:
    pages = [_help(name)]
    learners = dict(_CHOICES.findall(pages[0])).get("--algo", "").split(",")
    pages += [_help(name, "--algo", learner) for learner in learners[1:]]
    text = "\n".join(pages)
    values = {option: tuple(given.split(",")) for option, given in _CHOICES.findall(text)}
    ids = _ids()
    values |= dict.fromkeys(command.options_of_ids, ids)
    families = tuple(dict.fromkeys(id.split("-", 1)[0] for id in registry.list()))
    arguments = {"families": families, "ids": ids, "puzzles": tuple(registry.list("Puzzle"))}
    options = tuple(sorted({*_OPTION.findall(text)}))
    return Words(command.summary, arguments.get(command.takes, ()), options, values)


def _ids() -> tuple[str, ...]:
    ids = registry.list()
    return (*ids, *(alias for id in ids for alias in registry.spec(id).aliases))


def _help(*argv: str) -> str:
    """What a command prints of itself; nothing where it cannot be loaded."""
    said, ignored = io.StringIO(), io.StringIO()
    silent = contextlib.redirect_stderr(ignored)
    with contextlib.redirect_stdout(said), silent, contextlib.suppress(SystemExit):
        cli.main([*argv, "--help"])
    return said.getvalue()


# What bash and zsh share: `list` is what fits after the word `before`, `options` after a dash.
_CASES = """    local ids="{ids}" list= options=
    if [[ $at == 1 ]]; then
        list="{commands}" options="{flags}"
    else case "$command $before" in
{rows}
    esac; fi
    [[ $word == -* ]] && list=$options"""
_BASH = """_jaxenvs() {{
    local at=$COMP_CWORD command="${{COMP_WORDS[1]}}"
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
{cases}
    COMPREPLY=($(compgen -W "$list" -- "$word"))
}}
complete -o default -F _jaxenvs jaxenvs"""
_ZSH = """#compdef jaxenvs
_jaxenvs() {{
    local at=$((CURRENT - 1)) command="${{words[2]}}"
    local word="${{words[CURRENT]}}" before="${{words[CURRENT-1]}}"
{cases}
    compadd -- ${{=list}} || _files
}}
[[ $funcstack[1] == _jaxenvs ]] && _jaxenvs "$@" || compdef _jaxenvs jaxenvs"""


def script(shell: str) -> str:
    """Return the script of a shell of `SHELLS`; where no word fits, files are completed."""
    known = words()
    if shell == "fish":
        return "\n".join(_fish(known))
    rows = [f'    "--completion "*) list="{" ".join(cli.SHELLS)}" ;;']
    for name, word in known.items():
        rows += [f'    "{name} {o}") list="{_listed(v)}" ;;' for o, v in word.values.items()]
        options = " ".join(word.options)
        rows.append(f'    "{name} "*) list="{_listed(word.arguments)}" options="{options}" ;;')
    cases = _CASES.format(
        ids=" ".join(_ids()), commands=" ".join(known), flags=" ".join(GLOBAL), rows="\n".join(rows)
    )
    return {"bash": _BASH, "zsh": _ZSH}[shell].format(cases=cases)


def _listed(given: tuple[str, ...]) -> str:
    """The words, or the variable that holds them where they are all ids."""
    return "$ids" if given == _ids() else " ".join(given)


def _fish(known: dict[str, Words]) -> Iterator[str]:
    complete = "complete -c jaxenvs"
    yield f"set -l ids {' '.join(_ids())}"
    for name, word in known.items():
        yield f'{complete} -f -n __fish_use_subcommand -a {name} -d "{word.summary}"'
        here = f'{complete} -n "__fish_seen_subcommand_from {name}"'
        if word.arguments:
            yield f'{here} -f -a "{_listed(word.arguments)}"'
        for option in word.options:
            given = word.values.get(option)
            yield f"{here} -l {option[2:]}" + (f' -x -a "{_listed(given)}"' if given else "")
    yield f'{complete} -n __fish_use_subcommand -l completion -x -a "{" ".join(cli.SHELLS)}"'
    for option in ("help", "version"):
        yield f"{complete} -n __fish_use_subcommand -l {option}"
