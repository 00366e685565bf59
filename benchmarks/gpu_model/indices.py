"""Functions that map an index of an HLO instruction's result to the indices of its operands.

Indices are integer arrays (rank, lanes): one index per lane (thread). Inside a fusion XLA's GPU
compiler makes all arrays row-major. If an index depends on a value that is known only at run time,
the value is replaced by a pseudorandom number, see `Values`.
"""

import functools
import math
import re
from collections.abc import Sequence

import numpy as np

from . import hlo

# Limit on the number of instructions that `Values` follows one after another to compute a value. A
# value beyond this limit counts as unknown.
DEPTH = 60
# Exclusive upper bound of the pseudorandom numbers that replace values known only at run time, such
# as the indices of a gather. It is small, because in real programs neighbouring lanes read elements
# that are near each other.
RANGE = 16


@functools.cache
def dims(shape: str) -> tuple[int, ...]:
    """Return the sizes of the axes of an array shape, such as (2, 3) for `f32[2,3]`.

    For a tuple of arrays, returns the sizes of its first array. Raises `ValueError` if the shape
    contains no array.
    """
    found = re.match(r"\(*\w+\[([\d,<=]*)\]", shape)
    if not found:
        raise ValueError(f"{shape} is not an array")
    return tuple(int(size) for size in found.group(1).replace("<=", "").split(",") if size)


def size(shape: str) -> int:
    """Return the number of elements of an array shape such as `f32[2,3]`."""
    return math.prod(dims(shape))


@functools.cache
def item_bytes(shape: str) -> int:
    """Return the size in bytes of one element of an array shape such as `f32[2,3]`."""
    return max(hlo.shape_bytes(shape.lstrip("(").split("[")[0] + "[]"), 1)


@functools.lru_cache(maxsize=4096)
def numbers(rest: str, name: str) -> tuple[int, ...]:
    """Return the integers of the attribute `name`, such as (0, 2) for `dimensions={0,2}`."""
    found = re.search(rf"\b{name}=\{{([\d,]*)\}}", rest)
    return tuple(int(number) for number in found.group(1).split(",") if number) if found else ()


@functools.cache
def order(shape: str) -> tuple[int, ...]:
    """Return the axes of a shape in the order of their strides in memory, largest first."""
    found = re.match(r"\(*\w+\[[\d,<=]*\]\{([\d,]+)", shape)
    if not found:
        return tuple(range(len(dims(shape))))
    return tuple(int(axis) for axis in reversed(found.group(1).split(",")))


def linear(shape: str, index: np.ndarray) -> np.ndarray:
    """Return the memory offset of each lane's index, in elements; `index` is (rank, lanes)."""
    position, sizes = np.zeros(index.shape[1:], np.int64), dims(shape)
    for axis in order(shape):
        position = position * sizes[axis] + index[axis]
    return position


def unlinear(shape: str, position: np.ndarray) -> np.ndarray:
    """Return indices (rank, lanes) for offsets that are counted in elements; inverts `linear`."""
    sizes = dims(shape)
    index = np.empty((len(sizes), *position.shape), np.int64)
    for axis in reversed(order(shape)):
        position, index[axis] = np.divmod(position, sizes[axis])
    return index


@functools.cache
def divisions(shape: str, other: str = "") -> float:
    """Return the number of issue slots (machine instructions) to compute an index of `shape`.

    The index is computed from a flat position or, if `other` is given, from an index of the shape
    `other`. Each axis but the first needs a division by its size: one slot if the size is a power
    of two, otherwise four. Leading and trailing axes that both shapes share cost nothing.
    """
    ours, theirs = ([n for n in dims(each) if n > 1] if each else [] for each in (shape, other))
    if other:
        while ours and theirs and ours[0] == theirs[0]:
            ours, theirs = ours[1:], theirs[1:]
        while ours and theirs and ours[-1] == theirs[-1]:
            ours, theirs = ours[:-1], theirs[:-1]
    return sum(1.0 if n & (n - 1) == 0 else 4.0 for n in ours[1:])


def inserted(index: np.ndarray, axes: Sequence[int], values: Sequence) -> np.ndarray:
    """Return the lanes' indices (rank, lanes) with additional axes inserted.

    In the result, every lane has the index `values[i]` on the new axis `axes[i]`.
    """
    for axis, value in sorted(zip(axes, values, strict=True)):
        index = np.insert(index, axis, value, axis=0)
    return index


def through(view: hlo.Instruction, operand: hlo.Instruction, index: np.ndarray) -> np.ndarray:
    """Return the index (rank, lanes) in `operand` of the element that `view` shows at `index`.

    `view` is a slice, broadcast, transpose, reverse, reshape or bitcast of `operand`.
    """
    opcode = view.opcode
    if opcode == "slice":
        bounds = re.search(r"slice=\{([^}]*)\}", view.rest)
        parts = re.findall(r"\[(\d+):\d+(?::(\d+))?\]", bounds.group(1)) if bounds else []
        start = np.array([int(part[0]) for part in parts], np.int64).reshape(-1, 1)
        stride = np.array([int(part[1] or 1) for part in parts], np.int64).reshape(-1, 1)
        return start + index * stride
    if opcode == "broadcast":
        return index[list(numbers(view.rest, "dimensions"))]
    if opcode == "transpose":
        return index[np.argsort(numbers(view.rest, "dimensions"))]
    if opcode == "reverse":
        flipped = index.copy()
        for axis in numbers(view.rest, "dimensions"):
            flipped[axis] = dims(view.shape)[axis] - 1 - index[axis]
        return flipped
    shape = view.shape if opcode == "bitcast" else _row_major(view.shape)
    inner = operand.shape if opcode == "bitcast" else _row_major(operand.shape)
    return unlinear(inner, linear(shape, index))


def _row_major(shape: str) -> str:
    return shape.split("{")[0]


def padded(
    pad: hlo.Instruction, operand: hlo.Instruction, index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the lanes that read the operand, and each lane's index in the operand.

    Lanes that read padding are False in the mask and have the index 0.
    """
    found = re.search(r"padding=([\dx_-]+)", pad.rest)
    parts = [part.split("_") for part in found.group(1).split("x")] if found else []
    low = np.array([int(part[0]) for part in parts], np.int64).reshape(-1, 1)
    step = np.array([int(part[2]) + 1 if len(part) > 2 else 1 for part in parts]).reshape(-1, 1)
    sizes = np.array(dims(operand.shape), np.int64).reshape(-1, 1)
    moved = index - low
    inside = ((moved >= 0) & (moved % step == 0) & (moved // step < sizes)).all(0)
    return inside, np.where(inside, np.clip(moved // step, 0, np.maximum(sizes - 1, 0)), 0)


def gathered(
    gather: hlo.Instruction,
    operand: hlo.Instruction,
    starts: hlo.Instruction,
    index: np.ndarray,
    values: "Values",
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return, for each lane, the index of the operand's element that a gather reads.

    Also return a list of indices at which the gather reads the array `starts`, one for each operand
    axis that has a start index.
    """
    offset = numbers(gather.rest, "offset_dims")
    collapsed = numbers(gather.rest, "collapsed_slice_dims")
    mapped = numbers(gather.rest, "start_index_map")
    sizes, slices = dims(operand.shape), numbers(gather.rest, "slice_sizes")
    batch = index[[axis for axis in range(len(index)) if axis not in offset]]
    vector = re.search(r"index_vector_dim=(\d+)", gather.rest)
    axis = int(vector.group(1)) if vector else len(batch)
    result = np.zeros((len(sizes), index.shape[1]), np.int64)
    free = [axis for axis in range(len(sizes)) if axis not in collapsed]
    result[free] = index[list(offset)]
    reads = []
    for number, target in enumerate(mapped):
        implicit = axis == len(dims(starts.shape))
        reads.append(batch if implicit else np.insert(batch, axis, number, axis=0))
        start = values.of(starts.name, reads[-1])
        result[target] += np.clip(start, 0, sizes[target] - slices[target])
    return result, reads


class Values:
    """Evaluator of integer instructions of a fusion.

    Values that the HLO does not determine are replaced by pseudorandom numbers below `RANGE`.
    """

    def __init__(self, fused: hlo.Computation):
        self.fused = fused
        self.known: dict[tuple[str, bytes], np.ndarray] = {}

    def of(self, name: str, index: np.ndarray, depth: int = 0) -> np.ndarray:
        """Return the value of the instruction `name` at each lane's index, int64 (lanes,)."""
        key = name, index.tobytes()
        if key not in self.known:
            found = self._value(self.fused[name], index, depth) if depth < DEPTH else None
            self.known[key] = _drawn(name, index) if found is None else found
        return self.known[key]

    def _value(
        self, instruction: hlo.Instruction, index: np.ndarray, depth: int
    ) -> np.ndarray | None:
        opcode, lanes = instruction.opcode, index.shape[1]
        if opcode == "iota":
            found = re.search(r"iota_dimension=(\d+)", instruction.rest)
            return index[int(found.group(1)) if found else 0]
        if opcode == "constant":
            return _constant(instruction, index, lanes)
        if opcode in ("broadcast", "bitcast", "reshape", "transpose", "slice", "reverse"):
            operand = self.fused[instruction.operands[0]]
            return self.of(operand.name, through(instruction, operand, index), depth + 1)
        if opcode == "concatenate":
            return self._concatenated(instruction, index, depth)
        if opcode == "compare":
            direction = re.search(r"direction=(\w+)", instruction.rest)
            compute = _COMPARISONS[direction.group(1) if direction else "EQ"]
        else:
            compute = _ARITHMETIC.get(opcode)
        if compute is None:
            return None
        inputs = []
        for name in instruction.operands:
            scalar = not dims(self.fused[name].shape)
            inputs.append(self.of(name, index[:0] if scalar else index, depth + 1))
        with np.errstate(all="ignore"):
            return np.asarray(compute(*inputs)).astype(np.int64)

    def _concatenated(
        self, instruction: hlo.Instruction, index: np.ndarray, depth: int
    ) -> np.ndarray:
        (axis,) = numbers(instruction.rest, "dimensions")
        result, start = np.zeros(index.shape[1], np.int64), 0
        for name in instruction.operands:
            width = dims(self.fused[name].shape)[axis]
            along = index[axis] - start
            active = (along >= 0) & (along < width)
            if active.any():
                moved = index.copy()
                moved[axis] = np.clip(along, 0, width - 1)
                result = np.where(active, self.of(name, moved, depth + 1), result)
            start += width
        return result


def _constant(instruction: hlo.Instruction, index: np.ndarray, lanes: int) -> np.ndarray | None:
    text = instruction.rest.split("), ")[0]
    found = [int(number) for number in re.findall(r"(?<![\w.])-?\d+(?![\w.])", text)]
    if not len(index):
        value = {"true": 1, "false": 0}.get(text.strip(), found[0] if found else None)
        return None if value is None else np.full(lanes, value)
    sizes = dims(instruction.shape)
    if len(found) != np.prod(sizes):
        return None  # HLO text abbreviates long tables as {...}, so the values are unknown
    return np.array(found)[linear(_row_major(instruction.shape), index)]


def _drawn(name: str, index: np.ndarray) -> np.ndarray:
    """Return pseudorandom values below `RANGE` that depend only on `name` and the lane's index."""
    state = np.full(index.shape[1], sum(map(ord, name)) % 1009, np.uint64)
    for along in index:
        state = (state ^ along.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        state ^= state >> np.uint64(29)
    return (state % np.uint64(RANGE)).astype(np.int64)


_ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": lambda a, b: np.clip(a, -(2**31), 2**31) * np.clip(b, -(2**31), 2**31),
    "negate": np.negative,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "clamp": lambda low, value, high: np.clip(value, low, np.maximum(low, high)),
    "select": lambda chosen, true, false: np.where(chosen % 2 != 0, true, false),
    "convert": lambda value: value,
    "copy": lambda value: value,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "shift-left": lambda a, b: np.left_shift(a & 0xFFFFFFFF, np.clip(b, 0, 31)),
    "shift-right-logical": lambda a, b: np.right_shift(a & 0xFFFFFFFF, np.clip(b, 0, 31)),
    "shift-right-arithmetic": lambda a, b: np.right_shift(a, np.clip(b, 0, 31)),
}

_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
