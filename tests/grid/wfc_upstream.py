"""Run MiniGrid's wave function collapse for comparison; record levels in `wfc_levels.npz`.

    python tests/grid/wfc_upstream.py 100    # needs `pip install networkx`; takes 5 minutes

The wheel of MiniGrid lacks the images with the patterns, so MiniGrid gets the drawings of
`jaxenvs.grid.wfc.PRESETS` instead. `BitMatrix` replaces MiniGrid's products of Boolean matrices:
the results are the same and take a tenth of the time.

Arrays of MiniGrid are indexed by [x, y], arrays of this library by (row, column).
"""

import argparse
import contextlib
import datetime
import functools
import importlib.metadata
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Goal, Wall
from minigrid.envs.wfc import WFCEnv
from minigrid.envs.wfc.config import WFCConfig
from minigrid.envs.wfc.wfclogic import control
from minigrid.minigrid_env import MiniGridEnv

from jaxenvs.grid import Kind
from jaxenvs.grid.wfc import PRESETS

FILE = Path(__file__).with_name("wfc_levels.npz")
SIDE = 23  # number of cells per side of a level, without the outer wall
MISSION = "traverse the maze to get to the goal"
COLOURS = np.array([0, 255, 254], np.uint8)  # grey values of the pixels `#`, `.` and `,`


class DrawnConfig(WFCConfig):
    """MiniGrid's configuration of a preset, with the image of this library."""

    @property
    def wfc_kwargs(self):
        return arguments(self.pattern_path)


def arguments(preset):
    """Return the arguments of MiniGrid's solver for a preset, without size and random numbers."""
    width, wraps, image = PRESETS[preset]
    pixels = COLOURS[[["#.,".index(pixel) for pixel in row] for row in image.split()]]
    return {
        "image": np.repeat(pixels[..., None], 3, axis=2),
        "pattern_width": width,
        "output_periodic": wraps,
        "input_periodic": wraps,
    }


class Watched(NamedTuple):
    """Record of MiniGrid's solver making one level; patterns are in MiniGrid's order."""

    patterns: np.ndarray  # (patterns, width, width): index of each pixel in `COLOURS`
    weights: list  # weight of each pattern
    # (step along x, along y) -> bool (patterns, patterns): which patterns fit at this offset.
    adjacency: dict
    order: np.ndarray  # random numbers by which cells are ordered, [x, y]
    choices: list  # (pattern, x, y) of each choice of a pattern for a cell
    waves: list  # bool (patterns, x, y): possible patterns before and after each choice


@contextlib.contextmanager
def patched(**changes):
    """Context in which functions of MiniGrid's module `control` are replaced.

    changes: name of a function -> function that maps the original to its replacement.
    """
    with contextlib.ExitStack() as stack:
        for name, change in changes.items():
            new = change(getattr(control, name))
            stack.enter_context(mock.patch.object(control, name, new))
        yield


class BitMatrix:
    """Boolean matrix with up to 64 columns and a fast matrix product."""

    def __init__(self, matrix):
        self.matrix, self.rows = matrix, self.words(matrix.T)

    @staticmethod
    def words(columns):
        """Return each column of a Boolean matrix as a uint64 with one bit per row."""
        padded = np.zeros((columns.shape[1], 64), bool)
        padded[:, : len(columns)] = columns.T
        return np.packbits(padded, bitorder="little").view(np.uint64)

    def __matmul__(self, other):
        return (self.rows[:, None] & self.words(other)) != 0


def in_bits(make):
    return lambda lists: {side: BitMatrix(matrix) for side, matrix in make(lists).items()}


def watched(preset, seed):
    """Let MiniGrid's solver make a level of a preset; return the steps as a `Watched`."""
    seen, choices, waves = {}, [], []

    def kept(name):
        def change(original):
            def call(*args, **named):
                seen[name] = original(*args, **named)
                return seen[name]

            return call

        return change

    hooks = {
        "onChoice": lambda *choice: choices.append(choice),
        "onPropagate": lambda wave: waves.append(wave.copy()),
    }
    with patched(
        make_tile_catalog=kept("pixels"),
        make_pattern_catalog_with_rotations=kept("patterns"),
        makeAdj=lambda make: kept("adjacency")(in_bits(make)),
        run=lambda run: functools.partial(run, **hooks),
    ):
        rng = np.random.default_rng(seed)
        control.execute_wfc(**arguments(preset), output_size=(SIDE, SIDE), np_random=rng)
    colours = {
        code: COLOURS.tolist().index(pixel[0, 0, 0]) for code, pixel in seen["pixels"][0].items()
    }
    contents, weights, hashes, _ = seen["patterns"]
    return Watched(
        np.array([np.vectorize(colours.get)(contents[code]) for code in hashes]),
        [weights[code] for code in hashes],
        {side: bits.matrix for side, bits in seen["adjacency"].items()},
        np.random.default_rng(seed).random((SIDE, SIDE)),
        choices,
        waves,
    )


def levels(preset, seeds):
    """Return MiniGrid's levels for the seeds, as arrays for `wfc_levels.npz`.

    free: free cells of each mosaic (the solver's result), with one bit per cell, row by row.
    cut: free cells outside the largest connected area, in the same format; MiniGrid makes them
      walls.
    places: the agent's row, column and direction, and the goal's row and column.
    """
    mosaics, cuts, places = [], [], []

    def kept(execute):
        def call(**named):
            pattern, stats = execute(**named)
            mosaics.append(pattern[..., 0].T != 0)
            return pattern, stats

        return call

    env = WFCEnv(DrawnConfig(preset))
    relations = functools.cache(lambda: extract(*given[0]))
    given, extract = [], control.adjacency_extraction

    def once(*args):
        given.append(args)
        return relations()

    with (
        mock.patch("minigrid.envs.wfc.wfcenv.execute_wfc", kept(control.execute_wfc)),
        patched(makeAdj=in_bits, adjacency_extraction=lambda _: once),
    ):
        for seed in seeds:
            env.reset(seed=seed)
            kinds = env.grid.encode()[..., 0].T
            cuts.append(mosaics[-1] & (kinds == Kind.WALL)[1:-1, 1:-1])
            x, y = env.agent_pos
            places.append((y, x, env.agent_dir, *np.argwhere(kinds == Kind.GOAL)[0]))
    bits = [
        np.packbits(np.array(cells).reshape(len(cells), -1), axis=1) for cells in (mosaics, cuts)
    ]
    return {"free": bits[0], "cut": bits[1], "places": np.array(places, np.int8)}


def recorded(preset):
    """Return the recorded levels: free cells, largest connected areas, and places.

    The first two are masks (levels, rows, columns). The places are (levels, 5): row, column and
    direction of the agent, row and column of the goal.
    """
    with np.load(FILE) as file:
        free, cut = (
            np.unpackbits(file[f"{preset}_{name}"], axis=1, count=SIDE**2).astype(bool)
            for name in ("free", "cut")
        )
        places = file[f"{preset}_places"].astype(int)
    shape = (-1, SIDE, SIDE)
    return free.reshape(shape), (free & ~cut).reshape(shape), places


class Recorded(MiniGridEnv):
    """MiniGrid's environment with recorded levels, one of which is drawn at each reset."""

    def __init__(self, preset, **fields):
        self.levels = recorded(preset)
        mission = MissionSpace(mission_func=lambda: MISSION)
        super().__init__(mission, grid_size=SIDE + 2, max_steps=20 * (SIDE + 2), **fields)

    def _gen_grid(self, width, height):
        _, areas, places = self.levels
        number = self._rand_int(0, len(areas))
        row, column, self.agent_dir, *goal = places[number].tolist()
        self.grid, self.agent_pos = Grid(width, height), (column, row)
        walls = np.pad(~areas[number], 1, constant_values=True)
        for wall_row, wall_column in np.argwhere(walls).tolist():
            self.grid.set(wall_column, wall_row, Wall())
        self.put_obj(Goal(), goal[1], goal[0])
        self.mission = MISSION


def main():
    parser = argparse.ArgumentParser("python tests/grid/wfc_upstream.py", description=__doc__)
    parser.add_argument("levels", type=int, help="number of levels of each preset")
    count = parser.parse_args().levels
    arrays = {}
    for preset in PRESETS:
        print(preset, flush=True)
        found = levels(preset, range(count))
        arrays |= {f"{preset}_{name}": array for name, array in found.items()}
    write(arrays, count)


def write(arrays, count):
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("minigrid", "numpy")]
    made = ["python tests/grid/wfc_upstream.py", str(count), *versions, str(datetime.date.today())]
    np.savez_compressed(FILE, made=np.array("; ".join(made)), **arrays)


if __name__ == "__main__":
    sys.exit(main())
