"""A player that goes through all nine floors and beats the necromancer: what it wants, in turn."""

import sys

import numpy as np
from planner import MOVES, STEPS, Aim, Game, LostError

from jaxenvs.craft.full_rows import COLOURS, FULL
from jaxenvs.craft.tables import Action, Block

WATER = (Block.WATER, Block.FOUNTAIN)
TABLE = (Action.PLACE_TABLE, Action.PLACE_FURNACE)
HALLS = (1, 3, 4)  # floors without rock
LOG = False


class AgainError(Exception):
    """What to do next must be thought over."""


class Winner(Game):
    """A game with goals."""

    def note(self, *what):
        if LOG:
            v = {k: round(float(x), 1) for k, x in self.world.vitals.items()}
            np.save(LOG, np.array(self.actions, np.uint8))
            print(self.time, f"floor {self.floor}", self.at, v, *what, flush=True)

    def where(self, blocks):
        """Cells of the floor with one of some blocks."""
        return [tuple(map(int, cell)) for cell in np.argwhere(np.isin(self.block, blocks))]

    def advance(self, targets, use, hunt=False):
        """A step towards a target, or a few against danger; whether there is a way."""
        action, far = self.towards(targets(), use)
        if self.danger():
            self.fight(far if action is not None else None, hunt)
            return True
        if action is None:
            return False
        self.act(action)
        return True

    def until(self, done, targets, use, limit=600, hunt=False, keep=False):
        """Go to targets, and use them, until something is true; whether it is."""
        start = self.time
        while not done():
            if self.over or self.time - start > limit:
                return False
            if not keep:
                self.needs()
                if done():
                    break
            if not self.advance(targets, use, hunt):
                return False
        return True

    def collect(self, item, count, *blocks, limit=600):
        """Have so many of an item, from blocks."""
        ok = self.until(lambda: self.has(item) >= count, lambda: self.where(blocks), True, limit)
        self.note(f"{item} {self.has(item)} of {count}")
        return ok

    # What the body needs.

    busy = False

    def needs(self):
        """Eat, drink and sleep when it is time."""
        if self.busy or self.over:
            return
        self.busy = True
        try:
            self.grow()
            self.quaff()
            if self.vital("drink") <= 3:
                self.drink()
            if self.vital("food") <= 3:
                self.eat()
            if self.vital("energy") <= 3:
                self.sleep()
            if self.vital("health") <= 4 and not self.danger():
                self.heal()
        finally:
            self.busy = False

    def drink(self, most=None):
        most = most or 7 + 2 * self.trait("dexterity")
        if self.where(WATER):
            self.until(lambda: self.vital("drink") >= most, lambda: self.where(WATER), True, 250)
        elif self.floor:
            self.retreat()
        self.note("drank")

    def prey(self):
        return [cell for cell, (role, _) in self.mobs.items() if role == "passive"]

    def eat(self, most=6):
        start = self.time
        if self.floor == 7:
            self.retreat()
        while self.vital("food") < most and self.time - start < 300 and not self.over:
            if self.prey():
                self.advance(self.prey, True)
            elif self.danger():
                self.fight()
            else:
                self.roam()
        self.note("ate")

    def roam(self):
        """Walk to a free cell some way off."""
        free = np.argwhere(np.isfinite(self.cost()) & (self.cost() <= 1))
        apart = abs(free - np.array(self.at)).sum(1)
        near = free[(apart > 6) & (apart < 16)]
        goal = tuple(map(int, near[self.rng.integers(len(near))])) if len(near) else self.at
        for _ in range(8):
            if self.danger() or self.over or not self.advance(lambda: [goal], False):
                return

    def shelter(self):
        """Be where nobody comes: in a room of two by two cells, walled all around."""
        for _ in range(6):
            for _ in range(12):
                if not self.danger() or self.is_safe():
                    break
                self.fight(hunt=True)
            if self.is_safe():
                return True
            corner = self.corner()
            if corner is None or self.has("stone") < 6:
                return False
            if self.until(lambda c=corner: self.at == c, lambda c=corner: [c], False, keep=True):
                self.wall()
        return self.is_safe()

    def is_safe(self):
        inside = self.reached()
        return len(inside) <= 4 and not any(cell in self.mobs for cell in inside)

    def corner(self):
        """The nearest cell that can be the lower right one of the room."""
        cost = self.cost()
        fit = np.where(np.isfinite(cost) & (cost <= 3), cost, 99)
        room = sum(np.roll(fit, way, (0, 1)) for way in ((0, 0), (1, 0), (0, 1), (1, 1)))
        ring = [(-2, -1), (-2, 0), (-1, -2), (0, -2), (1, -1), (1, 0), (-1, 1), (0, 1)]
        for down, right in ring:
            room = room + 99 * np.roll(self.lies, (-down, -right), (0, 1))
        room[:3] = room[-3:] = room[:, :3] = room[:, -3:] = 99
        cells = np.argwhere(room < 99)
        if not len(cells):
            return None
        steps = abs(cells - np.array(self.at)).sum(1) + room[room < 99]
        return tuple(map(int, cells[steps.argmin()]))

    def wall(self):
        """Walk around the room and wall it, from its lower right cell."""
        left, right, up, down = MOVES
        for move in (up, left, down, up, right, down, left, right):
            goal = self.at[0] + STEPS[move][0], self.at[1] + STEPS[move][1]
            for _ in range(8):
                if self.at == goal:
                    break
                self.act(self.entering(move, goal, False))
            if self.at != goal:
                return
            ahead = goal[0] + STEPS[move][0], goal[1] + STEPS[move][1]
            for _ in range(4):
                if ahead in self.mobs:
                    self.act(Action.DO)
            if self.block[ahead] not in FULL.solid:
                self.act(Action.PLACE_STONE)

    def reached(self):
        """Cells that can be reached on foot, up to 20."""
        seen, queue = {self.at}, [self.at]
        while queue and len(seen) < 20:
            row, column = queue.pop()
            for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                cell = row + down, column + right
                inside = 0 <= cell[0] < 48 and 0 <= cell[1] < 48
                if inside and cell not in seen and self.block[cell] not in FULL.solid:
                    seen.add(cell)
                    queue.append(cell)
        return seen

    def stay(self, action, done, limit):
        """Wait in a shelter until something is true."""
        if not self.shelter():
            return
        start = self.time
        while not done() and self.time - start < limit and not self.over:
            idle = self.world.sleeping or self.world.resting
            if min(self.vital("food"), self.vital("drink")) <= 1 and not idle:
                return
            self.act(Action.NOOP if idle else action)

    def retreat(self):
        """Climb to the floor above, where it is safer."""
        floor, stairs = self.floor, self.world.stairs
        goal = int(stairs["up_row"]), int(stairs["up_column"])
        self.note("retreats")
        if self.until(lambda: self.at == goal, lambda: [goal], False, keep=True):
            self.act(Action.ASCEND)
        if self.floor != floor - 1:
            raise LostError(f"no way up on floor {floor}")
        raise AgainError

    def sleep(self):
        self.note("sleeps")
        most = 7 + 2 * self.trait("dexterity")
        self.stay(
            Action.SLEEP, lambda: self.vital("energy") >= most and not self.world.sleeping, 400
        )
        self.note("slept")

    def heal(self, least=None):
        least = least or 7 + self.trait("strength")
        self.note("heals")
        best = 7 + 2 * self.trait("dexterity")
        action = Action.SLEEP if self.vital("energy") < best - 1 else Action.NOOP
        self.stay(action, lambda: self.vital("health") >= least and not self.world.sleeping, 250)

    def quaff(self):
        """Drink potions that help."""
        for number, colour in enumerate(COLOURS):
            effect = int(self.world.effects[colour])
            wants = {
                0: self.vital("health") <= 5,
                2: self.vital("mana") <= 3 and any(self.world.spells.values()),
                4: self.vital("energy") <= 2,
            }
            if self.has(f"{colour}_potion") and wants.get(effect):
                self.act(Action.DRINK_POTION_RED + number)

    ORDER = ("strength", "dexterity", "intelligence", "strength", "intelligence", "dexterity",
             "intelligence", "intelligence", "strength", "strength")  # fmt: skip

    def grow(self):
        """Spend experience, and read books."""
        while self.trait("xp") and not self.over:
            spent = sum(self.trait(t) - 1 for t in ("dexterity", "strength", "intelligence"))
            self.act(Action[f"LEVEL_UP_{self.ORDER[spent].upper()}"])
        while self.has("books") and not self.over:
            self.act(Action.READ_BOOK)

    # What the player makes.

    def make(self, item, count, *actions):
        """Make something, with tables placed where there is none."""
        for _ in range(12):
            if self.has(item) >= count or self.over:
                break
            if self.danger():
                self.fight()
                continue
            weights = ((item, 10.0), ("wood", 0.2), ("stone", 0.2))
            odds = [2] * 6 + [4] * len(actions)
            for a in self.best(Aim(items=weights), [*MOVES, *TABLE, *actions], odds, rounds=2):
                if self.has(item) >= count or self.over:
                    break
                self.act(a)
        self.note(f"{item} {self.has(item)}")
        return self.has(item) >= count

    # The floors.

    def overworld(self):
        """Tools of iron."""
        for level, name in enumerate(("WOOD", "STONE", "IRON"), 1):
            if self.has("sword") >= level:
                continue
            self.collect("wood", (5, 4, 14)[level - 1], Block.TREE)
            if level > 1:
                self.collect("stone", (4, 12)[level - 2], Block.STONE)
            if level > 2:
                self.collect("coal", 2, Block.COAL)
                self.collect("iron", 2 - self.has("pickaxe") // 3, Block.IRON)
            self.make("pickaxe", level, Action[f"MAKE_{name}_PICKAXE"])
            self.make("sword", level, Action[f"MAKE_{name}_SWORD"])
        self.collect("stone", 60, Block.STONE)

    def prepare(self):
        """Be well before the next floor."""
        if self.vital("energy") < 6:
            self.sleep()
        if self.vital("food") < 7:
            self.eat(8)
        if self.vital("health") < 8:
            self.heal(8)
        if self.vital("drink") < 7:
            self.drink()
        self.note("prepared")

    def descend(self):
        floor = self.floor
        stairs = self.world.stairs
        goal = int(stairs["down_row"]), int(stairs["down_column"])
        if not self.until(lambda: self.at == goal, lambda: [goal], False):
            raise LostError(f"no way down on floor {floor}")
        self.act(Action.DESCEND)
        if self.floor != floor + 1:
            raise LostError(f"the ladder of floor {floor} is shut")
        self.grow()
        self.note("arrived")

    def clear(self):
        """Defeat eight monsters."""
        start = self.time
        while int(self.world.kills) < 8 and not self.over:
            if self.time - start > 3000:
                raise LostError(f"too long on floor {self.floor}")
            self.needs()
            if self.danger():
                self.fight(hunt=True)
                continue
            foes = [c for c, (role, _) in self.mobs.items() if role != "passive"]
            if foes and self.vital("health") > 5:
                self.advance(lambda foes=foes: foes, True, hunt=True)
            elif self.vital("health") <= 5:
                self.heal()
            else:
                self.roam()
        self.note(f"kills {int(self.world.kills)}")

    def chest(self):
        """Open the floor's first chest."""
        self.until(lambda: bool(self.world.opened), lambda: self.where([Block.CHEST]), True)
        self.grow()
        self.note("chest", {k: int(v) for k, v in self.world.items.items() if v})

    def boss(self, stand):
        """Eight blows, each after its wave."""
        while not self.over:
            if self.danger():
                self.fight(hunt=True)
            elif self.at != stand:
                self.advance(lambda: [stand], False)
            elif int(self.world.boss["timer"]) > 0:
                self.act(Action.NOOP)
            else:
                self.advance(lambda: [(24, 24)], True)

    def stage(self):
        """What the floor asks for, and on to the next."""
        if self.floor == 8:
            return self.boss(self.stand)
        if self.floor == 0 and self.has("sword") < 3:
            self.overworld()
        if self.floor in HALLS and not self.world.opened:
            self.chest()
        if int(self.world.kills) < 8:
            self.clear()
        if self.floor in (2, 5):
            self.riches()
        self.prepare()
        return self.descend()

    def play(self):
        while not self.over:
            try:
                self.stage()
            except AgainError:
                pass
            except LostError as lost:
                self.note("lost", lost)
                if self.deaths > 60:
                    raise
                self.rewind()

    def riches(self):
        """Diamonds, and what is made of them."""
        self.collect("stone", 80, Block.STONE)
        if self.has("sword") < 4:
            self.collect("wood", 2, Block.TREE)
            if self.collect("diamond", 2, Block.DIAMOND):
                self.make("sword", 4, Action.MAKE_DIAMOND_SWORD)


def main():
    global LOG
    seed, stand = int(sys.argv[1]), tuple(map(int, sys.argv[2].split(",")))
    LOG = f"/tmp/game{seed}-{sys.argv[5] if len(sys.argv) > 5 else 0}.npy"
    game = Winner(seed)
    game.stand = stand
    if len(sys.argv) > 3:
        for action in np.load(sys.argv[3])[: int(sys.argv[4])]:
            game.act(action)
    try:
        game.play()
    except LostError as lost:
        print("lost", lost)
    print(game.time, game.floor, game.over, int(game.world.boss["progress"]))
    game.note("end")


if __name__ == "__main__":
    main()
