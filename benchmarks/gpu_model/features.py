"""Features of one GPU kernel, computed from its HLO: threads, instructions, loads and bytes.

An emitter is the part of XLA's GPU compiler that turns a fusion into a kernel. Emitters differ in
how they assign elements to threads:

- loop: one thread for each element of the output, or for four of them in large arrays
- reduce: neighbouring lanes (threads of a warp) read neighbouring elements of a row
- transpose: 32 x 32 tiles in shared memory
- scatter: one thread for each element of the updates
- concatenate (up to four operands): each thread computes its element of every operand

Only some of the warps (32 threads each) are sampled; `warps.Walk` counts their instructions and
loads.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from . import hlo, indices, products
from .fusions import Launch
from .indices import size
from .warps import GROUP, LANES, SECTOR, Lanes, Walk

GROUPS = 8  # number of groups of neighbouring warps that are sampled from a launch
MULTIPROCESSORS = 132  # number of multiprocessors of an H200
# Number of threads that can run at once. A kernel with more elements computes several per thread.
RESIDENT = MULTIPROCESSORS * 2048
UNROLL = (4, 2, 1)  # elements per thread; the largest that divides the number of elements is used
# Opcodes that prevent unrolling: in a fusion with one of them, each thread computes one element.
SCALAR = {"reduce-window", "sort", "dot", "sine", "cosine", "power", "atan2"}
# Warps per thread block, by emitter.
BLOCK = {"loop": 4, "concatenate": 4, "scatter": 4, "reduce": 8, "memory": 4}
ROW_THREADS = 32 * BLOCK["reduce"]  # number of threads in a block of the reduce emitter
# Row lengths of large arrays for which each thread of the reduce emitter reads at least four
# elements.
SHORT_ROWS = (8, 16, 32, 64)
# Limit in machine instructions on the size of an unrolled loop over a thread's elements. The
# compiler does not unroll a loop beyond this size.
CODE = 400
BURST = 64  # number of bytes that one access to device memory transfers
L1 = 1 << 16  # size in bytes of the largest array that fits into the L1 cache
# If the last axis of a concatenation has at most this many elements, the result is assumed to be
# the index vector of a gather. Larger results are assumed to be data.
VECTORS = 4


class Features(NamedTuple):
    """Features of one kernel launch; the model `kernel_time` predicts the launch's time from them.

    All numbers except `depth` are totals over the launch, for example over all its warps. If all
    numbers are 0, their default, the predicted time is `Coefficients.floor`.
    """

    # Emitter: the part of XLA's compiler that generated the kernel (loop, reduce, transpose,
    # scatter or concatenate), or `memory` for a copy, a sort or a library call.
    kind: str
    warps: float = 0.0  # number of warps of the launch
    blocks: float = 0.0  # number of thread blocks of the launch
    instructions: float = 0.0  # number of issue slots (machine instructions)
    # Issue slots for operations that cost 8 slots or more, such as divisions, roots and cosines;
    # also part of `instructions`.
    special: float = 0.0
    # Issue slots, also part of `instructions`, for the second half of a transposition, after the
    # tiles have been written to shared memory.
    epilogue: float = 0.0
    loads: float = 0.0  # number of load instructions
    lines: float = 0.0  # number of 128-byte cache lines that each load reads, summed over loads
    # Number of distinct 32-byte sectors that each group of neighbouring warps reads, summed over
    # the groups. Arrays that fit into the L1 cache do not count.
    fetched: float = 0.0
    stores: float = 0.0  # number of store instructions
    store_sectors: float = 0.0  # number of 32-byte sectors of each store, summed over stores
    shuffles: float = 0.0  # number of warp shuffles and accesses to shared memory
    # Number of operands of concatenations that each warp reads, summed over warps.
    branches: float = 0.0
    # Length of the longest chain of loads in which each load needs the value of the previous one.
    depth: float = 0.0
    read: float = 0.0  # number of distinct bytes read from memory
    written: float = 0.0  # number of bytes written to memory


class Grid(NamedTuple):
    """Sampled lanes (threads) of a launch, and the number of all warps of the launch."""

    positions: np.ndarray  # flat index of the element that each lane computes, int64 (lanes,)
    active: np.ndarray  # whether each lane computes an element, bool (lanes,)
    warps: float  # number of warps of the whole launch


class Stores(NamedTuple):
    """Stores of one warp on average: number of store instructions, and of 32-byte sectors."""

    instructions: float
    sectors: float


def features(module: hlo.Module, scope: hlo.Computation, instruction: hlo.Instruction) -> Features:
    """Return the features of the kernel of `instruction`, which is in the computation `scope`."""
    if instruction.opcode not in ("fusion", "fusion-start"):
        return _memory(scope, instruction)
    if products.products(module, scope, instruction):
        return _memory(scope, instruction)  # tiles of a product are read once into shared memory
    launch = Launch(module, scope, instruction)
    return EMITTERS.get(launch.kind, _loop)(launch)


def _memory(scope: hlo.Computation, instruction: hlo.Instruction) -> Features:
    """Return the features of a copy, sort, product or library call, estimated from its bytes."""
    written = instruction.bytes
    read = sum(scope[name].bytes for name in instruction.operands if name in scope)
    warps = max(written / 4 / LANES, 1.0)
    return Features(
        kind="memory",
        warps=warps,
        blocks=warps / BLOCK["memory"],
        instructions=12 * warps,
        loads=warps,
        lines=warps,
        fetched=4 * warps,
        stores=warps,
        store_sectors=4 * warps,
        depth=1,
        read=read,
        written=written,
    )


def _spread(warps: int) -> np.ndarray:
    """Return the indices of the sampled warps of a launch that has `warps` warps in total.

    The sample has `GROUPS` groups, spaced irregularly over the launch. A group consists of `GROUP`
    neighbouring warps.
    """
    steps = np.arange(GROUPS) + np.modf(np.arange(GROUPS) * 0.6180339887)[0]
    first = (steps / GROUPS * max(warps - GROUP, 0)).astype(np.int64)
    return np.minimum((first[:, None] + np.arange(GROUP)).ravel(), warps - 1)


def _contiguous(elements: int, unroll: int = 1) -> Grid:
    """Return the sampled lanes of a kernel that computes `elements` elements.

    Each lane (thread) computes `unroll` neighbouring elements.
    """
    warps = max(-(-elements // (LANES * unroll)), 1)
    positions = ((_spread(warps)[:, None] * LANES + np.arange(LANES)) * unroll).ravel()
    return Grid(np.minimum(positions, elements - 1), positions < elements, warps)


def _rows(rows: int, width: int, unroll: int = 1) -> Grid:
    """Return the sampled lanes of a kernel that reads `rows` rows of `width` elements each.

    Each lane reads `unroll` neighbouring elements, so a warp reads `LANES * unroll` elements. If
    this number is a multiple of `width`, a warp reads whole rows, otherwise a part of one row.
    """
    step = LANES * unroll
    if step % width == 0:
        return _contiguous(rows * width, unroll)
    pieces = -(-width // step)
    row, piece = np.divmod(_spread(rows * pieces), pieces)
    column = piece[:, None] * step + np.arange(LANES) * unroll
    positions = row[:, None] * width + np.minimum(column, width - 1)
    return Grid(positions.ravel(), (column < width).ravel(), rows * pieces)


def _read(walk: Walk, wanted: Sequence[hlo.Instruction], grid: Grid, unroll: int = 1) -> None:
    """Request elements of `wanted` from `walk`: each lane computes `unroll` adjacent elements.

    If the code is short enough, the compiler unrolls the loop over a lane's elements. A value that
    several of these elements need is then requested once instead of once for each element.
    """
    shared = 1
    if unroll > 1:
        probe = Walk(walk.fused, len(grid.positions), walk.skipped)
        _ask(probe, wanted, grid, 1, 1.0)
        length = probe.run().instructions
        fits = (n for n in (8, 4, 2) if unroll % n == 0 and n * length <= CODE)
        shared = next(fits, 1)
    _ask(walk, wanted, grid, shared, unroll / shared)


def _ask(
    walk: Walk, wanted: Sequence[hlo.Instruction], grid: Grid, offsets: int, trips: float
) -> None:
    for instruction in wanted:
        elements = size(instruction.shape)
        for offset in range(offsets):
            positions = grid.positions + offset
            active = grid.active & (positions < elements)
            if active.any():
                index = indices.unlinear(instruction.shape, np.minimum(positions, elements - 1))
                walk.read(instruction.name, Lanes(index, active, trips))


def _read_small(walk: Walk, instruction: hlo.Instruction, warps: float) -> None:
    """Request from `walk` the elements of `instruction`, a secondary result of the kernel.

    `warps`, the number of warps of the launch, is determined by a larger or smaller main array. The
    work for `instruction` is spread evenly over all these warps.
    """
    grid = _contiguous(size(instruction.shape))
    index = indices.unlinear(instruction.shape, grid.positions)
    walk.read(instruction.name, Lanes(index, grid.active, max(grid.warps / warps, 1e-3)))


def _loop(launch: Launch) -> Features:
    parts = [launch.stored(result) for result in launch.results]
    hero = launch.source(launch.results[0])
    if launch.kind == "concatenate" and hero.opcode == "concatenate":
        parts = [launch.fused[name] for name in hero.operands]
    elements = max(size(part.shape) for part in parts)
    scalar = any(i.opcode in SCALAR for i in launch.fused.values())
    stacked = hero.opcode == "concatenate" and all(
        size(launch.fused[name].shape) < RESIDENT for name in hero.operands
    )
    several = elements >= RESIDENT and not (scalar or stacked or launch.kind == "concatenate")
    unroll = next(n for n in UNROLL if elements % n == 0) if several else 1
    grid = _contiguous(elements, unroll)
    walk = Walk(launch.fused, len(grid.positions))
    _read(walk, parts, grid, unroll)
    stores = [_stores(part, unroll, size(part.shape) / elements) for part in parts]
    for update in map(launch.source, launch.results):
        if launch.stored(update) is not update:
            for name in update.operands[2:]:
                walk.read(name, Lanes(np.zeros((0, len(grid.positions)), np.int64), grid.active))
    return _finished(launch, walk, grid.warps, Stores(*map(sum, zip(*stores, strict=True))))


def _stores(part: hlo.Instruction, unroll: int, share: float) -> Stores:
    minor = next((n for n in reversed(indices.dims(part.shape)) if n > 1), 1)
    instructions = 1 if minor % unroll == 0 else unroll
    return Stores(share * instructions, share * unroll * indices.item_bytes(part.shape))


def _reduce(launch: Launch) -> Features:
    fused = launch.fused
    reduces = [i for i in fused.values() if i.opcode == "reduce"]
    hero = max(reduces, key=lambda i: size(fused[i.operands[0]].shape))
    shape = indices.dims(fused[hero.operands[0]].shape)
    axes = indices.numbers(hero.rest, "dimensions")
    elements, width = math.prod(shape), math.prod(shape[axis] for axis in axes)
    by_row = len(shape) - 1 in axes
    unroll = _row_unroll(elements // width, width) if by_row and not _stacks(fused) else 1
    grid = _rows(elements // width, width, unroll) if by_row else _contiguous(elements)
    heroes = [i for i in reduces if size(fused[i.operands[0]].shape) == elements]
    walk = Walk(fused, len(grid.positions), skipped={one.name for one in heroes})
    wanted = [fused[n] for one in heroes for n in one.operands[: len(one.operands) // 2]]
    wanted += [result for result in launch.results if size(result.shape) == elements]
    _read(walk, wanted, grid, unroll)
    lanes, sectors = max(1 / width if by_row else 0.03, 0.05), 0.0
    for result in launch.results:
        if size(result.shape) == elements:
            lanes, sectors = lanes + unroll, sectors + unroll * indices.item_bytes(result.shape)
        elif result.opcode != "reduce":
            _read_small(walk, result, grid.warps)
    pieces = max(-(-width // (LANES * unroll)), 1) if by_row else LANES
    # A block has `BLOCK["reduce"]` warps, or `pieces` warps if that is more. `pieces` is the number
    # of warps that read a row, or `LANES` if the last axis is not reduced.
    blocks = grid.warps / max(pieces, BLOCK["reduce"])
    sectors += len(heroes) / pieces if by_row else len(heroes) * 4 / width
    steps = math.log2(min(max(width / unroll, 2), LANES)) if by_row else 1.0
    shuffles = len(heroes) * (steps / min(pieces, LANES) + 1)
    return _finished(launch, walk, grid.warps, Stores(lanes, sectors), shuffles, blocks)


def _row_unroll(rows: int, width: int) -> int:
    """Return the number of neighbouring elements of a row that one thread reads.

    The rule was inferred from kernels that XLA compiled.
    """
    several = max(4, width // 8)
    if width in SHORT_ROWS and rows * width >= several * ROW_THREADS * MULTIPROCESSORS:
        # A thread reads at least an eighth of a row, so at most eight threads read one row.
        return several
    return 2 if width % 2 == 0 and width >= 2 * LANES else 1


def _stacks(fused: hlo.Computation) -> bool:
    """Return whether the fusion concatenates data.

    A concatenation whose last axis has at most `VECTORS` elements does not count, because it is
    assumed to make the index vectors of a gather.
    """
    stacks = (i for i in fused.values() if i.opcode == "concatenate")
    return any(indices.dims(i.shape)[-1] > VECTORS for i in stacks)


def _transpose(launch: Launch) -> Features:
    fused, heroes = launch.fused, launch.heroes("transpose")
    if not heroes:
        return _loop(dataclasses.replace(launch, kind="loop"))
    hero = max(heroes, key=lambda i: size(i.shape))
    elements = size(hero.shape)
    shapes = fused[hero.operands[0]].shape, hero.shape
    inner = [next((n for n in reversed(indices.dims(s)) if n > 1), 1) for s in shapes]
    grid, out = (_rows(elements // width, width) for width in inner)
    walk = Walk(fused, len(grid.positions), skipped={one.name for one in heroes})
    share = 0.0
    for result in launch.results:
        share += size(result.shape) / elements
        if size(result.shape) == elements:
            _read(walk, [result], out)
        else:
            _read_small(walk, result, grid.warps)
    epilogue = walk.run().instructions
    for one in heroes:
        _read(walk, [fused[one.operands[0]]], grid)
    tiles = elements / math.prod(inner) * math.prod(-(-width // LANES) for width in inner)
    stores = Stores(share, share * indices.item_bytes(hero.shape))
    return _finished(launch, walk, grid.warps, stores, 2.0, blocks=tiles, epilogue=epilogue)


def _scatter(launch: Launch) -> Features:
    fused = launch.fused
    hero = next(i for i in fused.values() if i.opcode == "scatter")
    count = (len(hero.operands) - 1) // 2
    starts, updates = fused[hero.operands[count]], [fused[n] for n in hero.operands[count + 1 :]]
    window = indices.numbers(hero.rest, "update_window_dims")
    row = max(math.prod(indices.dims(updates[0].shape)[axis] for axis in window), 1)
    elements, item = size(updates[0].shape), indices.item_bytes(updates[0].shape)
    unroll = 4 if elements >= RESIDENT and row % 4 == 0 and item == 1 else 1
    grid = _contiguous(elements, unroll)
    walk = Walk(fused, len(grid.positions))
    _read(walk, updates, grid, unroll)
    index = indices.unlinear(updates[0].shape, grid.positions)
    batch = index[[axis for axis in range(len(index)) if axis not in window]]
    shape = indices.dims(starts.shape)
    vectors = range(shape[-1]) if len(shape) > len(batch) else [None]
    for number in vectors:
        at = batch if number is None else np.insert(batch, len(batch), number, axis=0)
        walk.read(starts.name, Lanes(at, grid.active))
    walk.work.instructions += 4.0 * len(vectors)
    step = LANES * unroll
    pieces = max(step / row, 1.0)  # number of rows, at unrelated addresses, that a warp updates
    sectors = math.ceil(min(row, step) * item / SECTOR)
    return _finished(launch, walk, grid.warps, Stores(count, count * pieces * sectors))


def _finished(
    launch: Launch,
    walk: Walk,
    warps: float,
    stores: Stores,
    shuffles: float = 0.0,
    blocks: float = 0.0,
    epilogue: float = 0.0,
) -> Features:
    work = walk.run()
    shapes = [launch.stored(result).shape for result in launch.results]
    divisions = max(map(indices.divisions, shapes))
    scale, read, fetched = warps / walk.warps, 0.0, 0.0
    for number, touched in work.touched.items():
        whole = launch.scope[launch.instruction.operands[number]].bytes
        bursts = len(np.unique(touched // (BURST // SECTOR)))
        read += min(whole, bursts * BURST * scale)
        fetched += len(work.pairs[number]) * scale if whole > L1 else 0.0
    return Features(
        kind=launch.kind,
        warps=warps,
        blocks=blocks or warps / BLOCK[launch.kind],
        instructions=warps * (work.instructions + divisions),
        special=warps * work.special,
        epilogue=warps * epilogue,
        loads=warps * work.loads,
        lines=warps * work.lines,
        fetched=fetched,
        stores=warps * stores.instructions,
        store_sectors=warps * stores.sectors,
        shuffles=warps * shuffles,
        branches=warps * work.branches,
        depth=launch.depth(),
        read=read,
        written=launch.written(),
    )


EMITTERS: dict[str, Callable[[Launch], Features]] = {
    "reduce": _reduce,
    "transpose": _transpose,
    "scatter": _scatter,
}
