"""`jaxenvs list [WORD ...]`: print all registered ids, or those that match every word."""

import re

from ..core import registry
from ..core.checks import suggestion
from ..core.typed import program
from .parser import Parser, UsageError, guarded

SUMMARY = (
    "List all registered ids with summaries, or only those that contain every WORD. Matches in the "
    "id or an alias come first, then matches in the summary."
)
EXAMPLES = ("list", "list Puzzle", "list lava", "list BabyAI open")


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    return guarded("list", _run, argv)


def _run(argv: list[str]) -> int:
    made = Parser("jaxenvs list", SUMMARY, EXAMPLES)
    made.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="a family such as Grid, or a part of an id, alias or summary; case is ignored",
    )
    found = matching(made.read(argv).words)
    width = max(len(spec.id) for spec in found)
    print("\n".join(f"{spec.id:<{width}}  {spec.summary}" for spec in found))
    return 0


def matching(words: list[str]) -> list[registry.EnvSpec]:
    """Return the registry entries that match all words; raise `UsageError` if none does.

    A word that names a family matches the ids of this family. Any other word matches the entries
    whose id, aliases or summary contain it.
    """
    specs = [registry.spec(id) for id in registry.list()]
    families = {family.lower() for family in registry.families()}
    found = specs
    for word in map(str.lower, words):
        if word in families:
            found = [spec for spec in found if spec.family.lower() == word]
        else:
            found = [spec for spec in found if word in _searched(spec).lower()]
    if not found:
        raise UsageError(_nothing_found(words, " ".join(map(_searched, specs))))
    return sorted(found, key=lambda spec: not _is_named(spec, words))


def _is_named(spec: registry.EnvSpec, words: list[str]) -> bool:
    """Return whether every word occurs in the id or in one of its aliases."""
    names = " ".join((spec.id, *spec.aliases)).lower()
    return all(word.lower() in names for word in words)


def _searched(spec: registry.EnvSpec) -> str:
    """Return the text that is searched for words: id, aliases and summary."""
    return " ".join((spec.id, *spec.aliases, spec.summary))


def _nothing_found(words: list[str], text: str) -> str:
    """Return the error message for words that match no id.

    If the words name an environment of another package that jaxenvs leaves out on purpose, the
    message gives the reason. Otherwise the message suggests similar words.
    """
    asked = " ".join(words)
    for id, reason in registry.absences().items():
        if asked.lower() in id.lower():
            return f"no id has {asked!r}: {reason}"
    known = sorted(set(re.findall(r"[A-Za-z]{3,}|[A-Za-z0-9]{4,}", text)))
    unknown = [word for word in words if word.lower() not in text.lower()]
    near = "".join(suggestion(word, known) for word in unknown)
    return f"no id, alias or summary has {asked!r}{near} (`{program()} list` prints all ids)"
