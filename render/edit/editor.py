"""State and commands of the level editor, such as painting, undo, saving and playing a level.

The editor needs no display. `EditView` draws it and passes mouse events to it.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from jaxenvs import levels
from jaxenvs.core.checks import counted
from jaxenvs.levels.palette import Tool

from ..controls import Controller
from ..pilots import RANDOM
from ..plans import Planner, no_solver
from ..session import Session
from ..solve import Plan
from . import prompts
from .files import File, drawn
from .levels import mutated, visited
from .model import (
    INSERT,
    OPENED,
    PAINT,
    PLACE,
    REMOVE,
    REPLACE,
    SHOW,
    TURN,
    Model,
    RefusedError,
    line_between,
)  # fmt: skip

AGENT = -1  # value of `Editor.tool` if the tool places the agent
COLOUR_KEYS = "123456"
ARROWS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
PLAN_SPEED = 4.0  # steps per second at which the plan is played


class Command(NamedTuple):
    """A command of the editor and the keys that run it."""

    keys: tuple[str, ...]
    does: str  # description for the help and for buttons
    run: Callable[["Editor"], object]


class Editor:
    """State of the editor of one file, such as the levels, the selected tool and the cursor."""

    def __init__(self, file: File, model: Model, planner: Planner | None = None) -> None:
        self.file, self.model = file, model
        self.planner = planner or Planner()
        self.tool, self.variant = 1, 0  # index of the selected tool, and of its variant
        self.cell = (1, 1)  # row and column of the cursor
        self.pointed: tuple[int, int] | None = None  # cell below the mouse
        self.notice = ""  # message that is shown until the next command
        self.help_shown = self.plan_shown = False
        self.open = True
        # Open question to the user, such as for the level's mission, which receives all keys;
        # None: no question is open.
        self.prompt: prompts.Prompt | None = None
        # Opens the viewer in which a person or a plan plays the level; set by `EditView`.
        self.play: Callable[[Controller], None] = lambda controller: None
        self._path: tuple[str, tuple[tuple[int, int], ...]] = (
            "",
            (),
        )  # cache of `path`: hash of the level of the last update, and the cells of its plan
        self._seed = 1  # seed of the next random level or edit
        # Hash of the file's content when a save was refused because another program had changed
        # the file. A second save overwrites the file if its content still has this hash.
        self._warned: str | None = None
        self.ask()

    # Properties.

    @property
    def title(self) -> str:
        """Name of the file, with a star if it has unsaved changes."""
        return f"{self.file.path.name}{' *' if self.model.is_changed else ''}"

    @property
    def id(self) -> str:
        """Id of the displayed level's environment; without an id, the environment's name."""
        return dict(self.model.picture.headers).get("id") or self.model.env.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Painting tools for the displayed level, such as one for walls and one for doors."""
        return self.model.palette.tools

    @property
    def sign(self) -> str:
        """Sign (text of one cell) that the selected tool writes into a cell of the level."""
        tool = self.tools[min(max(self.tool, 0), len(self.tools) - 1)]
        return tool.signs[min(self.variant, len(tool.signs) - 1)]

    @property
    def question(self) -> str:
        """SHA-256 hash of the displayed level, under which the planner stores its answer."""
        page = self.model.page
        text = f"{page.id}\n{self.model.text_of(page)}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def verdict(self) -> str:
        """The solver's answer about the displayed level, in words; "" if there is no answer."""
        if self.model.checked().fault:
            return ""
        return "no solver" if no_solver(self.model.env) else self.planner.status(self.question)

    @property
    def plan(self) -> tuple[int, ...]:
        """Actions of the known plan that solves the displayed level; () if no plan is known."""
        found = self.planner.answer(self.question)
        return found.plan if found else ()

    @property
    def path(self) -> tuple[tuple[int, int], ...]:
        """Cells that the agent visits in the displayed plan, in order; () if none is displayed."""
        entry = self.model.checked().entry
        if not self.plan_shown or not self.plan or entry is None:
            return ()
        if self._path[0] != self.question:
            self._path = (self.question, tuple(visited(self.model.env, entry, self.plan)))
        return self._path[1]

    @property
    def commands(self) -> tuple[Command, ...]:
        """All commands that are available now; () while a question is open."""
        if self.prompt is not None:
            return ()
        return (*self._tool_commands(), *(c for c in COMMANDS if self._has(c)))

    def _has(self, command: Command) -> bool:
        if command.run in (Editor.select_agent, _turn(1), _turn(3)):
            return self.model.palette.directions > (0 if command.run is Editor.select_agent else 1)
        if command.run is Editor.ask_mission:
            return prompts.has_mission(self.model)
        return True

    def _tool_commands(self) -> Iterator[Command]:
        for number, tool in enumerate(self.tools):
            if tool.key:
                select = functools.partial(Editor.select, tool=number)
                yield Command((tool.key,), tool.name, select)
        most = max(len(tool.signs) for tool in self.tools)
        if most > 1:
            for number, key in enumerate(COLOUR_KEYS[:most]):
                name = next(t.variants[number] for t in self.tools if len(t.signs) == most)
                paint = functools.partial(Editor.select_variant, variant=number)
                yield Command((key,), name, paint)

    # Methods that carry out commands.

    def press(self, key: str) -> bool:
        """Run the command of a key; return whether the key has a command."""
        self.notice = ""
        if self.prompt is not None:
            return self.prompt.press(self, key)
        if key == prompts.QUIT:
            self.leave()
            return True
        if self.help_shown and key != "h":
            self.help_shown = False
            return True
        commands = self.commands
        known = any(key in command.keys for command in commands)
        name = key if known else key.lower()
        for command in commands:
            if name in command.keys:
                self.attempt(functools.partial(command.run, self))
                return True
        return False

    def attempt(self, run: Callable[[], Any]) -> None:
        """Run a command; if the level does not allow the change, show the reason as the notice."""
        try:
            run()
        except (RefusedError, levels.LevelError) as error:
            self.notice = str(error)
        self.cell = self._nearest(self.cell)
        self.ask()

    def _nearest(self, cell: tuple[int, int]) -> tuple[int, int]:
        """Return the cell (row, column) of the level that is nearest to the position `cell`."""
        cells = self.model.picture.cells
        row = max(0, min(cell[0], len(cells) - 1))
        return row, max(0, min(cell[1], len(cells[0]) - 1))

    def ask(self) -> None:
        """Ask the solver about the displayed level, unless the level's text has an error."""
        entry = self.model.checked().entry
        if entry is not None and not no_solver(self.model.env):
            self.planner.ask(self.question, levels.env_of(self.model.env, entry), entry.level)

    def tick(self) -> bool:
        """Fetch the solver's answer if it is ready; return whether it was ready."""
        return self.planner.tick()

    def select(self, tool: int) -> None:
        """Select the tool with index `tool`."""
        self.tool = tool

    def select_variant(self, variant: int) -> None:
        """Select the variant with index `variant`, such as a colour."""
        self.variant = variant

    def select_agent(self) -> None:
        """Select the tool that places the agent."""
        self.tool = AGENT

    def paint(self, cell: tuple[int, int], joined: bool = False) -> None:
        """Apply the selected tool to a cell.

        joined: True if this change is undone together with the previous one, as part of the same
            stroke.
        """
        self.cell = self._nearest(cell)
        if self.tool == AGENT:
            if not joined:
                self.model.change(PLACE, *cell)
            return
        self.model.change(PAINT, *cell, self.sign, joined)

    def erase(self, cell: tuple[int, int], joined: bool = False) -> None:
        """Make a cell empty.

        joined: True if this change is undone together with the previous one, as part of the same
            stroke.
        """
        self.cell = self._nearest(cell)
        self.model.change(PAINT, *cell, self.model.palette.empty, joined)

    def pick(self, cell: tuple[int, int]) -> None:
        """Select the tool for the content of `cell`: the agent, or else the cell's sign."""
        picture = self.model.picture
        if picture.agent is not None and picture.agent[:2] == cell:
            self.tool = AGENT
            return
        sign = picture.cells[cell[0]][cell[1]]
        for number, tool in enumerate(self.tools):
            if sign in tool.signs:
                self.tool = number
                if len(tool.signs) > 1:
                    self.variant = tool.signs.index(sign)

    def stroke(self, start: tuple[int, int], end: tuple[int, int], erases: bool) -> None:
        """Paint or erase the cells on the mouse's path from `start` (excluded) to `end`."""
        act = self.erase if erases else self.paint
        for cell in line_between(start, end):
            self.attempt(functools.partial(act, cell, self.model.joins))

    def ask_mission(self) -> None:
        """Open the question that asks for the mission of the displayed level."""
        self.prompt = prompts.MissionPrompt(self.model)

    def save(self) -> bool:
        """Save the file; return whether it was saved."""
        if self.file.has_changed and self.file.found() != self._warned:
            self._warned = self.file.found()
            self.notice = f"{self.file.path.name} has changed on disk: Ctrl+S again overwrites it"
            return False
        document = self.model.document
        try:
            self.file.write([self.model.text_of(page) for page in document.pages])
        except OSError as error:
            self.notice = f"not saved: {error}"
            return False
        self._warned = None
        self.model.mark_saved()
        self.note_file()
        changed = [(n, p) for n, p in enumerate(document.pages, 1) if p.text is None]
        faults = [n for n, page in changed if self.model.checked(page).fault]
        fault = f"; level {faults[0]} has a fault" if faults else ""
        self.notice = f"saved {counted(len(document.pages), 'level')}{fault}"
        return True

    def note_file(self) -> None:
        """Restart the journal, which logs the changes to the file since it was read or saved.

        The first entries are the hash of the file's content and the index of the displayed level.
        """
        self.model.note(OPENED, self.file.digest)
        self.model.note(SHOW, self.model.document.at)

    def leave(self) -> None:
        """Close the editor; ask first if there are unsaved changes."""
        if self.model.is_changed:
            self.prompt = prompts.LeavePrompt()
        else:
            self.open = False

    def add(self) -> None:
        """Insert a random level after the displayed one."""
        self.model.change(INSERT, self._drawn())

    def redraw(self) -> None:
        """Replace the displayed level by a random one."""
        self.model.change(REPLACE, self._drawn())

    def duplicate(self) -> None:
        """Insert a copy of the displayed level after it."""
        self.model.change(INSERT, self.model.text_of(self.model.page))

    def mutate(self) -> None:
        """Apply a random edit of `levels.mutate` to the displayed level."""
        entry = self._entry()
        key = jax.random.key(self._next_seed())
        try:
            changed = jax.device_get(mutated(self.model.env)(key, entry.level))
        except NotImplementedError as error:
            raise RefusedError(str(error).partition(": ")[2]) from error
        notes = {name: note for name, note in entry.notes.items() if name != "optimal"}
        made = levels.Entry(changed, entry.params, notes, entry.fields)
        self.model.change(REPLACE, levels.write(self.model.env, made))

    def test(self) -> None:
        """Let a person play the displayed level."""
        self.play(Controller(self._session(None), f"play {self.id}", "play"))

    def watch(self) -> None:
        """Play the solver's plan for the displayed level."""
        if not self.plan:
            raise RefusedError("no plan is known yet")
        name = "shortest plan" if self._is_proven() else "plan"
        plan = Plan(name, RANDOM.think, actions=self.plan)
        self.play(Controller(self._session(plan), f"plan of {self.id}", "watch"))

    def _is_proven(self) -> bool:
        found = self.planner.answer(self.question)
        return found is not None and found.proven

    def _session(self, pilot: Any) -> Session:
        entry = self._entry()
        made = levels.env_of(self.model.env, entry)
        if type(entry.level) is not type(made.level_shape):
            raise RefusedError("a text with a line `time:` is a state; play begins in levels")
        return Session(made, pilot, speed=PLAN_SPEED, level=entry.level)

    def _entry(self) -> levels.Entry:
        found = self.model.checked()
        if found.entry is None:
            raise RefusedError("the level has a fault; remove it first")
        return found.entry

    def _drawn(self) -> str:
        id = dict(self.model.picture.headers).get("id", "")
        return drawn(self.model.env, self._next_seed(), id)

    def _next_seed(self) -> int:
        self._seed += 1
        return self._seed

    def move(self, down: int, right: int) -> None:
        """Move the cursor by `down` rows and `right` columns, wrapping around at the edges."""
        rows = len(self.model.picture.cells)
        columns = len(self.model.picture.cells[0])
        self.cell = ((self.cell[0] + down) % rows, (self.cell[1] + right) % columns)

    def go(self, by: int) -> None:
        """Show the level that is `by` levels after the displayed one in the file."""
        self.model.show(self.model.document.at + by)


@functools.cache
def _turn(by: int) -> Callable[[Editor], object]:
    return lambda editor: editor.model.change(TURN, by)


def _toggle(name: str) -> Callable[[Editor], object]:
    return lambda editor: setattr(editor, name, not getattr(editor, name))


COMMANDS = (
    Command(("x",), "agent", Editor.select_agent),
    Command(("t",), "turn right", _turn(1)),
    Command(("T",), "turn left", _turn(3)),
    *(
        Command((name,), f"cursor {name}", functools.partial(Editor.move, down=d, right=r))
        for name, (d, r) in ARROWS.items()
    ),
    Command(("space", "return"), "paint", lambda e: e.paint(e.cell)),
    Command(("backspace", "delete"), "erase", lambda e: e.erase(e.cell)),
    Command(("c",), "pick the tool of the cell", lambda e: e.pick(e.cell)),
    Command(("u", "ctrl z"), "undo", lambda e: e.model.travel(-1)),
    Command(("y", "ctrl y", "ctrl Z"), "redo", lambda e: e.model.travel(1)),
    Command(("m",), "mission", Editor.ask_mission),
    Command(("p",), "play", Editor.test),
    Command(("v",), "draw the plan", _toggle("plan_shown")),
    Command(("V",), "watch the plan", Editor.watch),
    Command(("r",), "random edit", Editor.mutate),
    Command(("R",), "random level", Editor.redraw),
    Command(("page down", "."), "next level", lambda e: e.go(1)),
    Command(("page up", ","), "previous level", lambda e: e.go(-1)),
    Command(("n", "insert"), "add a level", Editor.add),
    Command(("D",), "duplicate the level", Editor.duplicate),
    Command(("X",), "delete the level", lambda e: e.model.change(REMOVE)),
    Command(("ctrl s", "S"), "save", lambda e: e.save()),
    Command(("h",), "these keys", _toggle("help_shown")),
    Command(("escape",), "close", Editor.leave),
)
