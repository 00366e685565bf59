"""Features of one GPU kernel from the HLO of its fusion: threads, instructions, loads and bytes.

The emitters of XLA's GPU compiler differ in which thread computes which element:

- loop: one thread for each element of the output, four where there are many and nothing forbids it
- reduce: one lane for each element that is reduced, a row in one or more warps
- transpose: 32 x 32 tiles through shared memory
- scatter: one thread for each element of the updates
- concatenate (up to four operands): each thread computes its element of every operand
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from . import hlo, indices
from .warps import GROUP, LANES, SECTOR, Lanes, Walk

GROUPS = 8  # of sampled warps
RESIDENT = 132 * 2048  # threads that an H200 holds at once
BLOCK = {"loop": 4, "concatenate": 4, "scatter": 4, "reduce": 32, "transpose": 4}  # warps
BURST = 64  # bytes that memory reads at once
L1 = 1 << 16  # bytes of an array that a multiprocessor keeps
HEROES = ("scatter", "reduce", "transpose", "concatenate")  # kInput fusions are named after them
SCALAR = {"reduce-window", "sort", "dot", "sine", "cosine", "power", "atan2"}  # forbid vectors


class Features(NamedTuple):
    """What a model of time sees of a launch; totals are of the launch, warps of 32 threads."""

    kind: str  # emitter: loop, reduce, transpose, scatter, concatenate, memory
    warps: float
    blocks: float
    instructions: float  # issue slots of warps
    special: float  # of these in divisions, roots, remainders and trigonometry
    loads: float  # load instructions of warps
    lines: float  # 128-byte cache lines that these touch
    epilogue: float  # instructions of a transposition after its tiles
    stores: float  # store instructions of warps
    shuffles: float  # of warps, and accesses of shared memory
    branches: float  # operands of concatenations, once for each warp that takes them
    depth: float  # loads of which each needs the last one's value
    read: float  # bytes of memory, each once
    written: float
    store_sectors: float  # 32-byte sectors that the stores of warps touch
    fetched: float  # different sectors of arrays that exceed an L1 cache, summed over warps


class Grid(NamedTuple):
    """Sampled warps of a launch."""

    positions: np.ndarray  # [lanes] in the array over which threads are laid out
    active: np.ndarray
    warps: float  # of the launch


def features(module: hlo.Module, scope: hlo.Computation, launched: hlo.Instruction) -> Features:
    """Features of the kernel that an instruction of a scheduled computation launches."""
    if launched.opcode not in ("fusion", "fusion-start"):
        return _memory(scope, launched)
    fused = module.computations[launched.attribute("calls")]
    kind = _kind(launched, fused)
    build = {"reduce": _reduce, "transpose": _transpose, "scatter": _scatter}
    return build.get(kind, _loop)(module, scope, launched, fused, kind)


def _kind(launched: hlo.Instruction, fused: hlo.Computation) -> str:
    found = re.search(r"kind=(\w+)", launched.rest)
    kind = found.group(1) if found else "kLoop"
    if kind == "kLoop":
        return "loop"
    opcodes = {instruction.opcode for instruction in fused.values()}
    named = [hero for hero in HEROES if hero in launched.name and hero in opcodes]
    return next(iter(named or [hero for hero in HEROES if hero in opcodes]), "loop")


def _memory(scope: hlo.Computation, launched: hlo.Instruction) -> Features:
    """Copies, sorts and library calls: bytes alone."""
    written = hlo.shape_bytes(launched.shape)
    read = sum(scope[name].bytes for name in launched.operands if name in scope)
    warps = max(written / 4 / LANES, 1.0)
    return Features(
        "memory", warps, warps / 4, 12 * warps, 0, warps, warps, 0, warps, 0, 0, 1, read, written, 4 * warps, 8 * warps
    )


def results(fused: hlo.Computation) -> list[hlo.Instruction]:
    """What a fusion stores: its root, or the members of a tuple; an update in place as itself."""
    root = next(i for i in fused.values() if i.is_root)
    return list(_members(fused, root))


def _members(fused: hlo.Computation, root: hlo.Instruction) -> Iterator[hlo.Instruction]:
    if root.opcode == "tuple":
        for name in root.operands:
            yield from _members(fused, fused[name])
    else:
        yield root


def _behind(fused: hlo.Computation, instruction: hlo.Instruction) -> hlo.Instruction:
    while instruction.opcode in ("bitcast", "reshape"):
        instruction = fused[instruction.operands[0]]
    return instruction


def size(shape: str) -> int:
    """Elements of an array."""
    return math.prod(indices.dims(shape))


def _update(fused: hlo.Computation, result: hlo.Instruction) -> hlo.Instruction | None:
    """The update, if a result is a dynamic-update-slice in place."""
    found = _behind(fused, result)
    if found.opcode != "dynamic-update-slice":
        return None
    in_place = _behind(fused, fused[found.operands[0]]).opcode == "parameter"
    return fused[found.operands[1]] if in_place else None


def _spread(warps: int) -> np.ndarray:
    """Numbers of sampled warps: groups of neighbours, irregularly spread over the launch."""
    steps = np.arange(GROUPS) + np.modf(np.arange(GROUPS) * 0.6180339887)[0]
    first = (steps / GROUPS * max(warps - GROUP, 0)).astype(np.int64)
    return np.minimum((first[:, None] + np.arange(GROUP)).ravel(), warps - 1)


def _contiguous(elements: int, unroll: int) -> Grid:
    """Warps whose threads compute neighbouring elements, `unroll` each."""
    warps = max(-(-elements // (LANES * unroll)), 1)
    positions = ((_spread(warps)[:, None] * LANES + np.arange(LANES)) * unroll).ravel()
    return Grid(np.minimum(positions, elements - 1), positions < elements, warps)


def _rows(rows: int, width: int, unroll: int = 1) -> Grid:
    """Warps that each read neighbouring elements of one row; short rows share a warp."""
    step = LANES * unroll
    if step % width == 0:
        return _contiguous(rows * width, unroll)
    pieces = -(-width // step)
    row, piece = np.divmod(_spread(rows * pieces), pieces)
    column = piece[:, None] * step + np.arange(LANES) * unroll
    positions = row[:, None] * width + np.minimum(column, width - 1)
    return Grid(positions.ravel(), (column < width).ravel(), rows * pieces)


def _unroll(fused: hlo.Computation, elements: int) -> int:
    """Elements of one thread of a loop fusion, as XLA chooses them."""
    if elements < RESIDENT or any(i.opcode in SCALAR for i in fused.values()):
        return 1
    return next(unroll for unroll in (4, 2, 1) if elements % unroll == 0)


def _at(instruction: hlo.Instruction, grid: Grid, offset: int = 0, trips: float = 1.0) -> Lanes:
    positions = np.minimum(grid.positions + offset, max(size(instruction.shape) - 1, 0))
    return Lanes(indices.unlinear(instruction.shape, positions), grid.active, trips)


def _loop(
    module: hlo.Module,
    scope: hlo.Computation,
    launched: hlo.Instruction,
    fused: hlo.Computation,
    kind: str,
) -> Features:
    outputs = [_update(fused, result) or result for result in results(fused)]
    hero = next((i for i in map(lambda r: _behind(fused, r), results(fused))), outputs[0])
    parts = outputs
    if kind == "concatenate" and hero.opcode == "concatenate":
        parts = [fused[name] for name in hero.operands]
    elements = max(size(part.shape) for part in parts)
    unroll = _unroll(fused, elements)
    grid = _contiguous(elements, unroll)
    walk = Walk(module, fused, len(grid.positions))
    stores = sectors = 0.0
    for part in parts:
        for offset in range(unroll):
            inside = grid.active & (grid.positions + offset < size(part.shape))
            if inside.any():
                walk.read(part.name, _at(part, grid._replace(active=inside), offset))
        share = size(part.shape) / elements
        stores += share * _stores(part, unroll)[0]
        sectors += share * _stores(part, unroll)[1]
    for result in results(fused):
        update = _behind(fused, result)
        if _update(fused, result) is not None:
            for name in update.operands[2:]:
                walk.read(name, Lanes(np.zeros((0, len(grid.positions)), np.int64), grid.active))
    return _finished(scope, launched, fused, walk, kind, grid.warps, stores, sectors, 0.0)


def _stores(part: hlo.Instruction, unroll: int) -> tuple[float, float]:
    """Store instructions of a warp, and the sectors they touch."""
    minor = next((n for n in reversed(indices.dims(part.shape)) if n > 1), 1)
    sectors = float(unroll * indices.item_bytes(part.shape))
    return (1.0 if minor % unroll == 0 else float(unroll)), sectors


def _reduce(
    module: hlo.Module,
    scope: hlo.Computation,
    launched: hlo.Instruction,
    fused: hlo.Computation,
    kind: str,
) -> Features:
    heroes = [i for i in fused.values() if i.opcode == "reduce"]
    hero = max(heroes, key=lambda i: size(fused[i.operands[0]].shape))
    operand = fused[hero.operands[0]]
    shape, axes = indices.dims(operand.shape), indices.numbers(hero.rest, "dimensions")
    elements, width = math.prod(shape), math.prod(shape[axis] for axis in axes)
    rowwise = len(shape) - 1 in axes
    unroll = 2 if rowwise and width % 2 == 0 else 1
    grid = _rows(elements // width, width, unroll) if rowwise else _contiguous(elements, 1)
    walk = Walk(module, fused, len(grid.positions))
    same = [i for i in heroes if size(fused[i.operands[0]].shape) == elements]
    for one in same:
        for name in one.operands[: len(one.operands) // 2]:
            for offset in range(unroll):
                walk.read(name, _at(fused[name], grid, offset))
    lanes = 1 / width if rowwise else 0.03
    for result in results(fused):
        if size(result.shape) == elements:
            for offset in range(unroll):
                walk.read(result.name, _at(result, grid, offset))
        elif result.opcode != "reduce":
            small = _contiguous(size(result.shape), 1)
            walk.read(result.name, _at(result, small, 0, max(small.warps / grid.warps, 1e-3)))
    walk.skipped = {one.name for one in same}
    steps = math.log2(min(max(width, 2), LANES)) if rowwise else 1.0
    pieces = max(-(-width // (LANES * unroll)), 1) if rowwise else LANES
    shuffles = len(same) * (steps / min(pieces, 32) + 1)
    sectors = len(same) / pieces if rowwise else len(same) * 4 / width
    for result in results(fused):
        if size(result.shape) == elements:
            lanes += unroll
            sectors += unroll * indices.item_bytes(result.shape)
    return _finished(scope, launched, fused, walk, kind, grid.warps, lanes, sectors, shuffles)


def _transpose(
    module: hlo.Module,
    scope: hlo.Computation,
    launched: hlo.Instruction,
    fused: hlo.Computation,
    kind: str,
) -> Features:
    heroes = _nearest(fused, "transpose")
    hero = max(heroes, key=lambda i: size(i.shape))
    operand = fused[hero.operands[0]]
    elements = size(hero.shape)
    inner = [next((n for n in reversed(indices.dims(i.shape)) if n > 1), 1) for i in (operand, hero)]
    grid = _rows(elements // inner[0], inner[0])
    out = _rows(elements // inner[1], inner[1])
    walk = Walk(module, fused, len(grid.positions))
    walk.skipped = {one.name for one in heroes}
    stores = 0.0
    for result in results(fused):
        stores += size(result.shape) / elements
        if size(result.shape) == elements:
            walk.read(result.name, _at(result, out, 0, out.warps / grid.warps))
        else:
            small = _contiguous(size(result.shape), 1)
            walk.read(result.name, _at(result, small, 0, small.warps / grid.warps))
    item = indices.item_bytes(hero.shape)
    epilogue = walk.run().instructions
    for one in heroes:
        walk.read(one.operands[0], _at(fused[one.operands[0]], grid))
    tiles = elements / inner[0] / inner[1] * math.prod(-(-width // LANES) for width in inner)
    return _finished(scope, launched, fused, walk, kind, grid.warps, stores, stores * item, 2.0, tiles, epilogue)


def _nearest(fused: hlo.Computation, opcode: str) -> list[hlo.Instruction]:
    """Instructions of an opcode that the results reach without passing another."""
    found, seen, pending = [], set(), [result.name for result in results(fused)]
    while pending:
        instruction = fused[pending.pop()]
        if instruction.name in seen:
            continue
        seen.add(instruction.name)
        if instruction.opcode == opcode:
            found.append(instruction)
        else:
            pending += instruction.operands
    return found


def _scatter(
    module: hlo.Module,
    scope: hlo.Computation,
    launched: hlo.Instruction,
    fused: hlo.Computation,
    kind: str,
) -> Features:
    hero = next(i for i in fused.values() if i.opcode == "scatter")
    count = (len(hero.operands) - 1) // 2
    starts, updates = fused[hero.operands[count]], [fused[n] for n in hero.operands[count + 1 :]]
    elements = size(updates[0].shape)
    grid = _contiguous(elements, 1)
    walk = Walk(module, fused, len(grid.positions))
    for update in updates:
        walk.read(update.name, _at(update, grid))
    window = indices.numbers(hero.rest, "update_window_dims")
    index = indices.unlinear(updates[0].shape, grid.positions)
    batch = index[[axis for axis in range(len(index)) if axis not in window]]
    shape = indices.dims(starts.shape)
    vector = shape[-1] if len(shape) > len(batch) else 1
    for number in range(vector):
        at = np.insert(batch, len(batch), number, axis=0) if len(shape) > len(batch) else batch
        walk.read(starts.name, Lanes(at, grid.active))
    for result in results(fused):
        if _behind(fused, result).opcode != "scatter":
            walk.read(result.name, _at(result, _contiguous(size(result.shape), 1)))
    item = indices.item_bytes(updates[0].shape)
    rows = math.prod(indices.dims(updates[0].shape)[axis] for axis in window)
    pieces = max(LANES / max(rows, 1), 1.0)  # rows of which each lies elsewhere
    sectors = count * pieces * math.ceil(min(rows, LANES) * item / SECTOR)
    walk.work.instructions += 4.0 * vector
    return _finished(scope, launched, fused, walk, kind, grid.warps, count, sectors, 0.0)


def _finished(
    scope: hlo.Computation,
    launched: hlo.Instruction,
    fused: hlo.Computation,
    walk: Walk,
    kind: str,
    warps: float,
    stores: float,
    sectors: float,
    shuffles: float,
    blocks: float = 0.0,
    epilogue: float = 0.0,
) -> Features:
    work = walk.run()
    work.instructions += max(map(indices.divisions, _shapes(fused)))
    read = fetched = 0.0
    for number, touched in work.touched.items():
        whole = scope[launched.operands[number]].bytes
        bursts = len(np.unique(touched // (BURST // SECTOR)))
        read += min(whole, bursts * BURST * warps / walk.warps)
        if whole > L1:
            fetched += len(work.pairs[number]) * warps / walk.warps
    written = sum(_stored(fused, result) for result in results(fused))
    return Features(
        kind,
        warps,
        blocks or warps / BLOCK[kind],
        *(warps * each for each in (work.instructions, work.special, work.loads, work.lines, epilogue)),
        warps * stores,
        warps * shuffles,
        warps * work.branches,
        _depth(fused),
        read,
        written,
        warps * sectors,
        fetched,
    )


def _shapes(fused: hlo.Computation) -> list[str]:
    return [(_update(fused, result) or result).shape for result in results(fused)]


def _stored(fused: hlo.Computation, result: hlo.Instruction) -> float:
    found = _behind(fused, result)
    if found.opcode == "scatter":
        count = (len(found.operands) - 1) // 2
        return sum(fused[name].bytes for name in found.operands[-count:])
    return (_update(fused, result) or result).bytes


def _depth(fused: hlo.Computation) -> int:
    """Longest chain of loads of which each needs the value of the last."""
    depth: dict[str, int] = {}
    for i in fused.values():
        below = max((depth[name] for name in i.operands), default=0)
        if i.opcode == "gather":
            below = max(depth[i.operands[0]], depth[i.operands[1]] + 1)
        depth[i.name] = max(below, int(i.opcode == "parameter"))
    return max(depth.values(), default=0)
