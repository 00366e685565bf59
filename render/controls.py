"""What the keys do, as tables, and the controller that carries them out on a session."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..classic import CartPole
from ..core.env import Env
from ..core.spaces import Discrete
from ..craft import Action as Craft
from ..craft import CraftClassic
from ..grid import Action, GridEnv
from ..puzzles import Game2048, Maze, Minesweeper, Puzzle, SlidingTile, Sokoban, Sudoku, TopSpin
from ..puzzles import TwistyPuzzle as Twisty
from .pointing import Place, pointing
from .session import Session


class ActionKeys(NamedTuple):
    """One action of an environment: its name and keys (names as pygame gives them)."""

    action: int
    name: str
    play: tuple[str, ...]  # keys when a person plays
    watch: tuple[str, ...]  # keys that take over from a policy: there the arrows move in time


class Binding(NamedTuple):
    """One thing that keys do, for the help."""

    keys: tuple[str, ...]
    does: str
    run: Callable[["Controller"], None]


GRID_ACTIONS = (
    ActionKeys(Action.LEFT, "left", ("left", "a"), ("a",)),
    ActionKeys(Action.RIGHT, "right", ("right", "d"), ("d",)),
    ActionKeys(Action.FORWARD, "forward", ("up", "w"), ("w",)),
    ActionKeys(Action.PICKUP, "pick up", ("tab",), ("tab",)),
    ActionKeys(Action.DROP, "drop", ("q", "left shift"), ("q", "left shift")),
    ActionKeys(Action.TOGGLE, "toggle", ("space", "e"), ("e",)),
    ActionKeys(Action.DONE, "done", ("return",), ("return",)),
)
CRAFT_ACTIONS = (  # upstream's keys, and arrows
    ActionKeys(Craft.NOOP, "noop", ("q",), ("q",)),
    ActionKeys(Craft.LEFT, "left", ("a", "left"), ("a",)),
    ActionKeys(Craft.RIGHT, "right", ("d", "right"), ("d",)),
    ActionKeys(Craft.UP, "up", ("w", "up"), ("w",)),
    ActionKeys(Craft.DOWN, "down", ("s", "down"), ("s",)),
    ActionKeys(Craft.DO, "do: gather, hit, eat", ("space", "e"), ("e",)),
    ActionKeys(Craft.SLEEP, "sleep", ("tab",), ("tab",)),
    ActionKeys(Craft.PLACE_STONE, "place stone", ("r",), ("r",)),
    ActionKeys(Craft.PLACE_TABLE, "place table", ("t",), ("t",)),
    ActionKeys(Craft.PLACE_FURNACE, "place furnace", ("f",), ("f",)),
    ActionKeys(Craft.PLACE_PLANT, "place plant", ("p",), ("p",)),
    ActionKeys(Craft.MAKE_WOOD_PICKAXE, "make wood pickaxe", ("1",), ("1",)),
    ActionKeys(Craft.MAKE_STONE_PICKAXE, "make stone pickaxe", ("2",), ("2",)),
    ActionKeys(Craft.MAKE_IRON_PICKAXE, "make iron pickaxe", ("3",), ("3",)),
    ActionKeys(Craft.MAKE_WOOD_SWORD, "make wood sword", ("4",), ("4",)),
    ActionKeys(Craft.MAKE_STONE_SWORD, "make stone sword", ("5",), ("5",)),
    ActionKeys(Craft.MAKE_IRON_SWORD, "make iron sword", ("6",), ("6",)),
)
FOUR_WAYS = (
    ActionKeys(0, "up", ("up", "w"), ("w",)),
    ActionKeys(1, "right", ("right", "d"), ("d",)),
    ActionKeys(2, "down", ("down", "s"), ("s",)),
    ActionKeys(3, "left", ("left", "a"), ("a",)),
)
CART_ACTIONS = (
    ActionKeys(0, "left", ("left", "a"), ("a",)),
    ActionKeys(1, "right", ("right", "d"), ("d",)),
)
RING_ACTIONS = (
    ActionKeys(0, "turn left", ("left", "a"), ("a",)),
    ActionKeys(1, "turn right", ("right", "d"), ("d",)),
    ActionKeys(2, "reverse the window", ("up", "w"), ("w",)),
)
GO_ON = ("space", "return")  # beside R: what begins the next level at the end of an episode


def action_keys(env: Env) -> tuple[ActionKeys, ...]:
    """Return names and keys of an environment's actions, see `_usual_keys` where there is no table.

    A capital letter is a letter with Shift. What is pointed at has no keys, see `pointing`.
    """
    space = env.action_space
    if isinstance(env, GridEnv) and isinstance(space, Discrete):
        return GRID_ACTIONS[: space.n]
    if isinstance(env, CraftClassic):
        return CRAFT_ACTIONS
    if isinstance(env, CartPole):
        return CART_ACTIONS
    if not isinstance(space, Discrete):
        raise ValueError(f"{env.name} cannot be played by keys: its actions are {space}")
    keys = _puzzle_keys(env)
    if keys is not None:
        return keys
    names = env.action_names or [f"action {i}" for i in range(space.n)]
    return tuple(_usual_keys(i, name) for i, name in enumerate(names))


def _usual_keys(action: int, name: str) -> ActionKeys:
    """Arrows for an action that is named as a way, else its number."""
    for way in FOUR_WAYS:
        if way.name == name:
            return way._replace(action=action)
    keys = (str(action),) if action < 10 else ()
    return ActionKeys(action, name, keys, keys)


def _puzzle_keys(env: Env) -> tuple[ActionKeys, ...] | None:
    """Return names and keys of a puzzle's actions; None for what is no puzzle."""
    if isinstance(env, SlidingTile):
        return tuple(row._replace(name=f"blank {row.name}") for row in FOUR_WAYS)
    if isinstance(env, Maze | Sokoban | Game2048):
        return FOUR_WAYS
    if isinstance(env, TopSpin) and env.moves == "ring":
        return RING_ACTIONS
    if isinstance(env, Minesweeper):
        cells = range(env.rows * env.columns)
        names = tuple(f"{i // env.columns},{i % env.columns}" for i in cells)
    elif isinstance(env, Puzzle):
        names = env.action_names
    else:
        return None
    keys = [_name_keys(env, i, name) for i, name in enumerate(names)]
    return tuple(ActionKeys(i, name, keys[i], keys[i]) for i, name in enumerate(names))


def _name_keys(env: Env, action: int, name: str) -> tuple[str, ...]:
    """The key of an action by its name: U is u, back it is U, by half a number key."""
    if isinstance(env, Twisty):
        half = sum(other.endswith("2") for other in env.action_names[: action + 1])
        return ({"": name[0].lower(), "'": name[0], "2": str(half)}[name[1:]],)
    if isinstance(env, Sudoku) and env.guided:
        return (name,)
    return (str(action),) if pointing(env) is None and action < 10 else ()


class Controller:
    """A session with what a viewer adds: which board is looked at, help, a notice, the end.

    `mode` is "play" (a person from the start) or "watch" (a pilot, until a person takes over).
    """

    def __init__(self, session: Session, title: str, mode: str = "play") -> None:
        self.session, self.title, self.mode = session, title, mode
        self.actions = action_keys(session.env)
        self.pointing = pointing(session.env)
        self.cursor: Place = (0, 0)  # the place that keys point at
        self.taken: Place | None = None  # the first of two places
        self.turned = (
            1.0  # share of the newest action that is shown, where a picture can be between
        )
        self.selected = 0  # board
        self.zoomed = session.boards == 1  # whether the selected board fills the window
        self.help_shown = False
        self.pointed: float | None = None  # place on the bar under the mouse, 0 to 1
        self.notice = ""  # one line for the viewer, until the next key
        self.open = True
        self.save: Callable[[], str] | None = None  # writes the session to a file; what it did

    @property
    def is_wall(self) -> bool:
        """Whether all boards are shown."""
        return not self.zoomed

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """What the keys do now; a key that acts does nothing else."""
        if self.is_wall:
            return WALL
        actions = (*self._action_bindings(), *self._cursor_bindings())
        taken = {key for binding in actions for key in binding.keys}
        rest = PLAY if self.mode == "play" else WATCH
        free = (b._replace(keys=tuple(k for k in b.keys if k not in taken)) for b in rest)
        return (*actions, *(binding for binding in free if binding.keys))

    @property
    def new_level_key(self) -> str:
        """The key that begins a new level."""
        return next(b.keys[0] for b in self.bindings if b.run is Controller.new_level)

    def _action_bindings(self) -> Iterator[Binding]:
        for row in self.actions:
            keys = row.play if self.mode == "play" else row.watch

            def run(controller: "Controller", action: int = row.action) -> None:
                controller.session.act(action, controller.selected)

            yield Binding(keys, row.name, run)

    def _cursor_bindings(self) -> Iterator[Binding]:
        """Keys that move the cursor and act there."""
        ways = self.pointing
        if ways is None:
            return
        for row, (down, right) in zip(FOUR_WAYS, ((-1, 0), (0, 1), (1, 0), (0, -1)), strict=True):
            if (ways.rows == 1 and down) or (ways.columns == 1 and right):
                continue
            keys = row.play if self.mode == "play" else row.watch

            def move(controller: "Controller", down: int = down, right: int = right) -> None:
                controller.cursor = ways.moved(controller.cursor, down, right)

            yield Binding(keys, f"cursor {row.name}", move)
        if ways.writes:
            for digit in range(1, 10):
                yield Binding((str(digit),), ways.does, lambda c, d=digit: c.write(d))
        else:
            keys = ("space", "e") if self.mode == "play" else ("e",)
            yield Binding(keys, ways.does, lambda c: c.point(c.cursor))

    def point(self, place: Place) -> None:
        """Act on a place; where an action takes two, the first one is kept."""
        self.cursor = place
        ways = self.pointing
        if ways is None or ways.writes:
            return
        places: tuple[Place, ...] = (place,)
        if ways.pair:
            first, self.taken = self.taken, place
            if first is None or first == place:
                self.taken = None if first == place else place
                return
            places = (first, place)
        self._act(ways.action(self.session.state(self.selected), *places))

    def write(self, digit: int) -> None:
        """Write a digit at the cursor."""
        if self.pointing is not None:
            self._act(self.pointing.action(None, self.cursor, digit))

    def _act(self, action: int | None) -> None:
        if action is None:
            self.notice = "no action there"
            return
        self.taken = None
        self.session.act(action, self.selected)

    def press(self, key: str) -> bool:
        """Do what a key does; return whether it does anything."""
        self.notice = ""
        bindings = self.bindings
        if not any(key in binding.keys for binding in bindings):
            key = key.lower()  # a letter with Shift that means nothing of its own
        if self.help_shown and key != "h":
            self.help_shown = False
            return True
        if self.mode == "play" and key in GO_ON and self.session.is_over():
            self.new_level()
            return True
        for binding in bindings:
            if key in binding.keys:
                binding.run(self)
                return True
        return False

    def scrub(self, share: float) -> None:
        """Go to a place in the history, 0 its oldest and 1 its newest moment."""
        self.session.seek(round(share * (len(self.session.history) - 1)))

    def zoom(self, board: int) -> None:
        """Look at one board of the wall."""
        self.selected, self.zoomed = board, True

    def close(self) -> None:
        """Leave the single board of a wall, else the window."""
        if self.zoomed and self.session.boards > 1:
            self.zoomed = False
        else:
            self.open = False

    def select_next(self) -> None:
        """Mark the next board of the wall."""
        self.selected = (self.selected + 1) % self.session.boards

    def toggle_help(self) -> None:
        """Show or hide the keys."""
        self.help_shown = not self.help_shown

    def new_level(self) -> None:
        """Begin the next episode: of the board looked at, or of the whole wall."""
        self.taken = None
        self.session.new_level(None if self.is_wall else self.selected)

    def save_file(self) -> None:
        """Save the session as a file, where the window offers it."""
        if self.save is not None:
            self.notice = self.save()


def _step(by: int) -> Callable[[Controller], None]:
    """Move the cursor; forward past the newest moment the pilot makes the next."""

    def run(controller: Controller) -> None:
        session = controller.session
        if by > 0 and session.at_end and not session.human:
            session.forward()
            session.paused = True
        else:
            session.seek(session.cursor + by)

    return run


_TIME = (
    Binding(("home",), "first moment", lambda c: c.session.seek(0)),
    Binding(("end",), "newest moment", lambda c: c.session.seek(len(c.session.history) - 1)),
)
_COMMON = (
    Binding(("r", "n"), "new level", Controller.new_level),
    Binding(("g",), "save a GIF of it", Controller.save_file),
    Binding(("h",), "these keys", Controller.toggle_help),
)
_PACE = (
    Binding(("up", "+", "="), "faster", lambda c: c.session.change_speed(True)),
    Binding(("down", "-"), "slower", lambda c: c.session.change_speed(False)),
)
_PILOT = (
    Binding(("space",), "pause, go on", lambda c: c.session.toggle_pause()),
    Binding(("left", "backspace", ","), "step back", _step(-1)),
    Binding(("right", "."), "step forward", _step(1)),
    *_TIME,
    *_PACE,
    *_COMMON,
)
PLAY = (
    Binding(("backspace", ","), "undo", _step(-1)),
    Binding((".",), "redo", _step(1)),
    *_TIME,
    *_COMMON,
    Binding(("escape",), "quit", Controller.close),
)
WATCH = (*_PILOT, Binding(("escape",), "back, quit", Controller.close))
WALL = (
    *_PILOT,
    Binding(("tab",), "next board", Controller.select_next),
    Binding(("return",), "look at the board", lambda c: c.zoom(c.selected)),
    Binding(("escape",), "quit", Controller.close),
)
