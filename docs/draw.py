"""Draw the pictures of this folder again: `python docs/draw.py RUN`, RUN a trained run.

The pictures of `watch` show that run's policy, so RUN should be of Grid-DoorKey-8x8-v0; without a
RUN all the others are drawn.
"""

import os
import sys
import textwrap
from pathlib import Path

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import jax
import numpy as np
import pygame

import jaxenvs
from jaxenvs.core.pixels import compose
from jaxenvs.craft import sprites
from jaxenvs.render import frames, gif, play, screen, watch

HERE = Path(__file__).parent
FAMILIES = (  # one level of each
    "Grid-Empty-8x8-v0",
    "Grid-DoorKey-8x8-v0",
    "Grid-FourRooms-v0",
    "Grid-LavaCrossingS9N2-v0",
    "Grid-SimpleCrossingS11N5-v0",
    "Grid-LavaGapS7-v0",
    "Grid-DistShift1-v0",
    "Grid-MultiRoom-N6-v0",
    "Grid-LockedRoom-v0",
    "Grid-MemoryS13-v0",
    "Grid-Unlock-v0",
    "Grid-UnlockPickup-v0",
    "Grid-BlockedUnlockPickup-v0",
    "Grid-KeyCorridorS6R3-v0",
    "Grid-ObstructedMaze-Full-v1",
    "Grid-Fetch-8x8-N3-v0",
    "Grid-GoToDoor-8x8-v0",
    "Grid-GoToObject-8x8-N2-v0",
    "Grid-PutNear-8x8-N3-v0",
    "Grid-RedBlueDoors-8x8-v0",
    "Grid-Dynamic-Obstacles-8x8-v0",
    "Grid-Playground-v0",
    "BabyAI-GoToLocal-v0",
    "BabyAI-GoToObjDoor-v0",
    "BabyAI-PickupLoc-v0",
    "BabyAI-OpenDoorsOrderN4-v0",
    "BabyAI-PutNextS6N3-v0",
    "BabyAI-UnlockToUnlock-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-BossLevel-v0",
)
CELL, GAP, LABEL, COLUMNS = 256, 18, 62, 6
MISSION_WIDTH = 42  # characters of a line
BRIGHT, MUTED = (236, 234, 226), (150, 152, 160)
WALK = "tab left up up left up space"  # in the level of seed 1: to the door
WORLDS, WORLD_COLUMNS, WORLD_CELL = 64, 8, 3  # of the sheet of Craft worlds; pixels of a cell
CRAFT_KEYS = HERE.parent / "tests" / "render" / "craft_keys.txt"  # of a game, after its seed
CRAFT_STEPS = 609  # of it


def craft_sheet() -> np.ndarray:
    """Return 64 worlds of Craft, each 64 x 64 cells."""
    env = jaxenvs.make("Craft-Classic-Ids-v0")
    levels = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(0), WORLDS))
    draw = jax.jit(jax.vmap(compose, (0, None)))
    pictures = draw(levels.map.astype(np.int32), sprites.atlas(WORLD_CELL))
    return frames.mosaic(np.asarray(pictures), WORLD_COLUMNS)


def contact_sheet() -> np.ndarray:
    """Return one board of each family, with its id and mission below."""
    pygame.font.init()
    font = pygame.font.Font(None, 18)
    rows = -(-len(FAMILIES) // COLUMNS)
    sheet = pygame.Surface(
        (COLUMNS * (CELL + GAP) + GAP, rows * (CELL + LABEL + GAP) + GAP),
    )
    sheet.fill(frames.BACKGROUND)
    for i, id in enumerate(FAMILIES):
        env = jaxenvs.make(id)
        state = jax.jit(env.reset)(jax.random.key(3)).state
        tile_size = min(CELL // side for side in frames.board_shape(env))
        batch = jax.tree.map(lambda leaf: leaf[None], state)
        picture = frames.board_painter(env, tile_size)(batch)[0]
        left, top = i % COLUMNS * (CELL + GAP) + GAP, i // COLUMNS * (CELL + LABEL + GAP) + GAP
        height, width, _ = picture.shape
        board = pygame.image.frombuffer(picture.tobytes(), (width, height), "RGB")
        sheet.blit(board, (left + (CELL - width) // 2, top + (CELL - height) // 2))
        mission = textwrap.wrap(env.mission_text(state), MISSION_WIDTH)
        lines = [(id, BRIGHT), *((line, MUTED) for line in mission[:3])]
        for number, (line, colour) in enumerate(lines):
            label = font.render(line, True, colour)
            at = (left + (CELL - label.get_width()) // 2, top + CELL + 6 + 14 * number)
            sheet.blit(label, at)
    return screen.pixels(sheet)


def main(run: str | None = None) -> None:
    """Draw all of them, or all that need no run."""
    gif.write_png(HERE / "grid.png", contact_sheet())
    gif.write_png(HERE / "craft.png", craft_sheet())
    seed, *keys = CRAFT_KEYS.read_text().split()
    shot = f"Craft-Classic-Pixels-v0 --seed {seed} --frames {CRAFT_STEPS}"
    play.main([*shot.split(), "--keys", " ".join(keys), "--screenshot", f"{HERE}/play-craft.png"])
    shot = f"Grid-DoorKey-8x8-v0 --seed 1 --frames 99 --screenshot {HERE}/play.png"
    play.main([*shot.split(), "--keys", WALK])
    if run is None:
        return
    watch.main(f"{run} --seed 2 --frames 12 --screenshot {HERE}/watch.png".split())
    watch.main(f"{run} --envs 16 --frames 44 --screenshot {HERE}/wall.png".split())
    watch.main(f"{run} --seed 2 --frames 90 --gif {HERE}/watch.gif".split())


if __name__ == "__main__":
    main(*sys.argv[1:])
