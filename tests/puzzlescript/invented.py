"""Random games: rules of every kind next to each other, on random levels.

Most of them are games that nobody would write. They combine features that no game of a collection
combines. Some have errors, and the engine does not play those.
"""

import random
from typing import NamedTuple

LAYERS = (("a", "b", "ab"), ("c", "d", "cd"), ("p", "q", "player", "wall"))
OBJECTS = {"a", "b", "c", "d", "p", "q", "wall"}
ONE = (">", "<", "^", "v", "up", "left", "down", "right", "action", "stationary")
SEVERAL = ("moving", "horizontal", "vertical", "parallel", "perpendicular", "orthogonal")
DIRECTIONS = ("", "", "", "up", "left", "down", "right", "horizontal", "vertical", "orthogonal")
COMMANDS = ("again", "again", "cancel", "restart", "checkpoint", "win", "sfx0", "message hi")
OPTIONS = {"run_rules_on_level_start": 0.3, "require_player_movement": 0.15, "noaction": 0.1}
PLAYERS = ("p or q", "p or q", "p", "p and c", "p or a", "q or c or a")
WINS = ("all a on c", "some b", "no d", "no a on d", "all player on c", "all mix on c", "some both")
SHAPES = ((1, 1), (1, 6), (6, 1), (3, 3), (5, 4), (4, 6), (8, 8), (12, 2), (2, 12), (16, 16))
WIDE = ((33, 3), (36, 2), (1, 36), (3, 33), (32, 2), (40, 4), (4, 40))
GLYPHS = "....aabccdpq#1234"
START = "OBJECTS\n" + "".join(
    f"\n{name}\nred\n" for name in ("background", "a", "b", "c", "d", "p", "q", "wall")
)
LEGEND = """
LEGEND
ab = a or b
cd = c or d
mix = a or c or p
ac = a or c
both = b and d
player = {player}
. = background
# = wall
1 = a and c
2 = p and c
3 = q and c
4 = b and d

SOUNDS
sfx0 12345

COLLISIONLAYERS
background
a, b
c, d
p, q, wall
"""


class Name(NamedTuple):
    """A name in a cell of a rule."""

    modifier: str
    name: str
    layer: int  # -1: the name stands for objects of several layers


class Inventor:
    """Draws the parts of one game; `seed` determines all of them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.has_draws = self.chance(0.3)  # whether rules may draw random numbers
        self.several = 0  # number of modifiers of the current rule with several movements

    def chance(self, share: float) -> bool:
        """Return True with a probability."""
        return self.draw.random() < share

    def game(self) -> str:
        """Return the source of a game with one level."""
        options = "\n".join(name for name, share in OPTIONS.items() if self.chance(share))
        wins = "\n".join(self.draw.sample(WINS, self.draw.choice((0, 1, 1, 2))))
        legend = LEGEND.format(player=self.draw.choice(PLAYERS))
        rules = f"RULES\n{self.rules()}\n\nWINCONDITIONS\n{wins}\n\nLEVELS\n"
        return "\n".join((options, START, legend, rules, self.level(), ""))

    def rules(self) -> str:
        """Return rules: groups, loops, random groups and single rules in any order."""
        found = ["[ > player | ab ] -> [ > player | > ab ]"] if self.chance(0.6) else []
        in_loop = False
        for _ in range(self.draw.randrange(1, 6)):
            if not in_loop and self.chance(0.15):
                in_loop = bool(found.append("startloop") or True)
            late = self.chance(0.2)
            kind = "random " if self.has_draws and self.chance(0.4) else ""
            kind = "rigid " if not (late or kind) and self.chance(0.08) else kind
            found.append(kind + self.rule(late))
            while self.chance(0.25):
                found.append(f"+ {kind}{self.rule(late)}")
            if in_loop and self.chance(0.5):
                in_loop = bool(found.append("endloop"))
        return "\n".join([*found, *(["endloop"] if in_loop else [])])

    def rule(self, late: bool) -> str:
        """Return a rule."""
        self.several = 0
        sides: tuple[list[str], list[str]] = ([], [])
        for _ in range(self.draw.choice((1, 1, 1, 1, 2, 2, 3))):
            count = self.draw.choice((1, 1, 2, 2, 3))
            left = [self.cell(late) for _ in range(count)]
            right = [self.after(cell, late) for cell in left]
            gaps = sorted(self.draw.sample(range(1, count), min(count - 1, self.gaps())))
            for side, cells in zip(sides, (left, right), strict=True):
                texts = [" ".join(f"{n.modifier} {n.name}".strip() for n in c) for c in cells]
                for gap in reversed(gaps):
                    texts.insert(gap, "...")
                side.append(f"[ {' | '.join(texts)} ]")
        command = self.draw.choice(COMMANDS) if self.chance(0.3) else ""
        after = "" if command and self.chance(0.3) else " ".join(sides[1])
        head = ("late " if late else "") + self.draw.choice(DIRECTIONS)
        return f"{head} {' '.join(sides[0])} -> {after} {command}"

    def gaps(self) -> int:
        """Return the number of ellipses of a row."""
        return 2 if self.chance(0.04) else int(self.chance(0.15))

    def cell(self, late: bool) -> list[Name]:
        """Return a cell of the left side."""
        layers = self.draw.sample(range(3), self.draw.choice((0, 1, 1, 1, 2, 2)))
        found = [Name(self.modifier(late), self.draw.choice(LAYERS[i]), i) for i in layers]
        if len(layers) < 2 and self.chance(0.1):
            found.append(Name(self.modifier(late), self.draw.choice(("mix", "ac", "both")), -1))
        return [n if n.name != "both" or n.modifier != "no" else Name("no", "b", 0) for n in found]

    def modifier(self, late: bool) -> str:
        """Return a modifier of the left side."""
        if self.chance(0.15):
            return "no"
        if late or self.chance(0.4):
            return ""
        if self.several < 2 and self.chance(0.3):
            self.several += 1
            return self.draw.choice(SEVERAL)
        return self.draw.choice(ONE)

    def after(self, cell: list[Name], late: bool) -> list[Name]:
        """Return a cell of the right side, given the same cell of the left side."""
        found = []
        for each in (each for each in cell if each.modifier != "no"):
            ways = ["same", "same", "moved", "plain", "replaced", "gone"]
            way = self.draw.choice(ways)
            if way == "same":
                found.append(each)
            elif way == "plain" or (way == "moved" and late):
                found.append(each._replace(modifier=""))
            elif way == "moved":
                modifiers = (*ONE, "randomdir") if self.has_draws else ONE
                found.append(each._replace(modifier=self.draw.choice(modifiers)))
            elif way == "replaced" and each.layer >= 0:
                others = [name for name in LAYERS[each.layer] if name in OBJECTS]
                found.append(each._replace(name=self.draw.choice(others)))
        if all(each.layer >= 0 for each in found) and self.chance(0.35):
            free = [i for i in range(3) if i not in {each.layer for each in found}]
            found += [self.new(self.draw.choice(free), late)] if free else []
        return found

    def new(self, layer: int, late: bool) -> Name:
        """Return an object that a rule creates."""
        if self.has_draws and self.chance(0.5):
            return Name("random", self.draw.choice(LAYERS[layer][:3]), layer)
        modifier = "" if late or self.chance(0.6) else self.draw.choice(ONE)
        return Name(modifier, LAYERS[layer][self.draw.randrange(2)], layer)

    def level(self) -> str:
        """Return a level, in most games with one player."""
        width, height = self.draw.choice(WIDE if self.chance(0.2) else SHAPES)
        glyphs = GLYPHS if self.chance(0.4) else "....aabccd#14"
        rows = [self.draw.choices(glyphs, k=width) for _ in range(height)]
        rows[self.draw.randrange(height)][self.draw.randrange(width)] = self.draw.choice("p2")
        return "\n".join("".join(row) for row in rows)

    def inputs(self, count: int) -> list[int | str]:
        """Return random inputs of the engine."""
        every = [0, 1, 2, 3, 4, 0, 1, 2, 3, "tick"]
        return ["restart" if self.chance(0.04) else self.draw.choice(every) for _ in range(count)]
