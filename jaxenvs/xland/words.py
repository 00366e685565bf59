"""Descriptions of goals, rules and whole tasks in English sentences."""

from collections import Counter
from collections.abc import Sequence

from ..core.facts import a, listed
from . import tiles
from .language import kind_of, single, tile_name
from .rulesets import Goal, Rule, Ruleset

# Last part of the name of a `Goal` or `Rule`, such as UP of `AGENT_UP` -> spatial relation in
# words. "Above" and "left" are directions of the grid, whichever way the agent faces.
PLACES = {
    "NEAR": "next to",
    "UP": "directly above",
    "RIGHT": "directly right of",
    "DOWN": "directly below",
    "LEFT": "directly left of",
}
FLOOR = tiles.name(tiles.FLOOR)


def describe(ruleset: Ruleset) -> str:
    """Describe a task: its goal, its rules in order, and the objects on the map.

    Raises `ValueError` for a batch of rulesets, and for bytes that encode no goal, rule or tile.
    """
    goal, rules, laid = single(ruleset, "describe")
    sentences = [goal_sentence(goal), *map(rule_sentence, rules)]
    if laid:
        counts = Counter(map(tile_name, laid))
        lies = "lies" if len(laid) == 1 else "lie"
        sentences.append(f"On the map {lies} {listed(_some(*item) for item in counts.items())}.")
    return " ".join(sentences)


def goal_sentence(goal: Sequence[int]) -> str:
    """Return a sentence that describes a goal, given as the five bytes of `Ruleset.goal`."""
    kind = kind_of(goal, Goal)
    if kind == Goal.NONE:
        return "There is no goal."
    if kind == Goal.AGENT_AT:
        return f"Goal: be in row {goal[1]}, column {goal[2]}."
    thing, place = _a(goal[1:3]), PLACES.get(kind.name.removeprefix("AGENT_"))
    if kind == Goal.TILE_AT:
        return f"Goal: get {thing} into row {goal[3]}, column {goal[4]}."
    if place is None:
        return f"Goal: {'hold' if kind == Goal.HOLD else 'step onto'} {thing}."
    if kind == Goal.AGENT_NEAR:
        return f"Goal: step next to {thing}."
    if kind.name.startswith("AGENT_"):
        return f"Goal: get {thing} {place} you."
    other = _a(goal[3:5])
    first, second = (thing, other) if kind == Goal.NEAR else (other, thing)
    return f"Goal: put {first} {place} {second}."


def rule_sentence(rule: Sequence[int]) -> str:
    """Return a sentence that describes a rule, given as seven bytes of `Ruleset.rules`."""
    kind = kind_of(rule, Rule)
    if kind == Rule.NONE:
        return "Nothing happens."
    thing = _a(rule[1:3])
    # A rule `HOLD` with the product floor puts floor into the agent's pocket. In all other rules,
    # the product floor means that the object vanishes.
    if kind == Rule.HOLD:
        made = tile_name(rule[3:5])
        return _sentence(f"{thing} that you pick up becomes {a(made)}")
    place = PLACES[kind.name.removeprefix("AGENT_")]
    if Rule.NEAR <= kind <= Rule.LEFT:
        becomes = _becomes("become", "vanish", rule[5:7])
        return _sentence(f"{thing} and {_a(rule[3:5])} put {place} it {becomes}")
    becomes = _becomes("becomes", "vanishes", rule[3:5])
    where = "that you step next to" if kind == Rule.AGENT_NEAR else f"{place} you"
    return _sentence(f"{thing} {where} {becomes}")


def _becomes(becomes: str, vanishes: str, made: Sequence[int]) -> str:
    return vanishes if tile_name(made) == FLOOR else f"{becomes} {_a(made)}"


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _a(pair: Sequence[int]) -> str:
    return a(tile_name(pair))


def _some(name: str, count: int) -> str:
    """Return a name with an article, or in the plural with a count: `a red hex`, `2 red hexes`."""
    return a(name) if count == 1 else f"{count} {name}{'es' if name.endswith('x') else 's'}"
