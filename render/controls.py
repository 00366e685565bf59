"""Key bindings of the viewer, and the controller that applies their commands to a session."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from jaxenvs.commands.parser import UsageError
from jaxenvs.core.controls import ARROWS, Controls, Place
from jaxenvs.core.drawing import UNDRAWN, is_drawn
from jaxenvs.core.env import Env

from .oracle import Oracle
from .session import Session


class Binding(NamedTuple):
    """A command and the keys that run it; the help lists one binding per line."""

    keys: tuple[str, ...]
    does: str  # description of the command, for the help
    run: Callable[["Controller"], None]


GO_ON = ("space", "return")  # keys that also start the next level once an episode has ended
# Keys that control the playback of a policy: they pause it, step through time or change the speed.
TIME = ("left", "right", "up", "down", "space")
# Change of (row, column) by which each arrow key moves the cursor over the picture.
STEPS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}


def playable(env: Env) -> Controls:
    """Return the environment's controls; raise `UsageError` if no key runs an action."""
    if not env.controls.actions:
        raise UsageError(f"{env.name} has no keys: its action space is {env.action_space}")
    return env.controls


def viewable(env: Env) -> Controls:
    """Return the environment's controls; raise `UsageError` if the environment has no pictures."""
    if not is_drawn(env):
        raise UsageError(f"{env.name} {UNDRAWN}; `jaxenvs play ID --text` describes it in words")
    return env.controls


class Controller:
    """State of the viewer of a session (such as the selected board), and its commands.

    A board is one of the session's environments. `mode` is "play" if a person chooses the actions.
    In mode "watch", a policy acts until a person takes an action.
    """

    def __init__(self, session: Session, title: str, mode: str = "play") -> None:
        self.session, self.title, self.mode = session, title, mode
        self.actions, self.pointing, _ = viewable(session.env)
        # Cursor: place (row, column) of the picture at which keys take actions. It is used only if
        # the environment's actions are selected by place.
        self.cursor: Place = (0, 0)
        # First of the two places (row, column) that an action needs; None until it is selected.
        self.taken: Place | None = None
        self.turned = 1.0  # progress of the latest action's animation, 0 to 1; see turning.py
        self.selected = 0  # index of the environment that takes the actions of pressed keys
        # True: only the selected environment is shown; False: all environments are shown.
        self.zoomed = session.boards == 1
        self.help_shown = False
        # Position of the mouse on the history bar, 0 to 1; None: the mouse is elsewhere.
        self.pointed: float | None = None
        self.notice = ""  # message shown until the next key is pressed
        self.open = True
        self.oracle: Oracle | None = None  # solver whose plan is shown; None: no plan is shown
        self.save: Callable[[], str] | None = None  # saves the session to a file; returns a message

    @property
    def is_wall(self) -> bool:
        """True if the window shows all environments side by side, not a single one."""
        return not self.zoomed

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Key bindings that are active now.

        A key that runs an action of the environment is removed from the viewer's other commands.
        """
        if self.is_wall:
            return WALL
        actions = (*self._action_bindings(), *self._cursor_bindings())
        taken = {key for binding in actions for key in binding.keys}
        rest = PLAY if self.mode == "play" else WATCH
        free = (b._replace(keys=tuple(k for k in b.keys if k not in taken)) for b in rest)
        return (*actions, *(binding for binding in free if binding.keys))

    @property
    def new_level_key(self) -> str:
        """Name of the key that starts a new level."""
        return next(b.keys[0] for b in self.bindings if b.run is Controller.new_level)

    def _action_bindings(self) -> Iterator[Binding]:
        for number, row in enumerate(self.actions):

            def run(controller: "Controller", action: int = number) -> None:
                controller.session.act(action, controller.selected)

            yield Binding(self._free(row.keys), row.does or row.name, run)

    def _free(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the keys of an action that run the action in the current mode.

        These are all `keys` in mode "play". In mode "watch", the keys in `TIME` are excluded,
        because they control the playback.
        """
        return keys if self.mode == "play" else tuple(key for key in keys if key not in TIME)

    def _cursor_bindings(self) -> Iterator[Binding]:
        """Yield the bindings of keys that move the cursor, or take an action at the cursor.

        The cursor is a place (row, column) of the picture. Yields nothing if the environment's
        actions are not selected by place.
        """
        pointing = self.pointing
        if pointing is None:
            return
        for name, (down, right) in STEPS.items():
            if (pointing.rows == 1 and down) or (pointing.columns == 1 and right):
                continue

            def move(controller: "Controller", down: int = down, right: int = right) -> None:
                controller.cursor = pointing.moved(controller.cursor, down, right)

            yield Binding(self._free(ARROWS[name]), f"cursor {name}", move)
        if pointing.writes:
            for digit in range(1, 10):
                yield Binding((str(digit),), pointing.does, lambda c, d=digit: c.write(d))
        else:
            yield Binding(self._free(("space", "e")), pointing.does, lambda c: c.point(c.cursor))

    def point(self, place: Place) -> None:
        """Take the action that belongs to a place (row, column), such as a clicked cell.

        Some actions need two places, such as a move from one cell to another. Then the first call
        only stores its place, and the second call takes the action, or cancels it if both places
        are equal.
        """
        self.cursor = place
        pointing = self.pointing
        if pointing is None or pointing.writes:
            return
        places: tuple[Place, ...] = (place,)
        if pointing.pair:
            first, self.taken = self.taken, place
            if first is None or first == place:
                self.taken = None if first == place else place
                return
            places = (first, place)
        self._act(pointing.action(self.session.state(self.selected), *places))

    def write(self, digit: int) -> None:
        """Take the action that writes `digit` into the cell of the cursor, as in Sudoku."""
        if self.pointing is not None:
            state = self.session.state(self.selected)
            self._act(self.pointing.action(state, self.cursor, digit))

    def _act(self, action: int | None) -> None:
        if action is None:
            self.notice = "no action there"
            return
        self.taken = None
        self.session.act(action, self.selected)

    def press(self, key: str) -> bool:
        """Run the command of a key; return whether the key has a command."""
        self.notice = ""
        bindings = self.bindings
        if not any(key in binding.keys for binding in bindings):
            key = key.lower()  # no binding has this key: try the lower-case letter
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
        """Show the time step at fraction `share` of the history: 0 is the oldest, 1 the newest."""
        self.session.seek(round(share * (len(self.session.history) - 1)))

    def zoom(self, board: int) -> None:
        """Select environment `board`, and show only this environment."""
        self.selected, self.zoomed = board, True

    def close(self) -> None:
        """Show all environments if one of several is shown alone; otherwise close the window."""
        if self.zoomed and self.session.boards > 1:
            self.zoomed = False
        else:
            self.open = False

    def select_next(self) -> None:
        """Select the next environment; after the last one, select the first one."""
        self.selected = (self.selected + 1) % self.session.boards

    def toggle_help(self) -> None:
        """Show or hide the list of keys."""
        self.help_shown = not self.help_shown

    def new_level(self) -> None:
        """Start the next episode in all environments, or in the one that is shown alone."""
        self.taken = None
        self.session.new_level(None if self.is_wall else self.selected)

    def save_file(self) -> None:
        """Call `save`, if set, to write the session to a file, and show the returned message."""
        if self.save is not None:
            self.notice = self.save()


def _step(by: int) -> Callable[[Controller], None]:
    """Return a command that shows the next time step (`by` 1) or the previous one (`by` -1).

    At the newest time step, the command for the next one lets the policy act, unless a person
    chooses the actions.
    """

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
    Binding(("space",), "pause, continue", lambda c: c.session.toggle_pause()),
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
