"""Redraw the pictures in the folder `docs`.

RUN is the directory of a training run in Grid-DoorKey-8x8-v0. If it is given, the pictures of
`jaxenvs watch` are drawn too: they show the policy of this run. `--browser` draws only the pictures
of the web page of `jaxenvs play --web`; it needs Chromium and the extra `web`. Learning curves have
a separate command,
`python -m jaxenvs.baselines.evaluation.record TABLE --picture PNG`.
"""

import asyncio
import itertools
import os
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import jax
import numpy as np
import pygame

import jaxenvs
from jaxenvs import registry, xland
from jaxenvs.baselines.storage.runs import Run
from jaxenvs.commands.parser import Parser
from jaxenvs.core import drawing
from jaxenvs.core.env import Env
from jaxenvs.core.pixels import compose
from jaxenvs.craft import CLASSIC, Block, floors
from jaxenvs.craft.full_rows import FULL
from jaxenvs.craft.look import layers, sprites
from jaxenvs.craft.tables import Item
from jaxenvs.puzzlescript import collection
from jaxenvs.render import frames, gif, play, screen, watch
from jaxenvs.render.controls import Controller
from jaxenvs.render.edit.editor import Editor
from jaxenvs.render.edit.files import File
from jaxenvs.render.edit.model import Model
from jaxenvs.render.edit.viewer import EditView
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.plans import Planner
from jaxenvs.render.session import Session
from jaxenvs.render.shown import PRESS
from jaxenvs.render.viewer import Viewer

HERE = Path(__file__).parent
PLAYED = {  # puzzle whose first board shows little -> seed, random actions before its picture
    "Puzzle-2048-v0": (3, 400),
    "Puzzle-Minesweeper-10x10-v0": (23, 27),
    "Puzzle-PegSolitaire-v0": (3, 9),
    "Puzzle-TSP-20-v0": (3, 6),
}
# Sheet (a picture with rows of boards): side of a board, gap between boards and height of the text
# below a board, all in pixels; boards per row.
CELL, GAP, LABEL, COLUMNS = 256, 18, 62, 7
MISSION_WIDTH, MISSION_LINES = 42, 3  # limits of a mission: characters per line, lines
LINE = 14  # height of a line of text in pixels
# Sheet of XLand tasks: side of a board in pixels, boards per row; limits of a task's text:
# characters per line, lines.
TASK_CELL, TASK_COLUMNS, TASK_WIDTH, TASK_LINES = 330, 4, 50, 15
TASK_WORLDS = ("R1-9x9", "R2-11x11", "R4-13x13", "R6-13x13", "R9-16x16")
TASK_SETS = ("trivial-21k", "small-1m", "medium-1m", "high-1m")
RUN_ID = "Grid-DoorKey-8x8-v0"  # environment of RUN, and of the web page that --browser draws
BRIGHT, MUTED = (236, 234, 226), (150, 152, 160)
WALK = "tab left up up left up space"  # keys that open the door in the level of seed 1
EDITED = "Grid-ObstructedMaze-1Dlhb-v0"  # environment of the picture of the level editor
EDITS = "down down down right right right right a 4 space v"  # keys pressed in the level editor
# Sheet of Craft worlds: number of worlds, worlds per row, pixels per cell.
WORLDS, WORLD_COLUMNS, WORLD_CELL = 64, 8, 3
# Sheet of the nine floors of Craft's full game: floors per row, pixels per cell, brightness of
# cells without light.
FLOOR_COLUMNS, FLOOR_CELL, DIM = 3, 7, 0.4
SPRITE, SPRITE_COLUMNS = 48, 16  # sheet of Craft's sprites: side of one in pixels, sprites per row
# Pictures of the web page: file name, size of the window, whether the browser imitates a phone.
PAGES = (("browser", (1280, 800), False), ("browser-phone", (390, 844), True))
# File with a seed and the keys that a player presses in the game of Craft with this seed.
CRAFT_KEYS = HERE.parent / "tests" / "render" / "craft_keys.txt"
CRAFT_STEPS = 609  # number of steps of this game that are played before its picture is drawn


def craft_sheet() -> np.ndarray:
    """Return a picture of `WORLDS` worlds of Craft-Classic, each 64 x 64 cells."""
    env = jaxenvs.make("Craft-Classic-Ids-v0")
    levels = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(0), WORLDS))
    draw = jax.jit(jax.vmap(compose, (0, None)))
    pictures = draw(levels.map.astype(np.int32), sprites.atlas(CLASSIC, WORLD_CELL))
    return frames.mosaic(np.asarray(pictures), WORLD_COLUMNS)


def floors_sheet() -> np.ndarray:
    """Return a picture of the nine floors of one world of the full game of Craft.

    Cells without light are drawn dim.
    """
    size, draws = FLOOR_CELL, floors.draw(jax.random.key(0))
    level = jax.device_get(jax.jit(floors.build)(draws, np.bool_(False)))
    cells = layers.grounds(FULL, size)[level.map.astype(np.int32) * len(Item) + level.items]
    count, rows, columns = level.map.shape
    light = DIM + (1 - DIM) * level.light[..., None, None, None]
    pictures = (cells * light).astype(np.uint8).swapaxes(2, 3)
    return frames.mosaic(pictures.reshape(count, rows * size, columns * size, 3), FLOOR_COLUMNS)


def craft_sprites() -> np.ndarray:
    """Return a picture of every block, item, mob, missile and icon of the full game of Craft."""
    size = SPRITE
    ground, over = layers.grounds(FULL, size), layers.overlays(FULL, size)
    numbers, path = layers.numbers(FULL), int(Block.PATH) * len(Item)
    standing = over[numbers.flights : numbers.digits : numbers.flights]
    laid = np.concatenate([standing, over[1 : numbers.flights]])
    shown = [ground[: numbers.blank : len(Item)], ground[path + 1 : path + len(Item)]]
    shown.append(np.where(laid == layers.KEY, ground[path], laid))
    icons = ground[numbers.blank + 1 :]
    shown.append(icons[icons.reshape(len(icons), -1).any(axis=1)])
    return frames.mosaic(np.concatenate(shown), SPRITE_COLUMNS)


def puzzle_sheet() -> np.ndarray:
    """Return a picture with a board of each class of puzzles, and its id below the board."""
    boards = []
    for id in registry.representatives("Puzzle"):
        seed, actions = PLAYED.get(id, (3, 0))
        session = Session(jaxenvs.make(id), RANDOM, seed=seed)
        for _ in range(actions):
            session.forward()
            if session.is_over():
                session.seek(session.cursor - 1)
                break
        boards.append((id, session.env, session.state(), ""))
    return sheet(boards, 5, 28)


def puzzlescript_sheet() -> np.ndarray:
    """Return a picture of the first level of each shipped PuzzleScript game.

    The name of the game is below its level.
    """
    boards = []
    for path in sorted(collection.SHIPPED.glob("*.txt")):
        env = jaxenvs.make("PuzzleScript-v0", game=path.stem, level=0)
        state = jax.jit(env.reset)(jax.random.key(0)).state
        boards.append((path.stem, env, state, ""))
    return sheet(boards, COLUMNS, 28)


def contact_sheet() -> np.ndarray:
    """Return a picture with a level of each class of Grid and of each module of BabyAI.

    The id and the mission are below each level.
    """
    babyai = reversed(registry.representatives("BabyAI"))
    of_modules = {registry.spec(id).env_class.__module__: id for id in babyai}
    boards = []
    for id in (*registry.representatives("Grid"), *of_modules.values()):
        env = jaxenvs.make(id)
        state = jax.jit(env.reset)(jax.random.key(3)).state
        boards.append((id, env, state, env.mission_text(state)))
    return sheet(boards, COLUMNS, LABEL)


def task_sheet() -> np.ndarray:
    """Return a picture with tasks of each XLand task set, one row for each set.

    Each task is shown in a level, and described in words below the level. The layouts of the levels
    are the ones in `TASK_WORLDS`, in turn.
    """
    rows, worlds = [], itertools.cycle(TASK_WORLDS)
    for number, name in enumerate(TASK_SETS):
        boards, most = [], 0
        for key in jax.random.split(jax.random.key(number), 100):
            task = xland.sample_ruleset(key, **xland.SETS[name].recipe._asdict())
            said = xland.describe(task).replace(". ", ".\n")
            count = len(lines(said))
            if count > TASK_LINES:
                continue  # leave out tasks with a long description: some have twenty rules
            id, most = f"XLand-{next(worlds)}-v0", max(most, count)
            env = jaxenvs.make(id)
            state = env.reset(key, env.params_for(task)).state
            boards.append((f"{id}, {name}", env, state, said))
            if len(boards) == TASK_COLUMNS:
                break
        rows.append(sheet(boards, TASK_COLUMNS, LINE * (most + 1), TASK_CELL))
    return np.concatenate(rows)


def lines(said: str) -> list[str]:
    """Break a text into lines: a mission, or the description of a task with a sentence per line.

    A mission is cut after `MISSION_LINES` lines.
    """
    sentences = said.splitlines()
    if len(sentences) < 2:
        return textwrap.wrap(said, MISSION_WIDTH)[:MISSION_LINES]
    wrapped = (textwrap.wrap(line, TASK_WIDTH, subsequent_indent="   ") for line in sentences)
    return list(itertools.chain.from_iterable(wrapped))


def sheet(
    boards: list[tuple[str, Env, Any, str]], columns: int, label: int, cell: int = CELL
) -> np.ndarray:
    """Return a picture of boards in rows of `columns`, each with its id and a text below it.

    `boards` has the id (or title), environment, state and text of each board. `cell` is the side of
    the square for a board, and `label` the height of the space below it, in pixels.
    """
    pygame.font.init()
    font = pygame.font.Font(None, 18)
    rows = -(-len(boards) // columns)
    surface = pygame.Surface(
        (columns * (cell + GAP) + GAP, rows * (cell + label + GAP) + GAP),
    )
    surface.fill(frames.BACKGROUND)
    for i, (id, env, state, said) in enumerate(boards):
        tile_size = min(cell // side for side in drawing.board_shape(env))
        batch = jax.tree.map(lambda leaf: leaf[None], state)
        picture = frames.board_painter(env, tile_size)(batch)[0]
        left, top = i % columns * (cell + GAP) + GAP, i // columns * (cell + label + GAP) + GAP
        height, width, _ = picture.shape
        board = pygame.image.frombuffer(picture.tobytes(), (width, height), "RGB")
        surface.blit(board, (left + (cell - width) // 2, top + (cell - height) // 2))
        for number, (line, colour) in enumerate([(id, BRIGHT), *((x, MUTED) for x in lines(said))]):
            text = font.render(line, True, colour)
            aside = 0 if "\n" in said else (cell - text.get_width()) // 2
            surface.blit(text, (left + aside, top + cell + 6 + LINE * number))
    return screen.pixels(surface)


SHEETS = {
    "grid": contact_sheet,
    "craft": craft_sheet,
    "craft-sprites": craft_sprites,
    "craft-floors": floors_sheet,
    "puzzles": puzzle_sheet,
    "puzzlescript": puzzlescript_sheet,
    "xland": task_sheet,
}


def editor_window() -> np.ndarray:
    """Return a picture of the level editor's window, with a level and its shortest plan."""
    env = jaxenvs.make(EDITED)
    file = File(Path("mylevels.txt"), env)
    model = Model(file.first(), file.env_of)
    view = EditView(Editor(file, model, Planner(waits=True)))
    for key in EDITS.split():
        view.run(PRESS, key)
    return screen.pixels(view.draw((940, 640)))


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the pictures; return the exit code, 2 if RUN is not a training run in `RUN_ID`."""
    parser = Parser("python docs/draw.py", __doc__)
    parser.add_argument("run", type=Path, nargs="?", metavar="RUN", help="directory of a run")
    parser.add_argument("--browser", action="store_true", help="draw the pages of --web")
    options = parser.parse_args(argv)
    run = options.run
    if options.browser:
        asyncio.run(draw_pages())
        return 0
    if run is not None:
        try:
            id = Run.open(run).config.id
        except ValueError as error:
            print(f"draw.py: {error}", file=sys.stderr)
            return 2
        if id != RUN_ID:
            print(f"draw.py: {run} is a run in {id}; give a run in {RUN_ID}", file=sys.stderr)
            return 2
        if code := draw_policy(run):
            return code
    draw_sheets()
    return 0


def draw_sheets() -> None:
    """Draw the pictures that need no training run: sheets, level editor and `jaxenvs play`."""
    for name, picture in SHEETS.items():
        gif.write_png(HERE / f"{name}.png", picture())
    gif.write_png(HERE / "editor.png", editor_window())
    seed, *keys = CRAFT_KEYS.read_text().split()
    shot = f"Craft-Classic-Pixels-v0 --seed {seed} --frames {CRAFT_STEPS} --screenshot".split()
    play.main([*shot, f"{HERE}/play-craft.png", "--keys", " ".join(keys)])
    shot = f"{RUN_ID} --seed 1 --frames 99 --screenshot".split()
    play.main([*shot, f"{HERE}/play.png", "--keys", WALK])


def draw_policy(run: Path) -> int:
    """Draw the pictures of `jaxenvs watch`, which show the policy of a training run.

    Return the exit code of `jaxenvs watch`.
    """
    for options, name in (
        ("--seed 2 --frames 12 --screenshot", "watch.png"),
        ("--envs 16 --frames 44 --screenshot", "wall.png"),
        ("--seed 2 --frames 90 --gif", "watch.gif"),
    ):
        if code := watch.main([str(run), *options.split(), str(HERE / name)]):
            return code
    return 0


async def draw_pages() -> None:
    """Draw the web page of `jaxenvs play --web` during a game, on a desktop and on a phone."""
    sys.path.insert(0, str(HERE.parent / "tests" / "render"))
    from browsing import browser
    from paging import serving

    def prepare() -> Viewer:
        viewer = Viewer(Controller(Session(jaxenvs.make(RUN_ID), seed=1), RUN_ID))
        viewer.replay((PRESS, key) for key in WALK.split())
        return viewer

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        async with browser(Path(profile)) as started, serving(prepare) as there:
            for name, size, is_phone in PAGES:
                page = await started.open(there.door.address, *size, 1 + is_phone, is_phone)
                await page.until("document.body.dataset.moment")
                if not is_phone:
                    await page.value("document.getElementById('wording').click()")
                    await page.until("document.getElementById('words').textContent")
                await asyncio.sleep(1)  # until the page has its final size
                await page.until("document.getElementById('busy').hidden")
                await page.screenshot(HERE / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main())
