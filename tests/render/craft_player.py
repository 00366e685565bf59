"""A scripted player of Craft that presses keys until it has earned all achievements.

Record its keys for `test_craft.py` by
`python tests/render/craft_player.py > tests/render/craft_keys.txt`
"""

import heapq
from collections.abc import Callable, Collection, Iterator

import jax
import numpy as np

import jaxenvs
from jaxenvs.craft import Block
from jaxenvs.render.controls import Controller
from jaxenvs.render.session import Session

Cell = tuple[int, int]
# Yields pairs (name, function). The name denotes an achievement, or an aim that helps to earn
# achievements, such as "stone tools". The function presses the next key towards the achievement or
# aim, or returns False if no key helps.
Deeds = Iterator[tuple[str, Callable[[], bool]]]
KEYS = {(0, -1): "a", (0, 1): "d", (-1, 0): "w", (1, 0): "s"}
FACING = {1: (0, -1), 2: (0, 1), 3: (-1, 0), 4: (1, 0)}
FREE = {Block.GRASS, Block.SAND, Block.PATH}
TOOLS = {  # block -> tool that is needed to dig through it; None: no tool
    Block.TREE: None,
    Block.STONE: "wood_pickaxe",
    Block.COAL: "wood_pickaxe",
    Block.IRON: "stone_pickaxe",
}
DIG, BRIDGE = 3, 12  # path costs of a step through a solid block, and over water
# The player takes shelter between these two steps of each day of 300 steps.
EVENING, MORNING = 120, 280
SEEDS = range(50)


def beyond(cell: Cell, step: Cell, times: int = 1) -> Cell:
    return cell[0] + times * step[0], cell[1] + times * step[1]


class Player:
    """Player that presses keys of a controller, and records them in `keys`.

    Methods that act, such as `walk`, press at most one key per call, and return whether they did.
    """

    def __init__(self, controller: Controller) -> None:
        self.controller, self.keys = controller, []
        env = controller.session.env
        self.names, self.read = env.achievements, jax.jit(env.world)
        self.burrow: tuple[Cell, Cell, Cell, Cell] | None = None
        self.look()

    def look(self) -> None:
        session = self.controller.session
        state = session.state()
        world = jax.device_get(self.read(state))
        self.map, self.hour = np.asarray(state.map), int(state.time) % 300
        self.at, self.ahead = (int(world.row), int(world.column)), FACING[int(world.facing)]
        self.asleep = bool(world.sleeping)
        self.done = {n for n, e in zip(self.names, session.now.earned[0], strict=True) if e}
        self.has = {name: int(count) for name, count in world.items.items()}
        self.body = {name: int(value) for name, value in world.vitals.items()}
        self.mobs = {
            role: {(int(m.row), int(m.column)) for m in slots if m.alive}
            for role, slots in world.mobs.items()
        }
        self.taken = set().union(*self.mobs.values())

    def press(self, key: str) -> bool:
        assert self.controller.press(key), key
        self.keys.append(key)
        self.look()
        return True

    # Methods that query the map.

    def block(self, cell: Cell) -> Block:
        inside = all(0 <= c < side for c, side in zip(cell, self.map.shape, strict=True))
        return Block(int(self.map[cell])) if inside else Block.OUT_OF_BOUNDS

    def is_open(self, cell: Cell) -> bool:
        return self.block(cell) in FREE and cell not in self.taken

    def all_of(self, block: Block) -> set[Cell]:
        return {(int(row), int(column)) for row, column in np.argwhere(self.map == block)}

    def near(self, block: Block) -> bool:
        around = [(self.at[0] + r, self.at[1] + c) for r in (-1, 0, 1) for c in (-1, 0, 1)]
        return any(self.block(cell) == block for cell in around)

    @property
    def dark(self) -> bool:
        return EVENING < self.hour < MORNING

    def room(self, closed: Cell | None = None) -> int:
        """Return the number of cells in reach without crossing `closed`.

        The result is exact below 5; a larger area gives 5 or more.
        """
        seen, todo = {self.at}, [self.at]
        while todo and len(seen) < 5:
            cell = todo.pop()
            for step in KEYS:
                new = beyond(cell, step)
                if new not in seen and new != closed and self.block(new) in FREE:
                    seen.add(new)
                    todo.append(new)
        return len(seen)

    # Methods that find and follow paths.

    def way(self, goals: Collection[Cell]) -> Cell | None:
        """Return the first step of the cheapest path to one of `goals`; None if there is no path.

        The path may cross water and blocks that the player can dig through, such as stone.
        """
        goals = set(goals) - {self.at}
        heap: list[tuple[int, Cell, Cell | None]] = [(0, self.at, None)] if goals else []
        seen = set()
        while heap:
            cost, cell, first = heapq.heappop(heap)
            if cell in goals:
                return first
            if cell in seen:
                continue
            seen.add(cell)
            for step in KEYS:
                new = beyond(cell, step)
                price = 1 if new in goals else self.price(new)
                if price and new not in seen:
                    heapq.heappush(heap, (cost + price, new, first or step))
        return None

    def price(self, cell: Cell) -> int:
        """Return the cost of a step onto a cell, or 0 if the step is impossible."""
        block = self.block(cell)
        distance = abs(cell[0] - self.at[0]) + abs(cell[1] - self.at[1])
        if block in FREE:
            return 0 if cell in self.taken and distance < 3 else 1
        if block in TOOLS:
            return DIG if TOOLS[block] is None or self.has[TOOLS[block]] else 0
        return BRIDGE if block == Block.WATER and self.has["stone"] >= 3 else 0

    def act_on(self, goals: Collection[Cell]) -> bool:
        """Press the next key on the path to one of `goals`, or DO if the player faces a goal.

        Returns False if no path leads to a goal.
        """
        return self._go(goals, at_goal=True)

    def walk(self, goals: Collection[Cell]) -> bool:
        """Press the next key towards one of the cells `goals`; return False if there is no path."""
        return self._go(goals, at_goal=False)

    def _go(self, goals: Collection[Cell], at_goal: bool) -> bool:
        step = self.way(goals)
        if step is None:
            return False
        cell = beyond(self.at, step)
        if self.is_open(cell) and not (at_goal and cell in goals and self.ahead == step):
            return self.press(KEYS[step])
        if self.ahead != step:
            return self.press(KEYS[step])
        over_water = self.block(cell) == Block.WATER and cell not in goals
        return self.press("r" if over_water else "space")

    def place(self, key: str, on: Collection[Block]) -> bool:
        """Press `key`, which places an object, if the block ahead is in `on`; otherwise, move."""
        cell = beyond(self.at, self.ahead)
        if self.block(cell) in on and cell not in self.taken:
            return self.press(key)
        steps = [s for s in KEYS if self.is_open(beyond(self.at, s))]
        return bool(steps) and self.press(KEYS[steps[0]])

    # Methods for the night.

    def shelter(self) -> bool | None:
        """Press the next key to dig a shelter into stone and close its entrance.

        Returns True after a key press, False if the player is already enclosed (no key is pressed),
        and None if no stone is suitable.
        """
        if self.room() < 4:
            self.burrow = None
            return False
        entrance = beyond(self.at, self.ahead)
        if self.has["stone"] and self.is_open(entrance) and self.room(entrance) < 4:
            return self.press("r")
        self.burrow = self.burrow or self.find_burrow()
        if self.burrow is None:
            return None
        outside, inner, innermost, step = self.burrow
        if self.at == innermost:
            return self.press(KEYS[-step[0], -step[1]])
        if self.at == outside or (self.at == inner and self.ahead == step):
            open_ahead = self.is_open(beyond(self.at, step))
            return self.press(KEYS[step] if open_ahead or self.ahead != step else "space")
        if self.at != inner and self.walk({outside}):
            return True
        self.burrow = None
        return self.press(KEYS[step]) if self.at == inner else None

    def find_burrow(self) -> tuple[Cell, Cell, Cell, Cell] | None:
        """Return cells where a shelter can be dug, or None: (outside, inner, innermost, direction).

        `outside` is an open cell. `inner` and `innermost` are the two cells behind it in
        `direction`; both are stone and have solid blocks around them.
        """
        open_or_wet = {*FREE, Block.WATER, Block.OUT_OF_BOUNDS}
        stones = self.all_of(Block.STONE)
        nearest = sorted(stones, key=lambda c: abs(c[0] - self.at[0]) + abs(c[1] - self.at[1]))
        for inner in nearest[:60]:
            for step in KEYS:
                outside, innermost = beyond(inner, step, -1), beyond(inner, step)
                aside = (step[1], step[0])
                walls = [beyond(c, aside, k) for c in (inner, innermost) for k in (1, -1)]
                walls.append(beyond(inner, step, 2))
                solid = all(self.block(wall) not in open_or_wet for wall in walls)
                if self.block(outside) in FREE and innermost in stones and solid:
                    return outside, inner, innermost, step
        return None

    # Plans in order of priority; `play` follows the first feasible one.

    def play(self) -> None:
        """Press the next key of the first plan that is feasible.

        If the player is asleep, or if no plan is feasible, press "q", the key of the noop action.
        """
        plans = (self.defend, self.live, self.rest, self.achieve)
        if self.asleep or not any(plan() for plan in plans):
            self.press("q")

    def defend(self) -> bool:
        for step in KEYS:
            if beyond(self.at, step) in self.mobs["melee"] | self.mobs["ranged"]:
                return self.press("space" if self.ahead == step else KEYS[step])
        return False

    def live(self) -> bool:
        body, wet = self.body, any(self.block(beyond(self.at, s)) == Block.WATER for s in KEYS)
        enough = 8 if wet else 3 if self.dark else 6
        if body["drink"] <= enough and self.act_on(self.all_of(Block.WATER)):
            return True
        food = self.mobs["passive"] | self.all_of(Block.RIPE_PLANT)
        return body["food"] <= (3 if self.dark else 5) and self.act_on(food)

    def rest(self) -> bool:
        body, stone = self.body, self.has["stone"]
        sleep = "tab" if body["energy"] < 9 else "q"
        if body["health"] <= 3 and stone and min(body["drink"], body["food"]) > 1:
            went = self.shelter()
            if went is not None:
                return went or self.press(sleep)
        tired = body["energy"] <= 4 or self.dark
        if (
            self.has["wood_pickaxe"]
            and stone < 5
            and tired
            and self.act_on(self.all_of(Block.STONE))
        ):
            return True
        if body["energy"] <= 3 or (self.dark and body["energy"] <= 6 and stone):
            return bool(stone and self.shelter()) or self.press("tab")
        if self.dark and self.room() < 4 and min(body["drink"], body["food"]) > 2:
            return self.press(sleep)
        weak = body["health"] < 7 and min(body["drink"], body["food"]) > 4
        return bool(self.dark and stone and weak and self.shelter())

    def achieve(self) -> bool:
        """Press the next key towards the first missing achievement that is feasible."""
        parts = (self.beginnings, self.crafts, self.ends)
        return any(name not in self.done and deed() for part in parts for name, deed in part())

    def beginnings(self) -> Deeds:
        yield "collect_sapling", lambda: self.act_on(self.all_of(Block.GRASS))
        if self.has["sapling"]:
            yield "place_plant", lambda: self.place("p", {Block.GRASS})
        yield "eat_cow", lambda: self.act_on(self.mobs["passive"])
        yield "collect_drink", lambda: self.act_on(self.all_of(Block.WATER))
        yield "place_table", lambda: self.gather(wood=4) or self.place("t", FREE)

    def crafts(self) -> Deeds:
        table, stone = self.near(Block.CRAFTING_TABLE), self.has["stone"]
        yield "wood tools", lambda: any(self.tools("wood", "14", table))
        yield "stone tools", lambda: any(self.tools("stone", "25", table))
        if stone and table:
            yield "place_furnace", lambda: self.place("f", FREE)
        if stone:
            yield "place_stone", lambda: self.place("r", FREE | {Block.WATER})
        yield "eat_plant", lambda: self.act_on(self.all_of(Block.RIPE_PLANT))
        yield "iron tools", lambda: any(self.tools("iron", "36", table))

    def ends(self) -> Deeds:
        yield "collect_diamond", lambda: self.act_on(self.all_of(Block.DIAMOND))
        yield "defeat_zombie", lambda: self.act_on(self.mobs["melee"])
        yield "defeat_skeleton", lambda: self.act_on(self.mobs["ranged"])
        yield "defeat_skeleton", lambda: self.walk(self.tunnels())
        # Gather a stock of stones, for the shelter and for bridges.
        yield "a stock", lambda: self.gather(stone=6)
        if not self.near(Block.PLANT):
            yield "eat_plant", lambda: self.walk(self.all_of(Block.PLANT))

    def tools(self, material: str, keys: str, table: bool) -> Iterator[bool]:
        """Try the steps towards missing tools of a material; yield whether a step pressed a key.

        The caller stops at the first step that has pressed a key.
        """
        made = [self.has[f"{material}_{tool}"] for tool in ("pickaxe", "sword")]
        missing = made.count(0)
        if not missing:
            return
        yield self.gather(**self.costs(material, missing, table))
        if not table:
            yield self.walk(self.all_of(Block.CRAFTING_TABLE))
        elif material == "iron" and not self.near(Block.FURNACE):
            yield self.place("f", FREE)
        else:
            yield self.press(keys[made.index(0)])

    def costs(self, material: str, count: int, table: bool) -> dict[str, int]:
        """Return how many of each item the player must have for `count` tools of a material.

        Without a table nearby (`table` is False), stone tools need more wood and stone.
        """
        if material == "wood":
            return {"wood": count}
        if material == "stone":
            return {"wood": count, "stone": count} if table else {"wood": 5, "stone": 7}
        return dict.fromkeys(("wood", "stone", "coal", "iron"), count)

    def gather(self, **wanted: int) -> bool:
        """Press the next key to gather the first item that the player has too few of."""
        blocks = {"wood": Block.TREE}
        return any(
            self.has[name] < count
            and self.act_on(self.all_of(blocks.get(name, Block[name.upper()])))
            for name, count in wanted.items()
        )

    def tunnels(self) -> set[Cell]:
        """Return the path cells where skeletons may spawn: with 14 or more path cells around them.

        Cells within 2 steps of the player are excluded.
        """
        path = self.map == Block.PATH
        around = np.lib.stride_tricks.sliding_window_view(np.pad(path, 4), (9, 9)).sum((2, 3))
        far = np.abs(np.indices(path.shape) - np.array(self.at)[:, None, None]).sum(0) > 2
        return {(int(r), int(c)) for r, c in np.argwhere(path & (around >= 14) & far)}


def begun(seed: int) -> Controller:
    """Return a controller at the start of the game with this seed."""
    return Controller(Session(jaxenvs.make("Craft-Classic-Ids-v0"), seed=seed), "", "play")


def main() -> None:
    """Print the seed and keys of the first game that earns all achievements."""
    for seed in SEEDS:
        player = Player(begun(seed))
        while not player.controller.session.is_over() and len(player.done) < len(player.names):
            player.play()
        if len(player.done) == len(player.names):
            print(seed, *player.keys)
            return


if __name__ == "__main__":
    main()
