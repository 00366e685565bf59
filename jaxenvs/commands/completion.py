"""`jaxenvs --completion SHELL`: print a script with which a shell completes `jaxenvs` commands.

The script completes commands, ids and options. The commands and options are taken from the output
of each `--help` when the script is printed, so print it again after an update. Ids are cached in a
file in `~/.cache/jaxenvs`. An installed package may register ids, so the first TAB after an
installation rewrites this file; other TABs start no Python. If the file cannot be written, the
script completes the ids that existed when it was printed.

The scripts are written here because shtab and tyro lack features that users need. shtab 1.13
completes neither `--option=value` in bash and zsh, nor a folder at a position that also takes an
id; and it completes several ids after `--ids` only in bash. tyro covers only `train`, and starts
Python at every TAB.
"""

import contextlib
import io
import re
import shlex
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

from ..core import registry
from ..puzzles.puzzle import Puzzle
from .table import COMMANDS, SHELLS, Command, load

# kinds of words in the cache file, which has one line of words per kind
KINDS = ("ids", "families", "puzzles")
GLOBAL = ("--help", "--version", "--completion")
_NAME = r"--[a-z][a-z0-9-]*"
# Matches options at the start of a line of help, also inside a drawn box. Options that a
# description mentions do not match, because descriptions are indented further.
_OPTIONS = re.compile(rf"^(?:│ |  )?(?:-\w, )?({_NAME})(?:, ({_NAME}))*", re.MULTILINE)
# Matches an option that takes a value, as `--help` shows it.
_VALUE = re.compile(rf"({_NAME}) [A-Z{{[]")
_CHOICES = re.compile(rf"({_NAME})(?: [A-Z]+ \[[A-Z]+ \.\.\.\])?\s+\{{([\w.,\s-]+)\}}(?!\|)")


class Words(NamedTuple):
    """Words that can complete the arguments of a command."""

    summary: str
    # Position of an argument -> words that can complete it. Position "" is the first word after the
    # command; an option such as "--algo" is the position of the word after this option. See
    # `Command.takes` for all positions.
    places: dict[str, tuple[str, ...]]
    folders: frozenset[str]  # positions of arguments that may also be a folder
    options: dict[str, bool]  # option -> whether a value follows it


def words() -> dict[str, Words]:
    """Return the completions of every command.

    A command whose optional extra is not installed has no options in the result, because its help
    is missing.
    """
    return {name: _words(name, command) for name, command in COMMANDS.items()}


def _choices(text: str) -> dict[str, tuple[str, ...]]:
    """Return the allowed values of each option that a help text lists: option -> values.

    The values of an option may span several lines of the text.
    """
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
    """Return a dict of all words for each kind of argument, such as all ids for "ids".

    `Command.takes` lists the kinds of arguments that a command takes.
    """
    specs = [registry.spec(id) for id in registry.list()]
    ids = (*registry.list(), *(alias for spec in specs for alias in spec.aliases))
    return {
        "families": tuple(registry.families()),
        "ids": ids,
        "runs": ids,
        "sets": ("families", "all", *ids),
        "puzzles": tuple(spec.id for spec in specs if issubclass(spec.env_class, Puzzle)),
    }


def main() -> int:
    """Print one line of words for each of `KINDS`; completion scripts cache the lines in a file."""
    kinds = _kinds()
    print(*(" ".join(kinds[kind]) for kind in KINDS), sep="\n")
    return 0


def _help(name: str, *argv: str) -> str:
    """Return the help text of a command; "" if the command cannot be imported."""
    printed, ignored = io.StringIO(), io.StringIO()
    silent = contextlib.redirect_stderr(ignored)
    with contextlib.redirect_stdout(printed), silent, contextlib.suppress(SystemExit):
        if run := load(name):
            run([*argv, "--help"])
    return printed.getvalue()


# Program for `sh` that prints the completions of the last word of the command line. Its arguments
# are the words of the command line up to the cursor. If the word may also be a folder, the
# first output line is "/". If a package was installed after the cache file of words was written,
# the program rewrites this file. The variable `line` has the command, then the last option and the
# words after the option; without an option, it has all words before the last word.
_PROGRAM = """ids="{ids}"
families="{families}"
puzzles="{puzzles}"
kept=${{XDG_CACHE_HOME:-$HOME/.cache}}/jaxenvs/{name} stale=
[ -s "$kept" ] || stale=yes
for place in {places}; do [ "$place" -nt "$kept" ] && stale=yes; done
if [ "$stale" ]; then
    mkdir -p "${{kept%/*}}" && {python} -P -m jaxenvs.commands.completion >"$kept.$$" &&
        mv -f "$kept.$$" "$kept" || rm -f "$kept.$$"
fi 2>/dev/null
[ -s "$kept" ] && {{ read -r ids; read -r families; read -r puzzles; }} <"$kept"
line= list=
while [ $# -gt 1 ]; do [ "$1" = "=" ] || line="$line${{line:+ }}$1"; shift; done
command="${{line%% *}}"
case "$1" in -*) case "$command" in
{options}
esac;; *)
case "$line" in *" -"*) line="$command -${{line##* -}}" ;; esac
case "$line" in
{words}
esac; esac
for word in $list; do case "$word" in "$1"* | /) echo "$word" ;; esac; done"""
# Completion script for bash, which calls `_PROGRAM`. Bash splits an argument such as `--algo=ppo`
# into three words: "--algo", "=" and "ppo". If COMPREPLY stays empty, bash completes file names.
_BASH = """_jaxenvs() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" IFS=$'\\n'
    [[ $word == "=" ]] && word=
    COMPREPLY=($(sh -c {program} jaxenvs "${{COMP_WORDS[@]:1:COMP_CWORD-1}}" "$word"))
    if [[ ${{COMPREPLY-}} == / ]]; then
        COMPREPLY=("${{COMPREPLY[@]:1}}" $(compgen -d -- "$word"))
        compopt -o filenames 2>/dev/null
    fi
}}
complete -o default -F _jaxenvs jaxenvs"""
_ZSH = """#compdef jaxenvs
_jaxenvs() {{
    local word="${{words[CURRENT]}}" folders=
    local -a line list
    line=("${{(@)words[2,CURRENT-1]}}")
    if [[ $word == --*=* ]]; then
        line+=("${{word%%=*}}") word="${{word#*=}}"
        compset -P "*="
    fi
    list=(${{(f)"$(sh -c {program} jaxenvs "${{line[@]}}" "$word")"}})
    [[ ${{list[1]-}} == / ]] && folders=yes && shift list && _files -/
    compadd -- $list || [[ -n $folders ]] || _files
}}
[[ $funcstack[1] == _jaxenvs ]] && _jaxenvs "$@" || compdef _jaxenvs jaxenvs"""
_FISH = """function __jaxenvs
    set -l word (commandline -ct)
    set -l line (commandline -opc)
    set -l option ''
    if string match -qr -- '^--.*=' $word
        set option (string replace -r '=.*' = -- $word)
        set -a line (string trim -r -c = -- $option)
        set word (string replace -r '^[^=]*=' '' -- $word)
    end
    set -l list (sh -c {program} jaxenvs $line[2..] "$word")
    if test "$list[1]" = /
        printf '%s\\n' $list[2..] (__fish_complete_directories "$word")
    else if set -q list[1]
        printf '%s\\n' $option$list
    else
        printf '%s\\n' $option(__fish_complete_path "$word")
    end
end
complete -c jaxenvs -f -n 'test (count (commandline -opc)) -gt 1' -a '(__jaxenvs)'
{commands}"""


def script(shell: str) -> str:
    """Return the completion script for one of `SHELLS`.

    If no completion begins with the typed word, the script completes file names.
    """
    known = words()
    program = shlex.quote(_program(known))
    if shell == "fish":
        program = program.replace("\\", r"\\").replace("'\"'\"'", r"\'")
    first = "complete -c jaxenvs -f -n 'test (count (commandline -opc)) -eq 1'"
    commands = [f'{first} -a {name} -d "{word.summary}"' for name, word in known.items()]
    commands += [f"{first} -l {option[2:]}" for option in GLOBAL]
    template = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]
    return template.format(program=program, commands="\n".join(commands))


def _program(known: dict[str, Words]) -> str:
    """Return the program for `sh` that the scripts of all shells call."""
    cases = {"": list(GLOBAL), **{name: list(word.options) for name, word in known.items()}}
    places = {'""': list(known), '"--completion"': list(SHELLS)}
    for name, word in known.items():
        for place, given in word.places.items():
            places[_pattern(name, place)] = [*(["/"] if place in word.folders else []), *given]
    folders = sorted({path for path in sys.path if any(Path(path or ".").glob("*.dist-info"))})
    here = f"{sys.prefix} {' '.join(folders)}"
    return _PROGRAM.format(
        **{kind: " ".join(given) for kind, given in _kinds().items()},
        name=f"words-{zlib.crc32(here.encode()):08x}",
        places=" ".join(map(shlex.quote, folders)),
        python=shlex.quote(sys.executable),
        options="\n".join(
            f'"{name}") list="{" ".join(given)}" ;;' for name, given in cases.items()
        ),
        words="\n".join(f'{place}) list="{_listed(given)}" ;;' for place, given in places.items()),
    )


def _pattern(name: str, place: str) -> str:
    """Return a `case` pattern, against which `_PROGRAM` matches its variable `line`.

    The pattern matches the command `name` followed by the words of `place`, a key of
    `Words.places`. If `place` ends with `...`, further arguments that are not options may follow.
    """
    line = f"{name} {place.removesuffix('...')}".strip()
    return f'"{line}"|"{line} "[!-]*' if place.endswith("...") else f'"{line}"'


def _listed(given: list[str]) -> str:
    """Return completions as text for `_PROGRAM`: the words, separated by spaces.

    If `given` contains all ids, one after another, the shell variable `$ids` replaces them. Other
    variables replace all families and all puzzles.
    """
    line, kinds = " ".join(given), _kinds()
    for kind in KINDS:
        line = line.replace(" ".join(kinds[kind]), f"${kind}")
    return line


if __name__ == "__main__":
    sys.exit(main())
