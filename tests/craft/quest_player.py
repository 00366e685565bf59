"""The player of the recorded game, from the overworld to the necromancer.

    JAX_PLATFORMS=cpu python tests/craft/quest_player.py    # plays, and writes quest.npz

The player sees the whole state. It plays in pieces of a few steps: it rolls out many clones of the
game with partly random actions, and takes the actions of the best clone, see `quest_game`. Each
piece follows the most urgent goal that is possible. When all clones die, the player backtracks,
further each time, and tries other clones.
"""

import sys
from pathlib import Path

import jax
import numpy as np
import quest_pieces as pieces
from quest_clones import AHEAD, ENV, IS_WALKED, WAYS, advance
from quest_game import DeadError, Game, cell
from quest_pieces import LAST, do, gather, go, reach, seek, shot, wander
from quest_shelter import plan, refuge, shut_in

from jaxenvs.craft.boss import WAVES
from jaxenvs.craft.full_rows import ARMOUR
from jaxenvs.craft.magic import EFFECTS
from jaxenvs.craft.tables import Action, Block

SEED = 3109  # seed of a world without graves (where mobs appear) near the necromancer
RECORD = Path(__file__).with_name("quest.npz")
CLEARED = 8  # number of kills that open a floor's ladder
HEAL, MANA, WAKE = (EFFECTS.index(effect) for effect in (("health", 8), ("mana", 8), ("energy", 8)))
GRAVES = (Block.GRAVE, Block.GRAVE2, Block.GRAVE3)
LONG = 900  # number of steps on a floor after which the player ignores chests


# The following functions play for the player's needs, such as food.


def needs(game):
    """Play for an urgent need of the player, and return whether there was one."""
    if game.world.sleeping or game.world.resting:
        return do(game, *[Action.NOOP] * AHEAD)
    return learn(game) or drink_potion(game) or retreat(game) or recover(game) or feed(game)


def learn(game):
    """Spend experience on strength, then on intelligence, and read books."""
    if game.trait("xp"):
        strong = game.trait("strength") < 3 or game.trait("intelligence") == 5
        return do(game, Action.LEVEL_UP_STRENGTH if strong else Action.LEVEL_UP_INTELLIGENCE)
    return bool(game.has("books")) and do(game, Action.READ_BOOK)


def drink_potion(game):
    """Drink a potion if the player needs its effect."""
    wants = {HEAL: game.health <= 4, WAKE: game.vital("energy") <= 1}
    wants[MANA] = game.floor >= 6 and game.vital("mana") < 3 and game.health > 5
    for effect, wanted in wants.items():
        potion = game.potion(effect)
        if wanted and potion is not None:
            return do(game, potion)
    return False


def retreat(game):
    """In the fire and ice realms, leave by the ladder up when the player is worn out."""
    mode = game.mode
    if mode.get("up") != game.floor:
        mode["up"] = 0
    if game.floor not in (6, 7) or game.kills >= CLEARED or shut_in(game):
        return False
    low = {6: {"drink": 2, "mana": 0}, 7: {"drink": 0, "mana": 2}}[game.floor]
    low |= {"food": 1, "energy": 2}
    worn = game.health <= 5 or any(game.vital(name) <= least for name, least in low.items())
    field = game.field(cell(game.stairs("up")))
    if not (worn or mode["up"]) or field[game.at] >= 80:
        return False
    mode |= {"up": game.floor, "rest": False, "ready": -1, "fit": -1}
    back = lambda world: -300.0 * (world.floor - game.floor)  # noqa: E731
    game.play("ladder up", field, arrive=Action.ASCEND, shot=shot(game), score=back)
    return True


def recover(game):
    """Rest if the player needs a rest, until the player has recovered or is hungry."""
    mode, deep = game.mode, game.floor in (6, 7)
    foes, cleared = game.foes(), game.kills >= CLEARED
    low = 4 if game.floor == 0 else min(5, game.most("health") / 2)
    dry = deep and game.vital("mana") < 4 and not foes
    if not mode.get("rest") and (game.vital("energy") <= 2 or game.health <= low or dry):
        begin_rest(game)
    mana = min(game.most("mana") - 1, 14) if game.floor >= 6 else 0
    well = game.health >= game.most("health") - 1 and game.vital("mana") >= mana
    well = well and game.vital("energy") >= game.most("energy") - 1
    hungry = min(game.vital("food"), game.vital("drink")) <= 2 and game.vital("energy") >= 4
    if well or (hungry and game.floor != LAST):
        mode["rest"] = False
    if deep and not cleared and foes and not shut_in(game):
        mode["rest"] = False
    return bool(mode.get("rest")) and game.has("stone") >= 4 and rest(game)


def begin_rest(game):
    """Start a rest, which `recover` continues."""
    game.mode |= {"rest": True, "tries": 0}


def rest(game):
    """Sleep or rest in a shelter, after fighting foes nearby and building walls."""
    if shut_in(game):
        tired = game.vital("energy") < game.most("energy")
        first = Action.SLEEP if tired else Action.REST
        return do(game, first, *[Action.NOOP] * (AHEAD - 1))
    tries = game.mode["tries"] = game.mode.get("tries", 0) + 1
    foes = game.foes(within=6)
    if foes and tries % 3 and reach(game, foes, "clear"):
        return True
    walls = plan(game, game.at, int(game.world.facing) - 1)
    if walls is not None and (len(walls) <= 22 or tries > 4):
        return do(game, *walls, *[Action.NOOP] * AHEAD)
    place = refuge(game, game.rolls)
    if place is not None:
        return go(game, place, "refuge")
    return do(game, *walls, *[Action.NOOP] * AHEAD) if walls else wander(game, "to rest")


def feed(game):
    """Drink and eat, and fight foes if health is low."""
    if game.vital("drink") <= 3:
        game.mode["drink"] = True
    if game.vital("drink") >= game.most("drink") - 1:
        game.mode["drink"] = False
    if game.mode.get("drink") and quench(game):
        return True
    if game.vital("food") <= 4 and eat(game):
        return True
    return game.health <= 3 and reach(game, game.foes(), "foes")


def quench(game):
    """Drink water."""
    drink = lambda world: 3 * world.vitals["drink"]  # noqa: E731
    return seek(game, Block.WATER, Block.FOUNTAIN, what="drink", score=drink)


def eat(game):
    """Hunt mobs that can be eaten."""

    def score(world):
        points = 3.0 * world.vitals["food"]
        for mob in world.mobs["passive"]:
            near = abs(mob.row - world.row) + abs(mob.column - world.column) <= 10
            points = points - 0.5 * mob.health * mob.alive * near
        return points

    return reach(game, game.mobs("passive"), "food", hunt=True, score=score)


# The following functions play for the goals of each floor.


def enchant(game):
    """Enchant the sword, then armour, then the bow, while gems and mana last."""
    tables = {Block.ENCHANTMENT_TABLE_FIRE: "ruby", Block.ENCHANTMENT_TABLE_ICE: "sapphire"}
    plain = {name: int(charm) == 0 for name, charm in game.world.charms.items()}
    things = {Action.ENCHANT_SWORD: plain["sword"]}
    things[Action.ENCHANT_ARMOUR] = any(plain[piece] for piece in ARMOUR)
    things[Action.ENCHANT_BOW] = plain["bow"] and game.has("bow")
    action = next((action for action, wanted in things.items() if wanted), None)
    for table, gem in tables.items():
        if action is None or not game.has(gem) or not game.blocks(table).any():
            continue
        if game.vital("mana") >= 9:
            score = lambda world, gem=gem: -40 * world.items[gem]  # noqa: E731
            return seek(game, table, useful=action, score=score)
        if game.potion(MANA) is not None:
            return do(game, game.potion(MANA))
        if min(game.vital("food"), game.vital("drink")) > 3 and game.has("stone") >= 8:
            return rest(game)
    return False


def tools(game):
    """Craft pickaxe and sword of wood, stone and iron."""
    if not game.has("pickaxe"):
        wood = gather(game, "wood", 5, Block.TREE)
        return wood or pieces.make(game, Action.MAKE_WOOD_PICKAXE, "pickaxe")
    stone = gather(game, "stone", 6, Block.STONE)
    return stone or better(game, 2, "STONE") or better(game, 3, "IRON")


def better(game, level, name):
    """Craft pickaxe and sword of `level`, after collecting the materials."""
    wants = [tool for tool in ("pickaxe", "sword") if game.has(tool) < level]
    if not wants:
        return False
    ores = [("coal", 1, Block.COAL), ("iron", len(wants), Block.IRON)]
    ores += [("coal", len(wants), Block.COAL)]
    if level == 3 and any(gather(game, *ore) for ore in ores):
        return True
    wood = 1 if game.near(Block.CRAFTING_TABLE) else 5
    if gather(game, "wood", wood, Block.TREE):
        return True
    return pieces.make(
        game, Action[f"MAKE_{name}_{wants[0].upper()}"], wants[0], furnace=level == 3
    )


def overworld(game):
    """On floor 0, get tools, armour and materials, then go down."""
    stores = (("wood", 40, Block.TREE), ("stone", 30, Block.STONE))
    return (
        pieces.garden(game)
        or tools(game)
        or pieces.iron_armour(game)
        or seek(game, Block.DIAMOND)
        or any(gather(game, *store) for store in stores)
        or grow(game)
        or leave(game)
    )


def grow(game):
    """Get a sapling if none has been planted yet, then collect wood while the plant ripens."""
    if game.misses("PLACE_PLANT"):
        score = lambda world: 5 * world.items["sapling"]  # noqa: E731
        return seek(game, Block.GRASS, what="sapling", score=score)
    return game.misses("EAT_PLANT") and gather(game, "wood", 99, Block.TREE)


def underground(game):
    """On floors 1 to 7, open chests, mine gems, fight until the ladder opens, and go down."""
    floor, mode, steps = game.floor, game.mode, len(game.actions)
    chests = floor in (1, 3, 4) and steps - mode.setdefault(f"since {floor}", steps) < LONG
    return (
        pieces.torch(game)
        or pieces.of_diamond(game)
        or pieces.arrows(game)
        or (chests and seek(game, Block.CHEST))
        or enchant(game)
        or (floor in (2, 5) and gems(game))
        or pieces.iron_armour(game)
        or (floor in (2, 5) and gather(game, "stone", 40, Block.STONE))
        or (game.kills < CLEARED and hunt(game))
        or leave(game)
    )


def gems(game):
    """Mine diamonds for armour, and with a diamond pickaxe also sapphires and rubies."""
    if game.armour() < 8 and seek(game, Block.DIAMOND):
        return True
    if game.has("pickaxe") < 4:
        return False
    return gather(game, "sapphire", 3, Block.SAPPHIRE) or gather(game, "ruby", 3, Block.RUBY)


def hunt(game):
    """Fight foes (near the ladder up in the fire and ice realms), or wait for more foes."""
    if game.floor in (6, 7):
        near = game.foes(within=10)
        return reach(game, near, "foes") or go(game, game.stairs("up"), "wait")
    return reach(game, game.foes(), "foes") or go(game, game.stairs("down"), "wait")


def leave(game):
    """Take the ladder down, after drinking, eating and resting."""
    mode, floor = game.mode, game.floor
    if mode.get("ready") != floor:
        if game.vital("drink") < game.most("drink") - 2 and quench(game):
            return True
        if game.vital("food") < game.most("food") - 3 and eat(game):
            return True
        tired = game.health < game.most("health") - 2 or game.vital("energy") < 6
        tired = tired or (floor >= 5 and game.vital("mana") < game.most("mana") - 3)
        fed = min(game.vital("food"), game.vital("drink")) > 3
        if tired and fed and game.has("stone") >= 4:
            begin_rest(game)
            return rest(game)
        mode["ready"] = floor
    return go(game, game.stairs("down"), "ladder", arrive=Action.DESCEND)


def graveyard(game):
    """Fight each wave, then hit the necromancer.

    The player hits from the side of the necromancer that has the fewest graves nearby.
    """
    if reach(game, game.foes(), "wave"):
        return True
    rows, columns = np.indices((48, 48))
    graves = game.blocks(*GRAVES)
    (middle,) = np.argwhere(game.blocks(Block.NECROMANCER))
    sides = [tuple(int(x) for x in middle + way) for way in WAYS]
    near = lambda side: (rows - side[0]) ** 2 + (columns - side[1]) ** 2 <= 36  # noqa: E731
    free = [side for side in sides if IS_WALKED[game.block[side]]]
    place = min(free, key=lambda side: int((graves & near(side)).sum()))
    if game.at != place:
        return go(game, place, "to the necromancer")
    use = cell(tuple(middle))
    field = np.where(use, np.float32(-1), game.field(cell(place)) + np.float32(1))
    game.play("necromancer", field, use, shot=shot(game))
    return True


def decide(game):
    """Play a few steps (a piece) for an urgent need, else for a goal of the floor, else wander."""
    floor = {0: overworld, LAST: graveyard}.get(game.floor, underground)
    return needs(game) or floor(game) or wander(game, "nothing to do")


def win(game, pieces=4_000, tell=40):
    """Play until the necromancer's defeat; return how many times the player backtracked.

    At most `pieces` pieces are played. The progress is printed every `tell` pieces.
    """
    deaths, again, farthest = 0, 0, 0
    for piece in range(pieces):
        if piece % tell == 0:
            say(game)
        if game.waves == WAVES:
            break
        try:
            decide(game)
        except DeadError:
            again = again + 1 if len(game.actions) <= farthest + 60 else 1
            farthest = max(farthest, len(game.actions))
            deaths += 1
            game.back(min(2 + 4 * again, 150))
            game.rolls += 1_000 * again
    say(game)
    return deaths


def say(game):
    """Print the progress of the game."""
    vitals = " ".join(f"{name} {game.vital(name)}" for name in ("food", "drink", "energy", "mana"))
    where = f"step {len(game.actions)} floor {game.floor} kills {game.kills} {game.last}"
    print(f"{where}: health {game.health:.1f} {vitals}", flush=True)


def to_the_end(game):
    """Return the game's actions up to the blow that defeats the necromancer."""
    state, length, _ = game.history[-1]
    step = jax.jit(advance)
    for action in game.actions[length:]:
        state, length = step(game.key, state, np.int32(action)), length + 1
        if int(ENV.world(state).boss["progress"]) == WAVES:
            break
    return game.actions[:length]


def main(seed):
    """Play the game with this seed, and write its actions to RECORD."""
    game = Game(seed)
    deaths = win(game)
    print(f"{int(game.earned().sum())} achievements, waves {game.waves}, {deaths} times back")
    np.savez_compressed(RECORD, seed=seed, actions=np.array(to_the_end(game), np.uint8))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEED)
