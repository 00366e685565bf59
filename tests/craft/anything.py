"""Random states of full Craftax: each field of craftax's state is drawn from its whole range.

No state has two live mobs on a cell, plants below floor 0 or torches on water, because such states
cannot occur.
"""

import jax.numpy as jnp
import lockstep_full as lockstep
import numpy as np
import peer_full as peer
import starts_full as starts

from jaxenvs.craft.full_rows import FULL, GROUND
from jaxenvs.craft.tables import Action, Block, Item

SIZE, FLOORS = starts.SIZE, starts.FLOORS
OPEN = [*GROUND, Block.SAND]  # blocks on which torches may lie
SOLID = [int(block) for block in FULL.solid]
# Counters are often drawn at one of these distances from an end of their range.
EDGES = np.array([0, 1, 2, 0.5, 0.25, 0.0625])
COUNTERS = {"hunger": (0, 25), "thirst": (0, 20), "fatigue": (-10, 30), "recover": (-15, 25)}
TABLES = [Block.ENCHANTMENT_TABLE_FIRE, Block.ENCHANTMENT_TABLE_ICE]
# action -> blocks of which one must be ahead so that the action has an effect
AHEAD = {
    **dict.fromkeys((Action.ENCHANT_SWORD, Action.ENCHANT_ARMOUR, Action.ENCHANT_BOW), TABLES),
    Action.PLACE_PLANT: [Block.GRASS],
    Action.PLACE_TORCH: OPEN,
}
CLIMBS = {Action.DESCEND: 1, Action.ASCEND: -1}
MAKES = {recipe.action for recipe in FULL.recipes}


class Anything:
    """A batch of random states, which are NumPy arrays while they are drawn.

    `actions` has the action that a test takes in each state. Many states are drawn so that this
    action has an effect.
    """

    def __init__(self, rows, actions, seed):
        self.rng, self.rows, self.actions = np.random.default_rng(seed), rows, actions
        base = starts.worlds()
        number = self.rng.integers(0, starts.WORLDS, rows)
        self.fields = {k: v for k, v in base.__dict__.items() if isinstance(v, np.ndarray)}
        self.fields = {k: v[number] for k, v in self.fields.items()}
        self.slots = {
            kind: {k: v[number] for k, v in getattr(base, kind).__dict__.items()}
            for kind in (*peer.KINDS.values(), *(f"{kind}s" for kind in peer.FLYING.values()))
        }
        self.bag = {k: v[number] for k, v in base.inventory.__dict__.items()}
        self.params = self.numbers()
        self.body()
        for row in range(rows):
            self.row = row
            self.floor = self.fields["player_level"][row]
            self.terrain()
            self.ladders()
            at = self.fields["player_position"][row]
            self.crowd(self.floor, at, alone=not self.params.god_mode[row])
            self.flying(self.floor, at)
            self.plants()
            self.beyond()

    def some(self, values, p=None):
        """Draw one of `values` for each state of the batch; `p` has their probabilities."""
        return self.rng.choice(np.asarray(values), self.rows, p=p)

    def between(self, low, high):
        """Draw an integer from `low` to `high`, both inclusive, for each state of the batch."""
        return self.rng.integers(low, np.asarray(high) + 1, self.rows)

    def numbers(self):
        """Draw time steps and params, often at the ends of their ranges; return the params.

        A fifth of the states have god mode on.
        """
        params = lockstep.numbers(self.rows, 0, share=0, gods=0.2)
        self.fields["timestep"] = time = self.some([0, 149, 299, 5_000, 99_997, 99_998, 99_999])
        limit = np.where(self.rng.random(self.rows) < 0.1, time + self.between(1, 2), 100_000)
        return params.replace(
            god_mode=self.rng.random(self.rows) < 0.2,
            day_length=self.some([1, 2, 20, 299, 300, 600, 10**6]).astype(np.int32),
            mob_despawn_distance=self.some([1, 3, 4, 7, 10, 13, 14]).astype(np.int32),
            max_attribute=self.some([1, 2, 5, 5, 9]).astype(np.int32),
            max_steps_in_episode=limit.astype(np.int32),
        )

    def body(self):
        """Draw the player's floor, position, direction, vitals, counters, magic and items."""
        rng, rows, fields = self.rng, self.rows, self.fields
        fields["player_level"] = self.between(0, FLOORS - 1)
        siege = (self.actions == Action.DO) & (rng.random(rows) < 0.4)
        fields["player_level"][siege] = FLOORS - 1
        fields["player_level"][self.actions == Action.PLACE_PLANT] = 0
        fields["player_direction"] = self.between(1, 4)
        fields["player_position"] = rng.integers(0, SIZE, (rows, 2))
        edge = rng.random((rows, 2)) < 0.25
        fields["player_position"][edge] = rng.choice([0, 0, 1, SIZE - 1], edge.sum())
        for name in ("dexterity", "strength", "intelligence"):
            fields[f"player_{name}"] = self.between(1, self.params.max_attribute)
        fields["player_xp"] = self.some([0, 1, 8])
        most = {
            "health": 8 + fields["player_strength"],
            **dict.fromkeys(("food", "drink", "energy"), 7 + 2 * fields["player_dexterity"]),
            "mana": 6 + 3 * fields["player_intelligence"],
        }
        for name, best in most.items():
            ends = [np.zeros(rows, int), np.ones(rows, int), best - 1, best, self.between(0, best)]
            fields[f"player_{name}"] = np.choose(self.between(0, 4), ends)
        health = fields["player_health"].clip(1) - self.some([0, 0, 0.5, 0.25, 0.9])
        fields["player_health"] = health.astype(np.float32)
        for name in ("is_sleeping", "is_resting"):
            fields[name] = rng.random(rows) < 0.12
        self.counters()
        self.magic()
        self.items()

    def counters(self):
        """Draw the counters of the player's vitals, often near the ends of their ranges."""
        rng, rows, fields = self.rng, self.rows, self.fields
        for name, (low, high) in COUNTERS.items():
            near = np.where(rng.random(rows) < 0.5, low + self.some(EDGES), high - self.some(EDGES))
            inside = self.between(low * 16, high * 16) / 16
            drawn = np.where(rng.random(rows) < 0.6, near, inside)
            fields[f"player_{name}"] = drawn.astype(np.float32)
        mana = np.where(rng.random(rows) < 0.5, 30 * rng.random(rows), 30 - self.some(EDGES))
        fields["player_recover_mana"] = mana.astype(np.float32)

    def magic(self):
        """Draw achievements, spells, enchantments, opened chests, kills and the boss fight."""
        rng, rows, fields = self.rng, self.rows, self.fields
        fields["achievements"] = rng.random((rows, 67)) < rng.random((rows, 1))
        fields["learned_spells"] = rng.random((rows, 2)) < 0.6
        fields["potion_mapping"] = rng.permuted(np.tile(np.arange(6), (rows, 1)), axis=1)
        for name in ("sword_enchantment", "bow_enchantment"):
            fields[name] = self.between(0, 2)
        fields["armour_enchantments"] = rng.integers(0, 3, (rows, 4))
        fields["chests_opened"] = rng.random((rows, FLOORS)) < 0.4
        fields["monsters_killed"] = rng.choice([0, 5, 7, 8, 9, 62, 63, 64, 200], (rows, FLOORS))
        fields["boss_progress"] = self.some([*range(8), 7, 7])
        timer = self.some([-300, -1, 0, 0, 1, 2, 7])
        fields["boss_timesteps_to_spawn_this_round"] = timer

    def items(self):
        """Draw the inventory."""
        rng, rows, bag = self.rng, self.rows, self.bag
        counts = [0, 1, 2, 3, 5, 97, 98, 99]
        for name in peer.COUNTS:
            bag[name] = self.some(counts)
        bag["potions"] = rng.choice(counts, (rows, 6))
        bag["armour"] = rng.integers(0, 3, (rows, 4)) * (rng.random((rows, 1)) < 0.8)
        bag["pickaxe"], bag["sword"], bag["bow"] = (self.between(0, most) for most in (4, 4, 1))

    def terrain(self):
        """Draw blocks, torches and light of the player's floor."""
        rng, here = self.rng, (self.row, self.floor)
        blocks = starts.PLACED if self.floor == 0 else starts.ELSEWHERE
        ground = rng.choice([block for block in OPEN if block in blocks])
        drawn = rng.choice(blocks, (SIZE, SIZE))
        share = rng.choice([0.05, 0.3, 0.7, 1])
        self.map = self.fields["map"][here]
        self.map[:] = np.where(rng.random((SIZE, SIZE)) < share, drawn, ground)
        at = self.fields["player_position"][self.row]
        step = starts.STEPS[self.fields["player_direction"][self.row] - 1]
        siege = self.floor == FLOORS - 1 and self.actions[self.row] == Action.DO
        if siege and rng.random() < 0.6:
            blocks = [Block.NECROMANCER]
        wanted = [block for block in AHEAD.get(self.actions[self.row], ()) if block in blocks]
        self.map[tuple((at + step) % SIZE)] = rng.choice(wanted or blocks)
        if self.actions[self.row] in MAKES and rng.random() < 0.8:
            for block, side in ((Block.CRAFTING_TABLE, [1, 1]), (Block.FURNACE, [-1, 1])):
                self.map[tuple((at + side) % SIZE)] = block
        self.item = self.fields["item_map"][here]
        lies = (rng.random((SIZE, SIZE)) < 0.05) & np.isin(self.map, OPEN)
        self.item[:] = np.where(lies, Item.TORCH, Item.NONE)
        if self.floor:
            lit = rng.choice(np.float32([0, 0.04, 0.06, 0.5, 1]), (SIZE, SIZE))
            self.fields["light_map"][here] = lit
        if not self.params.god_mode[self.row]:
            self.clear(self.fields["player_position"][self.row])

    def clear(self, cell):
        """If the block on a cell is solid, replace it by a random block that is not solid."""
        if self.map[tuple(cell)] in SOLID:
            kinds = [Block.PATH, Block.SAND, Block.WATER, Block.LAVA, Block.DARKNESS]
            self.map[tuple(cell)] = self.rng.choice(kinds)

    def ladders(self):
        """Place the ladders of the player's floor, sometimes on the player's cell.

        A ladder that the player's action uses is mostly placed on this cell.
        """
        at = self.fields["player_position"][self.row]
        for way, item, has in (
            ("down", Item.LADDER_DOWN, self.floor < FLOORS - 1),
            ("up", Item.LADDER_UP, 0 < self.floor < FLOORS - 1),
        ):
            wanted = {"down": Action.DESCEND, "up": Action.ASCEND}[way] == self.actions[self.row]
            here = self.rng.random() < (0.8 if wanted else 0.15)
            cell = at if here else self.rng.integers(0, SIZE, 2)
            self.fields[f"{way}_ladders"][self.row, self.floor] = cell
            if has:
                self.item[tuple(cell)] = item
                if self.map[tuple(cell)] in SOLID:
                    self.map[tuple(cell)] = Block.PATH

    def beyond(self):
        """Place mobs and projectiles on the floor to which the action DESCEND or ASCEND leads.

        Place them near the ladder at which the player arrives there. Do nothing for other actions.
        """
        way = CLIMBS.get(self.actions[self.row], 0)
        floor = self.floor + way
        if not way or not 0 <= floor < FLOORS:
            return
        ladder = self.fields["up_ladders" if way > 0 else "down_ladders"][self.row, floor]
        self.map = self.fields["map"][self.row, floor]
        self.crowd(floor, ladder, alone=False)
        self.flying(floor, ladder)

    def crowd(self, floor, at, alone):
        """Place mobs at random distances from the cell `at`, with at most one live mob per cell.

        If `alone` is True, the cell `at` itself has no live mob.
        """
        rng, taken = self.rng, {tuple(at)} if alone else set()
        seen = self.fields["mob_map"][self.row, floor]
        strikes = floor == FLOORS - 1 and self.actions[self.row] == Action.DO
        # Probability that a mob is alive. Before a blow at the necromancer it is sometimes 0,
        # because the necromancer is vulnerable only if no mob is alive.
        share = rng.choice([0, 0.75]) if strikes else 0.75
        seen[:] = False
        for role, kind in peer.KINDS.items():
            slots, rows = self.slots[kind], FULL.types(role)
            for slot in range(slots["mask"].shape[2]):
                index = self.row, floor, slot
                reach = rng.choice([0, 1, 2, 5, 10, 15, 48])
                cell = (at + rng.integers(-reach, reach + 1, 2)).clip(0, SIZE - 1)
                if rng.random() < 0.15:
                    way = self.fields["player_direction"][self.row]
                    cell = (at + starts.STEPS[way - 1]).clip(0, SIZE - 1)
                alive = rng.random() < share and tuple(cell) not in taken
                type = rng.integers(len(rows))
                health = rng.choice([0.05, 1, 2.5, rows[type].health])
                slots["position"][index], slots["type_id"][index] = cell, type
                slots["mask"][index], slots["health"][index] = alive, health
                slots["attack_cooldown"][index] = rng.integers(-3, 6)
                if alive:
                    taken.add(tuple(cell))
                    seen[tuple(cell)] = True
                    self.clear(cell)

    def flying(self, floor, at):
        """Place projectiles of mobs and of the player on a floor, around the cell `at`."""
        rng = self.rng
        for kind in peer.FLYING.values():
            slots, ways = self.slots[f"{kind}s"], self.fields[f"{kind}_directions"]
            for slot in range(3):
                index = self.row, floor, slot
                reach = rng.choice([0, 1, 2, 4, 48])
                cell = (at + rng.integers(-reach, reach + 1, 2)).clip(0, SIZE - 1)
                alive = rng.random() < 0.6
                slots["position"][index] = cell if alive else cell + rng.integers(-9, 10, 2)
                slots["mask"][index], slots["type_id"][index] = alive, rng.integers(8)
                ways[index] = starts.STEPS[rng.integers(4)]

    def plants(self):
        """Place plants of different ages on floor 0; some plant slots may stay free."""
        rng, fields, row = self.rng, self.fields, self.row
        ground, lies = fields["map"][row, 0], fields["item_map"][row, 0]
        used, missing = set(), rng.choice([0, 0.3])
        for slot in range(10):
            cell = tuple(rng.integers(0, SIZE, 2))
            if self.floor == 0 and rng.random() < 0.5:
                reach = rng.integers(-1, 2, 2)
                cell = tuple((fields["player_position"][row] + reach).clip(0, SIZE - 1))
            own = self.floor == 0 and cell == tuple(fields["player_position"][row])
            if rng.random() < missing or cell in used or lies[cell] or own:
                continue
            if fields["mob_map"][row, 0][cell]:
                continue
            used.add(cell)
            age = rng.choice([0, 1, 300, 598, 599, 600, 20_000])
            fields["growing_plants_positions"][row, slot] = cell
            fields["growing_plants_age"][row, slot] = age
            fields["growing_plants_mask"][row, slot] = True
            ground[cell] = Block.RIPE_PLANT if age >= 600 else Block.PLANT

    def states(self):
        """Return the batch as a craftax state, with the dtypes that a step of craftax returns."""
        base = starts.worlds()
        cast = lambda like, values: jnp.asarray(values, like.dtype)  # noqa: E731
        parts = {
            kind: getattr(base, kind).replace(
                **{k: cast(getattr(getattr(base, kind), k), v) for k, v in slots.items()}
            )
            for kind, slots in self.slots.items()
        }
        bag = {k: cast(getattr(base.inventory, k), v) for k, v in self.bag.items()}
        fields = {k: cast(getattr(base, k), v) for k, v in self.fields.items()}
        return base.replace(**fields, **parts, inventory=base.inventory.replace(**bag))
