"""World generation of Craft-Classic: maps distributed as in Craftax-Classic 1.6.1.

One uniform draw per cell decides which ore a stone cell gets, or whether a grass cell gets a tree.
Craftax makes four draws per cell: for coal, iron, diamond and tree.
"""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt8

from ..core.bits import rank_of
from ..core.platforms import by_platform
from ..core.random import Key, hashed, uniform
from . import noise
from .compiler.barriers import materialised
from .tables import Block

# Probabilities with which a stone becomes an ore, tried in this order: coal, else iron, else
# diamond. Diamonds occur only high in mountains.
COAL, IRON, DIAMOND = 0.04, 0.03, 0.005
TREE = 0.2  # probability that a grass cell in woods has a tree


class TerrainDraws(NamedTuple):
    """Random draws of a map, uniform in [0, 1).

    The first four fields are angles of the gradients of Perlin noise, in turns (full circles).
    """

    water: Float32[Array, "water_lattice water_lattice"]
    mountain: Float32[Array, "water_lattice water_lattice"]
    path: Float32[Array, "path_rows path_columns"]
    tree: Float32[Array, "tree_lattice tree_lattice"]
    cells: Float32[Array, "size size"]  # draw that decides whether a cell has ore or a tree
    diamond: Float32[Array, ""]  # draw that chooses the stone that becomes a diamond


def lattices(size: int) -> tuple[tuple[int, int], ...]:
    """Return the shapes of the lattices of the water, mountain, tunnel and wood noise.

    A lattice is the coarse grid on whose points the gradients of Perlin noise are drawn.
    """
    coarse, fine = size // 16 + 1, size // 4 + 1
    return (coarse, coarse), (coarse, coarse), (size // 8 + 1, size // 2 + 1), (fine, fine)


def draw(key: Key, size: int, angles: Any = None) -> TerrainDraws:
    """Draw the random numbers from which `build` builds a map.

    By default, all numbers are drawn. `angles` sets some angles of the noise gradients instead: it
    has one array for each of the first four fields of `TerrainDraws`, with NaN for an angle to
    draw.
    """
    shapes = lattices(size)
    counts = [rows * columns for rows, columns in shapes]
    counter = np.arange(sum(counts) + size * size + 1, dtype=np.uint32)
    numbers = uniform(hashed(key, jnp.asarray(counter)))
    parts = jnp.split(numbers, np.cumsum(counts))
    drawn = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]
    if angles is not None:
        drawn = [jnp.where(jnp.isnan(a), d, a) for a, d in zip(angles, drawn, strict=True)]
    return TerrainDraws(*drawn, cells=parts[-1][:-1].reshape(size, size), diamond=parts[-1][-1])


def build(draws: TerrainDraws, always_diamond: Any, size: int) -> UInt8[Array, "size size"]:
    """Build the map from random draws.

    The blocks are set in this order: water and shore, mountains with ores, tunnels and caves,
    trees, lava. Finally, one stone becomes a diamond if `always_diamond` is True.
    """
    middle = size // 2
    span = np.abs(np.arange(size) - middle)
    flat = np.clip((span[:, None] + span[None, :]) / 5, 0, 1).astype(np.float32) - np.float32(1)
    forms = {"cpu": _noises_at_once, "default": _noises_one_by_one}
    forms = {name: functools.partial(form, size=size) for name, form in forms.items()}
    water, mountain, tunnel, wood = by_platform(draws[:4], **forms)
    water = water + flat
    mountain = mountain + np.float32(0.05) + flat
    lot = draws.cells

    map = jnp.where(water > 0.6, Block.SAND, Block.GRASS)
    map = jnp.where(water > 0.7, Block.WATER, map)
    high = mountain > 0.7
    ore = jnp.where((lot < _BELOW[2]) & (mountain > 0.8), Block.DIAMOND, Block.STONE)
    ore = jnp.where(lot < _BELOW[1], Block.IRON, ore)
    ore = jnp.where(lot < _BELOW[0], Block.COAL, ore)
    map = jnp.where(high, ore, map)
    hollow = (high & tunnel) | ((mountain > 0.85) & (water > 0.4))
    map = jnp.where(hollow, Block.PATH, map)
    tree = (map == Block.GRASS) & (wood > 0.5) & (lot > 1 - TREE)
    map = jnp.where(tree, Block.TREE, map)
    map = jnp.where((mountain > 0.85) & (wood > 0.7), Block.LAVA, map)
    start = np.zeros((size, size), bool)
    start[middle, middle] = True
    map = by_platform(
        jnp.where(start, Block.GRASS, map).astype(jnp.uint8),
        cpu=lambda map: map,
        # `_chosen` computes several sums over the cells.
        # Without the barrier, XLA would generate the map again for each of these sums.
        default=materialised,
    )
    sparkles = _chosen(map == Block.STONE, draws.diamond) & always_diamond
    return jnp.where(sparkles, jnp.uint8(Block.DIAMOND), map)


def _noises_at_once(lattices: Any, size: int) -> tuple[Array, ...]:
    """Compute the noise maps of the terrain on a CPU.

    Return the water noise, the mountain noise, whether each cell belongs to a tunnel, and the wood
    noise, each (size, size).
    """
    water, mountain, tunnel, wood = noise.noises(lattices, size)
    tunnel = tunnel > 0.8
    return water, mountain, tunnel | tunnel.T, wood


def _noises_one_by_one(lattices: Any, size: int) -> tuple[Array, ...]:
    water, mountain, tunnel, wood, across = noise.each(lattices, size, turned=2)
    return water, mountain, (tunnel > 0.8) | (across > 0.8), wood


_BELOW = np.cumsum([COAL, (1 - COAL) * IRON, (1 - COAL) * (1 - IRON) * DIAMOND]).astype(np.float32)


def _chosen(allowed: Bool[Array, "size size"], uniform: Array) -> Bool[Array, "size size"]:
    """Return a map of flags in which one allowed cell is True.

    `uniform`, a draw in [0, 1), selects the cell. If no cell is allowed, the cell (0, 0) is True.
    """
    size = allowed.shape[0]
    earlier = np.tri(size, k=-1, dtype=np.int32)  # element [a, b] is 1 if b < a
    in_row = allowed.sum(axis=1, dtype=jnp.int32)
    before = (earlier * in_row[None, :]).sum(axis=1, dtype=jnp.int32)
    total = in_row.sum(dtype=jnp.int32)
    rank = rank_of(uniform, total)
    # For each map row, whether the chosen cell is in this row.
    here = (before <= rank) & (rank < before + in_row)
    cells = (allowed & here[:, None]).any(axis=0)
    rank_in_row = rank - jnp.where(here, before, 0).sum(dtype=jnp.int32)
    place = (earlier * cells.astype(jnp.int32)[None, :]).sum(axis=1, dtype=jnp.int32)
    column = cells & (place == rank_in_row)
    first = np.zeros((size, size), bool)
    first[0, 0] = True
    return jnp.where(total > 0, here[:, None] & column[None, :], first)
