"""Attributes bought with experience, and achievements for possessions."""

from typing import Any

from jaxtyping import Array

from .full_rows import TRAITS
from .state import World, one, unlock
from .step import Moment
from .tables import Action, Rules

LEVELS = {trait: Action[f"LEVEL_UP_{trait.upper()}"] for trait in TRAITS if trait != "xp"}


def level_up(moment: Moment) -> Moment:
    """Spend a point of experience on an attribute."""
    world, traits = moment.world, dict(moment.world.traits)
    can = able(world, moment.params.max_attribute)
    for trait, action in LEVELS.items():
        grows = one((moment.action == action) & can[action])
        traits[trait], traits["xp"] = traits[trait] + grows, traits["xp"] - grows
    return moment._replace(world=world._replace(traits=traits))


def able(world: World, most: Any) -> dict[int, Array]:
    """Return, by action, whether each attribute can grow; `most` is the maximum of every one."""
    has = world.traits["xp"] >= 1
    return {action: has & (world.traits[trait] < most) for trait, action in LEVELS.items()}


def count(moment: Moment) -> Moment:
    """Record achievements for the player's items."""
    return moment._replace(world=possessions_counted(moment.rules, moment.world))


def possessions_counted(rules: Rules, world: World) -> World:
    """Return the world with the achievements for the player's items recorded."""
    for row in rules.possessions:
        world = unlock(world, row.achievement, world.items[row.item] >= row.least)
    return world
