"""Attributes that the player buys with experience, and achievements for owning items."""

from typing import Any

from jaxtyping import Array

from .full_rows import TRAITS
from .state import World, one, unlock
from .step import Moment
from .tables import Action, Rules

LEVELS = {trait: Action[f"LEVEL_UP_{trait.upper()}"] for trait in TRAITS if trait != "xp"}


def level_up(moment: Moment) -> Moment:
    """If the action raises an attribute and is possible, raise that attribute by one point.

    A raise costs a point of experience.
    """
    world, traits = moment.world, dict(moment.world.traits)
    can = able(world, moment.params.max_attribute)
    for trait, action in LEVELS.items():
        grows = one((moment.action == action) & can[action])
        traits[trait], traits["xp"] = traits[trait] + grows, traits["xp"] - grows
    return moment._replace(world=world._replace(traits=traits))


def able(world: World, most: Any) -> dict[int, Array]:
    """Return, for each action that raises an attribute, whether the action is possible.

    `most` is the limit of every attribute; each raise costs a point of experience.
    """
    has = world.traits["xp"] >= 1
    return {action: has & (world.traits[trait] < most) for trait, action in LEVELS.items()}


def count(moment: Moment) -> Moment:
    """Record the achievements for the items that the player owns."""
    return moment._replace(world=possessions_counted(moment.rules, moment.world))


def possessions_counted(rules: Rules, world: World) -> World:
    """Return the world after recording the achievements that the player's items earn."""
    for row in rules.possessions:
        world = unlock(world, row.achievement, world.items[row.item] >= row.least)
    return world
