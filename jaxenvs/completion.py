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
from .puzzles import Puzzle

GLOBAL = ("--help", "--version", "--completion")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_VALUE = re.compile(r"(--[a-z-]+) [A-Z{[]")  # an option that takes one, as help shows it
_CHOICES = re.compile(r"(--[a-z-]+) \{([\w.,-]+)\}(?!\|)")


class Words(NamedTuple):
    """What may stand after a command."""

    summary: str
    places: dict[str, tuple[str, ...]]  # words by place, see `cli.Command`
    folders: frozenset[str]  # places where a folder may stand as well
    options: dict[str, bool]  # whether a value follows


def words() -> dict[str, Words]:
    """Words of every command; without options where its extra is not installed."""
    return {name: _words(name, command) for name, command in cli.COMMANDS.items()}


def _words(name: str, command: cli.Command) -> Words:
    pages = [_help(name)]
    learners = dict(_CHOICES.findall(pages[0])).get("--algo", "").split(",")
    pages += [_help(name, "--algo", learner) for learner in learners[1:]]
    text = "\n".join(pages)
    kinds = _kinds()
    places = {option: tuple(given.split(",")) for option, given in _CHOICES.findall(text)}
    places |= {place: kinds[kind] for place, kind in command.takes.items()}
    folders = frozenset(place for place, kind in command.takes.items() if kind == "runs")
    valued = {*_VALUE.findall(text)}
    options = {option: option in valued for option in sorted({*_OPTION.findall(text)})}
    return Words(command.summary, places, folders, options)


def _kinds() -> dict[str, tuple[str, ...]]:
    """Words of each kind that `cli.Command.takes` names."""
    specs = [registry.spec(id) for id in registry.list()]
    ids = _ids()
    return {
        "families": tuple(dict.fromkeys(spec.family for spec in specs)),
        "ids": ids,
        "runs": ids,
        "sets": ("families", "all", *ids),
        "puzzles": tuple(spec.id for spec in specs if issubclass(spec.env_class, Puzzle)),
    }


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


# What bash and zsh share: `line` are the words before `word`, cut to the command, the last option
# and what follows that; `list` is what fits there, and `folders` whether folders do.
_CASES = """    local list= folders= command="${{line%% *}}"
    local ids="{ids}"
    if [[ $word == -* ]]; then case "$command" in
{options}
    esac; else
        [[ $line == *" -"* ]] && line="$command -${{line##* -}}"
        case "$line" in
{places}
    esac; fi"""
# Bash cuts `--algo=ppo` in three words. Where there is no word in COMPREPLY, it completes files.
_BASH = """_jaxenvs() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" line="${{COMP_WORDS[*]:1:COMP_CWORD-1}}"
    [[ $word == "=" ]] && word=
    line="${{line% =}}"
{cases}
    COMPREPLY=($(compgen -W "$list" -- "$word"))
    if [[ -n $folders ]]; then
        local IFS=$'\\n'
        COMPREPLY+=($(compgen -d -- "$word"))
        compopt -o filenames 2>/dev/null
    fi
}}
complete -o default -F _jaxenvs jaxenvs"""
_ZSH = """#compdef jaxenvs
_jaxenvs() {{
    local word="${{words[CURRENT]}}" line="${{words[2,CURRENT-1]}}"
    if [[ $word == --*=* ]]; then
        line+=" ${{word%%=*}}" word="${{word#*=}}"
        compset -P "*="
    fi
{cases}
    [[ -n $folders ]] && _files -/
    compadd -- ${{=list}} || [[ -n $folders ]] || _files
}}
[[ $funcstack[1] == _jaxenvs ]] && _jaxenvs "$@" || compdef _jaxenvs jaxenvs"""


def script(shell: str) -> str:
    """Return the script of a shell of `SHELLS`; where no word fits, files are completed."""
    known = words()
    if shell == "fish":
        return "\n".join(_fish(known))
    options = [f'    "") list="{" ".join(GLOBAL)}" ;;']
    places = [f'    "") list="{" ".join(known)}" ;;']
    places.append(f'    "--completion") list="{" ".join(cli.SHELLS)}" ;;')
    for name, word in known.items():
        options.append(f'    {name}) list="{" ".join(word.options)}" ;;')
        for place, given in word.places.items():
            folders = " folders=yes" if place in word.folders else ""
            places.append(f'    {_pattern(name, place)}) list="{_listed(given)}"{folders} ;;')
    cases = _CASES.format(
        ids=" ".join(_ids()), options="\n".join(options), places="\n".join(places)
    )
    return {"bash": _BASH, "zsh": _ZSH}[shell].format(cases=cases)


def _pattern(name: str, place: str) -> str:
    """What the line before a place looks like, for `case`."""
    line = f"{name} {place.removesuffix('...')}".strip()
    return f'"{line}"|"{line} "[!-]*' if place.endswith("...") else f'"{line}"'


def _listed(given: tuple[str, ...]) -> str:
    """The words, with the variable that holds all ids in their place."""
    return " ".join(given).replace(" ".join(_ids()), "$ids")


def _fish(known: dict[str, Words]) -> Iterator[str]:
    yield "function __jaxenvs_after  # whether the line before looks so, a regular expression"
    yield r'    string match -qr -- "^\S+$argv\$" (string join " " -- (commandline -opc))'
    yield "end"
    yield f"set -l ids {' '.join(_ids())}"
    for name, word in known.items():
        yield f'{_after("")} -f -a {name} -d "{word.summary}"'
        for option, valued in word.options.items():
            given = word.places.get(option) or word.places.get(f"{option} ...")
            value = f' -x -a "{_listed(given)}"' if given else " -r" if valued else ""
            yield f"{_after(f' {name}( .*)?')} -l {option[2:]}{value}"
        for place, given in word.places.items():
            option = place.removesuffix("...").strip()
            line = f" {name}( .*)? {option}" if option else f" {name}"
            several = r"( [^-]\S*)*" if place.endswith("...") else ""
            if several or not option:
                yield f'{_after(line + several)} -f -a "{_listed(given)}"'
            if place in word.folders:
                yield f"{_after(line)} -f -a '(__fish_complete_directories (commandline -ct) run)'"
    yield f'{_after("( --completion)?")} -l completion -x -a "{" ".join(cli.SHELLS)}"'
    for option in ("help", "version"):
        yield f"{_after('')} -l {option}"


def _after(line: str) -> str:
    return f"complete -c jaxenvs -n '__jaxenvs_after \"{line}\"'"
