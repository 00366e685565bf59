"""`jaxenvs --completion SHELL`: print a script that completes commands, ids and options.

The script contains commands and options, taken from each `--help`; print it again after an update.
Ids are cached in a file in `~/.cache/jaxenvs`. The first TAB after a package was installed rewrites
that file, since the package may register ids; other TABs start no Python. If the file cannot be
written, the script completes the ids that existed when it was printed.

The scripts are written here because shtab and tyro lack features that users have: shtab 1.13
completes neither `--option=value` in bash and zsh nor a folder where an id may stand, and several
ids after `--ids` only in bash; tyro covers `train` alone and starts Python at every TAB.
"""

import contextlib
import io
import re
import shlex
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..core import registry
from ..puzzles.puzzle import Puzzle
from .table import COMMANDS, SHELLS, Command, load

KINDS = ("ids", "families", "puzzles")  # the lines of the cache file
GLOBAL = ("--help", "--version", "--completion")
_NAME = r"--[a-z][a-z0-9-]*"
# Options at the start of a line of help, in a box or not; help texts are indented further.
_OPTIONS = re.compile(rf"^(?:│ |  )?(?:-\w, )?({_NAME})(?:, ({_NAME}))*", re.MULTILINE)
_VALUE = re.compile(rf"({_NAME}) [A-Z{{[]")  # an option with a value, as help shows it
_CHOICES = re.compile(rf"({_NAME})(?: [A-Z]+ \[[A-Z]+ \.\.\.\])?\s+\{{([\w.,\s-]+)\}}(?!\|)")


class Words(NamedTuple):
    """Completions of a command."""

    summary: str
    places: dict[str, tuple[str, ...]]  # words by position, see `Command.takes`
    folders: frozenset[str]  # positions that also accept a folder
    options: dict[str, bool]  # whether a value follows


def words() -> dict[str, Words]:
    """Return the completions of every command; without options if its extra is not installed."""
    return {name: _words(name, command) for name, command in COMMANDS.items()}


def _choices(text: str) -> dict[str, tuple[str, ...]]:
    """Return the values that help lists for options, also over several lines."""
    found = _CHOICES.findall(text)
    return {option: tuple(map(str.strip, given.split(","))) for option, given in found}


def _words(name: str, command: Command) -> Words:
    pages = [_help(name)]
    learners = _choices(pages[0]).get("--algo", ("",))
    pages += [_help(name, "--algo", learner) for learner in learners[1:]]
    text = "\n".join(pages)
    kinds = _kinds()
    places = _choices(text)
    places |= {place: kinds[kind] for place, kind in command.takes.items()}
    folders = frozenset(place for place, kind in command.takes.items() if kind == "runs")
    valued = {*_VALUE.findall(text)}
    named = {option for found in _OPTIONS.findall(text) for option in found if option}
    options = {option: option in valued for option in sorted(named)}
    return Words(command.summary, places, folders, options)


def _kinds() -> dict[str, tuple[str, ...]]:
    """Return the words of each kind in `Command.takes`."""
    specs = [registry.spec(id) for id in registry.list()]
    ids = _ids()
    return {
        "families": tuple(registry.families()),
        "ids": ids,
        "runs": ids,
        "sets": ("families", "all", *ids),
        "puzzles": tuple(spec.id for spec in specs if issubclass(spec.env_class, Puzzle)),
    }


def main() -> int:
    """Print the words of each of `KINDS` on one line: the content of the scripts' cache."""
    kinds = _kinds()
    print(*(" ".join(kinds[kind]) for kind in KINDS), sep="\n")
    return 0


def _kept() -> str:
    """Return a program for `sh` that prints the cached words and updates them if they are old."""
    places = sorted({path for path in sys.path if any(Path(path or ".").glob("*.dist-info"))})
    here = f"{sys.prefix} {' '.join(places)}"
    return _KEPT.format(
        name=f"words-{zlib.crc32(here.encode()):08x}",
        places=" ".join(map(shlex.quote, places)),
        python=shlex.quote(sys.executable),
    )


def _ids() -> tuple[str, ...]:
    ids = registry.list()
    return (*ids, *(alias for id in ids for alias in registry.spec(id).aliases))


def _help(name: str, *argv: str) -> str:
    """Return the help of a command, or "" if it cannot be imported."""
    printed, ignored = io.StringIO(), io.StringIO()
    silent = contextlib.redirect_stderr(ignored)
    with contextlib.redirect_stdout(printed), silent, contextlib.suppress(SystemExit):
        if run := load(name):
            run([*argv, "--help"])
    return printed.getvalue()


# For `sh`: print the cached words; rewrite the cache if a package was installed after it.
_KEPT = """kept=${{XDG_CACHE_HOME:-$HOME/.cache}}/jaxenvs/{name} stale=
[ -s "$kept" ] || stale=yes
for place in {places}; do [ "$place" -nt "$kept" ] && stale=yes; done
if [ "$stale" ]; then
    mkdir -p "${{kept%/*}}" && {python} -P -m jaxenvs.commands.completion >"$kept.$$" &&
        mv -f "$kept.$$" "$kept" || rm -f "$kept.$$"
fi 2>/dev/null
cat "$kept" 2>/dev/null"""
# Shared by bash and zsh: `line` holds the words before `word`, reduced to the command, the last
# option and the words after it; `list` is set to the completions, `folders` if folders fit, too.
_CASES = """    local list= folders= command="${{line%% *}}" kept=
    local ids="{ids}"
    local families="{families}"
    local puzzles="{puzzles}"
    kept="$(sh -c {kept})"
    [[ -n $kept ]] && {{ read -r ids; read -r families; read -r puzzles; }} <<< "$kept"
    if [[ $word == -* ]]; then case "$command" in
{options}
    esac; else
        [[ $line == *" -"* ]] && line="$command -${{line##* -}}"
        case "$line" in
{places}
    esac; fi"""
# Bash splits `--algo=ppo` into three words. If COMPREPLY is empty, it completes files.
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
    """Return the script for a shell of `SHELLS`; it completes files if no word fits."""
    known = words()
    if shell == "fish":
        return "\n".join(_fish(known))
    options = [f'    "") list="{" ".join(GLOBAL)}" ;;']
    places = [f'    "") list="{" ".join(known)}" ;;']
    places.append(f'    "--completion") list="{" ".join(SHELLS)}" ;;')
    for name, word in known.items():
        options.append(f'    {name}) list="{" ".join(word.options)}" ;;')
        for place, given in word.places.items():
            folders = " folders=yes" if place in word.folders else ""
            places.append(f'    {_pattern(name, place)}) list="{_listed(given)}"{folders} ;;')
    words_by_kind = {kind: " ".join(given) for kind, given in _kinds().items() if kind in KINDS}
    cases = _CASES.format(
        **words_by_kind,
        kept=shlex.quote(_kept()),
        options="\n".join(options),
        places="\n".join(places),
    )
    return {"bash": _BASH, "zsh": _ZSH}[shell].format(cases=cases)


def _pattern(name: str, place: str) -> str:
    """Return the pattern for `case` that matches the line before a position."""
    line = f"{name} {place.removesuffix('...')}".strip()
    return f'"{line}"|"{line} "[!-]*' if place.endswith("...") else f'"{line}"'


def _listed(given: tuple[str, ...], variable: str = "${}") -> str:
    """Join words, with a variable in place of the words of a cached kind."""
    line, kinds = " ".join(given), _kinds()
    for kind in KINDS:
        line = line.replace(" ".join(kinds[kind]), variable.format(kind))
    return line


_FISH = "(__jaxenvs_words {})"


def _fish_words() -> Iterator[str]:
    """Yield a fish function that prints the words of a kind."""
    kinds, escaped = _kinds(), _kept().replace("\\", r"\\").replace("'", r"\'")
    yield "function __jaxenvs_words -a kind"
    for kind in KINDS:
        yield f"    set -l {kind} {' '.join(kinds[kind])}"
    yield f"    set -l kept (sh -c '{escaped}')"
    yield f"    if test (count $kept) -eq {len(KINDS)}"
    for line, kind in enumerate(KINDS, 1):
        yield f"        set {kind} (string split ' ' -- $kept[{line}])"
    yield "    end"
    yield r"    printf '%s\n' $$kind"
    yield "end"


def _fish(known: dict[str, Words]) -> Iterator[str]:
    yield "function __jaxenvs_after  # whether the line before matches a regular expression"
    yield r'    string match -qr -- "^\S+$argv\$" (string join " " -- (commandline -opc))'
    yield "end"
    yield from _fish_words()
    for name, word in known.items():
        yield f'{_after("")} -f -a {name} -d "{word.summary}"'
        for option, valued in word.options.items():
            given = word.places.get(option) or word.places.get(f"{option} ...")
            value = f' -x -a "{_listed(given, _FISH)}"' if given else " -r" if valued else ""
            yield f"{_after(f' {name}( .*)?')} -l {option[2:]}{value}"
        for place, given in word.places.items():
            option = place.removesuffix("...").strip()
            line = f" {name}( .*)? {option}" if option else f" {name}"
            several = r"( [^-]\S*)*" if place.endswith("...") else ""
            if several or not option:
                yield f'{_after(line + several)} -f -a "{_listed(given, _FISH)}"'
            if place in word.folders:
                yield f"{_after(line)} -f -a '(__fish_complete_directories (commandline -ct) run)'"
    yield f'{_after("( --completion)?")} -l completion -x -a "{" ".join(SHELLS)}"'
    for option in ("help", "version"):
        yield f"{_after('')} -l {option}"


def _after(line: str) -> str:
    return f"complete -c jaxenvs -n '__jaxenvs_after \"{line}\"'"


if __name__ == "__main__":
    sys.exit(main())
