"""Experience that becomes dexterity, strength or intelligence, and what possessions are worth."""

from .state import one, unlock
from .step import Moment
from .tables import Action

LEVELS = {
    "dexterity": Action.LEVEL_UP_DEXTERITY,
    "strength": Action.LEVEL_UP_STRENGTH,
    "intelligence": Action.LEVEL_UP_INTELLIGENCE,
}


def level_up(moment: Moment) -> Moment:
    """Spend a point of experience."""
    world, traits = moment.world, dict(moment.world.traits)
    for trait, action in LEVELS.items():
        able = (world.traits["xp"] >= 1) & (traits[trait] < moment.params.max_attribute)
        grows = one((moment.action == action) & able)
        traits[trait], traits["xp"] = traits[trait] + grows, traits["xp"] - grows
    return moment._replace(world=world._replace(traits=traits))


def count(moment: Moment) -> Moment:
    """Note what the player has, however it was come by."""
    world = moment.world
    for row in moment.rules.possessions:
        world = unlock(world, row.achievement, world.items[row.item] >= row.least)
    return moment._replace(world=world)
