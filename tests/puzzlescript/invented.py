"""Generate random PuzzleScript games with rules of every kind, random levels and inputs."""

import random
from typing import NamedTuple

LAYERS = (("a", "b", "ab"), ("c", "d", "cd"), ("p", "q", "player", "wall"))
NAMES = ("background", "a", "b", "c", "d", "p", "q", "wall")
ONE = (">", "<", "^", "v", "up", "left", "down", "right", "action", "stationary")
SEVERAL = ("moving", "horizontal", "vertical", "parallel", "perpendicular", "orthogonal")
DIRECTIONS = ("", "", "", "up", "left", "down", "right", "horizontal", "vertical", "orthogonal")
COMMANDS = ("again", "again", "cancel", "restart", "checkpoint", "win", "sfx0", "message hi")
OPTIONS = {"run_rules_on_level_start": 0.3, "require_player_movement": 0.15, "noaction": 0.1}
PLAYERS = ("p or q", "p or q", "p", "p and c", "p or a", "q or c or a")
WINS = ("all a on c", "some b", "no d", "no a on d", "all player on c", "all mix on c", "some both")
SHAPES = ((1, 1), (1, 6), (6, 1), (3, 3), (5, 4), (4, 6), (8, 8), (12, 2), (2, 12), (10, 9))
WIDE = ((33, 2), (36, 1), (1, 36), (2, 33), (32, 2), (40, 1), (1, 40))
LEGEND = "ab = a or b; cd = c or d; mix = a or c or p; ac = a or c; both = b and d; . = background"
LEGEND += "; # = wall; 1 = a and c; 2 = p and c; 3 = q and c; 4 = b and d; player = "
MIDDLE = "SOUNDS; sfx0 12345; COLLISIONLAYERS; background; a, b; c, d; p, q, wall; RULES"


class Name(NamedTuple):
    """A name in a cell of a rule, with its modifier.

    `layer` is the index in `LAYERS` of the named objects' layer; -1 if they are on several layers.
    """

    modifier: str
    name: str
    layer: int


class Inventor:
    """Generator of one random game and its inputs, both determined by `seed`."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.has_draws = self.chance(0.3)  # whether rules may draw random numbers
        # Number of modifiers in the current rule that each stand for several movements.
        self.several = 0

    def chance(self, share: float) -> bool:
        """Return True with probability `share`."""
        return self.draw.random() < share

    def game(self) -> str:
        """Return the source of a game with one level."""
        options = [name for name, share in OPTIONS.items() if self.chance(share)]
        objects = [f"\n{name}\nred" for name in NAMES]
        legend = LEGEND + self.draw.choice(PLAYERS)
        before = [*options, "OBJECTS", *objects, "LEGEND", *legend.split("; "), *MIDDLE.split("; ")]
        wins = self.draw.sample(WINS, self.draw.choice((0, 1, 1, 2)))
        after = ["WINCONDITIONS", *wins, "LEVELS", *self.level(), ""]
        return "\n".join([*before, *self.rules(), *after])

    def rules(self) -> list[str]:
        """Return the lines of rules: single rules, groups, random groups and a loop."""
        found = ["[ > player | ab ] -> [ > player | > ab ]"] if self.chance(0.6) else []
        for _ in range(self.draw.randrange(1, 6)):
            late = self.chance(0.2)
            kind = "rigid " if not late and self.chance(0.08) else ""
            first = "random " if self.has_draws and not kind and self.chance(0.4) else kind
            found.append(first + self.rule(late))
            while self.chance(0.25):
                found[-1] += f"\n+ {kind}{self.rule(late)}"
        if self.chance(0.4):
            start, end = sorted(self.draw.sample(range(len(found) + 1), 2))
            found[start:end] = ["startloop", *found[start:end], "endloop"]
        return found

    def rule(self, late: bool) -> str:
        """Return a random rule; `late` is whether it is a late rule."""
        self.several = 0
        lefts, rights = [], []
        for _ in range(self.draw.choice((1, 1, 1, 1, 2, 2, 3))):
            left = [self.cell(late) for _ in range(self.draw.choice((1, 1, 2, 2, 3)))]
            gaps = 2 if self.chance(0.04) else int(self.chance(0.15))
            places = self.draw.sample(range(1, len(left)), min(len(left) - 1, gaps))
            lefts.append(row(left, places))
            rights.append(row([self.after(cell, late) for cell in left], places))
        command = self.draw.choice(COMMANDS) if self.chance(0.3) else ""
        after = "" if command and self.chance(0.3) else " ".join(rights)
        head = ("late " if late else "") + self.draw.choice(DIRECTIONS)
        return f"{head} {' '.join(lefts)} -> {after} {command}"

    def cell(self, late: bool) -> list[Name]:
        """Return a random cell for the left side of a rule."""
        layers = self.draw.sample(range(3), self.draw.choice((0, 1, 1, 1, 2, 2)))
        found = [Name(self.modifier(late), self.draw.choice(LAYERS[i]), i) for i in layers]
        if len(layers) < 2 and self.chance(0.1):
            found.append(Name(self.modifier(late), self.draw.choice(("mix", "ac", "both")), -1))
        return found

    def modifier(self, late: bool) -> str:
        """Return a random modifier for the left side of a rule; "" for none."""
        if self.chance(0.15):
            return "no"
        if late or self.chance(0.4):
            return ""
        if self.several < 2 and self.chance(0.3):
            self.several += 1
            return self.draw.choice(SEVERAL)
        return self.draw.choice(ONE)

    def after(self, cell: list[Name], late: bool) -> list[Name]:
        """Return a random cell for the right side; `cell` is the same cell of the left side."""
        found = []
        moves = ("",) if late else (*ONE, *["randomdir"] * 6) if self.has_draws else ONE
        for each in (each for each in cell if each.modifier != "no"):
            others = [name for name in LAYERS[each.layer] if name in NAMES]
            moved = each._replace(modifier=self.draw.choice(moves))
            other = each._replace(name=self.draw.choice(others)) if each.layer >= 0 else each
            ways = ([each], [each], [moved], [each._replace(modifier="")], [other], [])
            found += self.draw.choice(ways)
        free = [i for i in range(3) if i not in {each.layer for each in found}]
        if free and all(each.layer >= 0 for each in found) and self.chance(0.35):
            layer = self.draw.choice(free)
            if self.has_draws and layer < 2 and self.chance(0.5):
                return [*found, Name("random", LAYERS[layer][2], layer)]
            modifier = "" if late or self.chance(0.6) else self.draw.choice(ONE)
            found.append(Name(modifier, LAYERS[layer][self.draw.randrange(2)], layer))
        return found

    def level(self) -> list[str]:
        """Return the rows of a level; at least one cell has the object `p`."""
        width, height = self.draw.choice(WIDE if self.chance(0.2) else SHAPES)
        glyphs = "....aabccdpq#1234" if self.chance(0.4) else "....aabccd#14"
        rows = [self.draw.choices(glyphs, k=width) for _ in range(height)]
        rows[self.draw.randrange(height)][self.draw.randrange(width)] = self.draw.choice("p2")
        return ["".join(row) for row in rows]

    def inputs(self, count: int) -> list[int | str]:
        """Return `count` random inputs for the engine."""
        every = [0, 1, 2, 3, 4, 0, 1, 2, 3, "tick"]
        return ["restart" if self.chance(0.04) else self.draw.choice(every) for _ in range(count)]


def row(cells: list[list[Name]], places: list[int]) -> str:
    """Return the text of a row; an ellipsis precedes each cell whose index is in `places`."""
    texts = [" ".join(f"{each.modifier} {each.name}".strip() for each in cell) for cell in cells]
    for place in sorted(places, reverse=True):
        texts.insert(place, "...")
    return f"[ {' | '.join(texts)} ]"
