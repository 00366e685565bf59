"""Count of instructions, loads and cache sectors that sampled warps of a fusion need.

XLA compiles a fusion to a function that computes an output element from the element's index. The
function computes all values on which the element depends, so a value is computed again for each
element that needs it. This module follows the indices of a few warps (groups of 32 lanes, which are
threads that run together) from the outputs back to the parameters. An instruction that is needed
several times at the same indices is counted once, because the compiler eliminates common
subexpressions. A warp executes a branch of a concatenation or pad if at least one of its lanes
takes the branch.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from . import hlo, indices

LANES = 32  # number of lanes (threads) of a warp
SECTOR = 32  # size in bytes of a sector, the unit in which a cache fetches data
GROUP = 6  # number of neighbouring warps that are sampled together; they share an L1 cache
LINE = 4  # number of sectors in a cache line of L1
# Limit on the requests that `Walk` follows in a fusion. The work of all further requests is
# extrapolated.
LIMIT = 4096
# Limit on the iterations of a reduction that `Walk` follows. The work of all further iterations is
# extrapolated.
UNROLLED = 16

# Cost of HLO instructions in issue slots (machine instructions); all other opcodes cost one.
COSTS = {
    "divide": 10.0,
    "remainder": 22.0,
    "sqrt": 10.0,
    "rsqrt": 8.0,
    "exponential": 10.0,
    "log": 16.0,
    "sine": 40.0,
    "cosine": 40.0,
    "tanh": 20.0,
    "power": 60.0,
    "multiply": 1.0,
    "and": 0.6,  # one machine instruction (LOP3) does up to three logical operations
    "or": 0.6,
    "xor": 0.6,
    "not": 0.3,
    "clamp": 2.0,
    "sign": 3.0,
    "popcnt": 2.0,
    "count-leading-zeros": 2.0,
    # Cost of clamping the start index to the bounds of the array. Computing the address of the load
    # costs `ADDRESS` in addition.
    "gather": 4.0,
    "dynamic-slice": 4.0,
    "pad": 3.0,
    "scatter": 4.0,
}
FREE = {  # opcodes without cost here: they only rename data, or are counted elsewhere
    *("bitcast", "reshape", "broadcast", "transpose", "slice", "reverse", "copy"),
    *("bitcast-convert", "tuple", "get-tuple-element", "parameter", "constant", "iota"),
    *("concatenate", "reduce", "fusion"),
}
BRANCH = 2.0  # issue slots to branch to one operand of a concatenation
ADDRESS = 3.0  # issue slots to compute the address of a load
WIDE = {"s64", "u64", "f64"}  # types whose operations cost twice as much


class Lanes(NamedTuple):
    """Request for the value of an instruction: each sampled lane needs the value at one index.

    `trips` is the number of times that the lanes make the request, for example in a loop.
    """

    at: np.ndarray  # index of the element that each lane reads, int64 (rank, lanes)
    active: np.ndarray  # whether each lane reads an element, bool (lanes,)
    trips: float = 1.0

    @property
    def key(self) -> bytes:
        """Bytes that are equal for requests of the same elements by the same active lanes."""
        return self.at.tobytes() + self.active.tobytes()


@dataclasses.dataclass
class Work:
    """Work of an average warp. Multiply it by the number of warps to get the work of a launch."""

    instructions: float = 0.0  # number of issue slots (machine instructions)
    # Issue slots for operations that cost 8 slots or more, such as divisions, roots and cosines;
    # also part of `instructions`.
    special: float = 0.0
    loads: float = 0.0  # number of load instructions
    lines: float = 0.0  # number of 128-byte cache lines that each load reads, summed over loads
    branches: float = 0.0  # number of branches: operands of concatenations that the warp reads
    # Index of an operand of the fusion -> distinct sectors of the operand that sampled warps read.
    touched: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)
    # Index of an operand of the fusion -> distinct pairs of a sector and a group of warps that
    # reads the sector. Each pair is encoded as an integer.
    pairs: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)


class Walk:
    """Counter of the work that sampled warps do for one fused computation.

    `read` requests values, and `run` follows the requests back to the parameters.
    """

    def __init__(self, fused: hlo.Computation, lanes: int, skipped: Iterable[str] = ()):
        self.fused = fused
        self.warps = max(lanes // LANES, 1)
        self.work = Work()
        self.pending: dict[str, dict[bytes, Lanes]] = {}
        self.divided: set[tuple] = set()
        self.values = indices.Values(fused)
        # Names of instructions whose operands are not requested, because another part of the kernel
        # computes these instructions. That part is counted separately.
        self.skipped = frozenset(skipped)

    def read(self, name: str, lanes: Lanes) -> None:
        """Request the value of the instruction `name` at the lanes' indices."""
        asked = self.pending.setdefault(name, {})
        old = asked.get(lanes.key)
        if old is None or old.trips < lanes.trips:
            asked[lanes.key] = lanes

    def share(self, lanes: Lanes) -> float:
        """Return how often an average warp executes the instruction of a request.

        This is the fraction of warps with an active lane, times the iterations of enclosing loops.
        """
        return float(lanes.active.reshape(self.warps, -1).any(1).mean()) * lanes.trips

    def divide(self, shape: str, other: str, lanes: Lanes) -> None:
        """Count the machine instructions that convert the lanes' indices to another array shape.

        Indices of the shape `other` become indices of `shape`. If the same indices are converted
        again, nothing is counted.
        """
        key = indices.dims(shape), indices.dims(other), lanes.key
        if key not in self.divided:
            self.divided.add(key)
            share = self.share(lanes)
            self.work.instructions += share * indices.divisions(shape, other)

    def run(self) -> Work:
        """Follow all requests back to the parameters; return the work of an average warp.

        Instructions are visited in reverse order, so that the requests of all users of a value are
        known before the instruction that computes the value is visited.
        """
        for instruction in reversed(self.fused.values()):
            asked = list(self.pending.pop(instruction.name, {}).values())
            if not asked or instruction.name in self.skipped:
                continue
            kept = asked[: max(LIMIT // max(len(self.fused), 1), 24)]
            scale = len(asked) / len(kept)
            for lanes in kept:
                self._visit(instruction, lanes._replace(trips=lanes.trips * scale))
        return self.work

    def _visit(self, instruction: hlo.Instruction, lanes: Lanes) -> None:
        opcode = instruction.opcode
        share = self.share(lanes)
        if opcode == "parameter" or (opcode == "constant" and lanes.at.shape[0]):
            self._load(instruction, lanes, share)
            return
        cost = 0.0 if opcode in FREE else COSTS.get(opcode, 1.0)
        if any(f"{kind}[" in instruction.shape for kind in WIDE):
            cost *= 2
        self.work.instructions += cost * share
        if cost >= 8:
            self.work.special += cost * share
        READERS.get(opcode, _elementwise)(self, instruction, lanes)

    def _load(self, instruction: hlo.Instruction, lanes: Lanes, share: float) -> None:
        dims, size = indices.dims(instruction.shape), indices.item_bytes(instruction.shape)
        linear = indices.linear(instruction.shape, lanes.at)
        if not linear[lanes.active].size:
            return
        sectors = np.where(lanes.active, linear * size // SECTOR, -1).reshape(self.warps, -1)
        ordered = np.sort(sectors, axis=1)
        new = (ordered >= 0) & (np.diff(ordered, axis=1, prepend=-2) != 0)
        self.work.loads += share
        self.work.instructions += share * ADDRESS if len(dims) else 0.0
        lines = (ordered >= 0) & (np.diff(ordered // LINE, axis=1, prepend=-2) != 0)
        self.work.lines += lines.sum() / self.warps * lanes.trips
        if instruction.opcode == "parameter":
            number = int(instruction.rest.split(",")[0])
            group = np.arange(self.warps)[:, None] // GROUP
            _join(self.work.touched, number, ordered[new])
            _join(self.work.pairs, number, (ordered * self.warps + group)[new])


def _join(found: dict[int, np.ndarray], number: int, more: np.ndarray) -> None:
    found[number] = np.union1d(found.get(number, more), more)


def _elementwise(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    for name in instruction.operands:
        dims = indices.dims(walk.fused[name].shape)
        if len(dims) == len(lanes.at):
            walk.read(name, lanes)
        elif not dims:
            walk.read(name, _scalar(lanes))
        else:  # not an elementwise operand, because its rank differs: guess the indices
            shape = walk.fused[name].shape
            positions = indices.linear(instruction.shape, lanes.at) % indices.size(shape)
            walk.read(name, lanes._replace(at=indices.unlinear(shape, positions)))


def _scalar(lanes: Lanes) -> Lanes:
    return lanes._replace(at=lanes.at[:0])


def _view(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    operand = walk.fused[instruction.operands[0]]
    if instruction.opcode in ("bitcast", "reshape"):
        walk.divide(operand.shape, instruction.shape, lanes)
    walk.read(operand.name, lanes._replace(at=indices.through(instruction, operand, lanes.at)))


def _pad(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    operand = walk.fused[instruction.operands[0]]
    inside, index = indices.padded(instruction, operand, lanes.at)
    if (inside & lanes.active).any():
        walk.read(operand.name, lanes._replace(at=index, active=lanes.active & inside))
    walk.read(instruction.operands[1], _scalar(lanes))


def _concatenate(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    (axis,) = indices.numbers(instruction.rest, "dimensions")
    # `known` is True if all lanes have the same index on the concatenated axis. All of them then
    # read from the same operand, and the warp needs no branch.
    start, known = 0, np.ptp(lanes.at[axis]) == 0
    for name in instruction.operands:
        width = indices.dims(walk.fused[name].shape)[axis]
        along = lanes.at[axis] - start
        active = lanes.active & (along >= 0) & (along < width)
        if active.any():
            index = lanes.at.copy()
            index[axis] = np.clip(along, 0, width - 1)
            share = walk.share(lanes._replace(active=active))
            walk.work.branches += 0.0 if known else share
            walk.work.instructions += 0.0 if known else share * BRANCH
            walk.read(name, lanes._replace(at=np.where(active, index, 0), active=active))
        start += width


def _gather(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    operand, starts = (walk.fused[name] for name in instruction.operands)
    index, reads = indices.gathered(instruction, operand, starts, lanes.at, walk.values)
    walk.read(operand.name, lanes._replace(at=index))
    for read in reads:
        walk.read(starts.name, lanes._replace(at=read))


def _dynamic_slice(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    operand = walk.fused[instruction.operands[0]]
    room = np.subtract(indices.dims(operand.shape), indices.dims(instruction.shape))
    walk.read(operand.name, lanes._replace(at=lanes.at + (room // 2)[:, None]))
    for name in instruction.operands[1:]:
        walk.read(name, _scalar(lanes))


def _dynamic_update_slice(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    """Request the operands of a dynamic-update-slice: the old array and the update.

    Inside a fusion the update is not made in place, so all lanes request the old array. Only lanes
    whose index is inside the update request the update. The start index of the update is known only
    at run time; it is assumed to be 0.
    """
    walk.read(instruction.operands[0], lanes)
    update = walk.fused[instruction.operands[1]]
    sizes = np.array(indices.dims(update.shape), np.int64).reshape(-1, 1)
    inside = lanes.active & (lanes.at < sizes).all(0)
    if inside.any():
        index = np.minimum(lanes.at, sizes - 1)
        walk.read(update.name, lanes._replace(at=index, active=inside))


def _reduce(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    count = len(instruction.operands) // 2
    axes = indices.numbers(instruction.rest, "dimensions")
    dims = indices.dims(walk.fused[instruction.operands[0]].shape)
    trips = int(np.prod([dims[axis] for axis in axes], dtype=np.int64))
    followed = min(trips, UNROLLED)
    share = walk.share(lanes)
    walk.work.instructions += share * trips * count
    for number in range(followed):
        position = np.unravel_index(number * (trips // followed), [dims[axis] for axis in axes])
        index = indices.inserted(lanes.at, axes, position)
        for name in instruction.operands[:count]:
            walk.read(name, Lanes(index, lanes.active, lanes.trips * trips / followed))


def _reduce_window(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    window = re.search(r"window=\{size=([\dx]+)", instruction.rest)
    sizes = [int(size) for size in window.group(1).split("x")] if window else []
    trips = int(np.prod(sizes, dtype=np.int64))
    dims = np.array(indices.dims(walk.fused[instruction.operands[0]].shape))
    share = walk.share(lanes)
    # An iteration takes four issue slots, for the bounds check, the operation and the loop.
    walk.work.instructions += share * trips * 4
    for number in range(min(trips, UNROLLED)):
        offset = np.array(np.unravel_index(number, sizes))
        index = np.minimum(lanes.at + offset[:, None], dims[:, None] - 1)
        scale = trips / min(trips, UNROLLED)
        walk.read(instruction.operands[0], Lanes(index, lanes.active, lanes.trips * scale))


def _nothing(walk: Walk, instruction: hlo.Instruction, lanes: Lanes) -> None:
    """Request nothing: iotas, scalar constants and random bits have no operands to read."""


READERS: dict[str, Callable[[Walk, hlo.Instruction, Lanes], None]] = {
    **dict.fromkeys(("bitcast", "reshape", "broadcast", "transpose", "slice", "reverse"), _view),
    **dict.fromkeys(("iota", "constant", "rng-bit-generator"), _nothing),
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
}
