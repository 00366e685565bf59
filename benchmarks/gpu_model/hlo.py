"""Count kernels and bytes in XLA's scheduled HLO text.

On a GPU every instruction of a scheduled computation is one kernel launch, except those that only
name data (bitcast, tuple). Bytes are counted by access: a gather or (dynamic) slice reads the
slice, an in-place scatter or dynamic-update-slice writes the update, everything else moves whole
arrays.
"""

import dataclasses
import re
from collections.abc import Iterator

FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
# Suffixes of the second half of an asynchronous pair; only the first half, the start, is counted.
FINISHERS = ("-done", "-update")
# Attribute that names the called computation, by opcode.
CALLS = {"call": "to_apply", "async-start": "calls"}
VIEWS = {"bitcast", "reshape", "copy", "transpose"}  # opcodes that move no data inside a fusion
SLICES = {"gather", "dynamic-slice", "slice"}
ITEM_BITS = {"pred": 8, "s4": 4, "u4": 4, "s2": 2, "u2": 2, "token": 0, "opaque": 0}

_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\) -> .* \{$")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<= ]*)\]")
_TARGETS = re.compile(
    r"\b(?:calls|body|condition|to_apply|true_computation|false_computation)=%?([\w.-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_OP_NAME = re.compile(r'op_name="([^"]*)"')


@dataclasses.dataclass(frozen=True)
class Instruction:
    """Instruction of a computation: one line of the HLO text."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    rest: str  # text of the attributes; a parameter's number; a constant's value
    is_root: bool

    @property
    def bytes(self) -> int:
        """Bytes of the result; of a tuple, the sum over its arrays."""
        return shape_bytes(self.shape)

    @property
    def op_name(self) -> str:
        """Path of name scopes in the traced JAX program; empty if XLA dropped it."""
        found = _OP_NAME.search(self.rest)
        return found.group(1) if found else ""

    def attribute(self, name: str) -> str:
        """Return the computation that an attribute names; empty if there is no such attribute."""
        found = re.search(rf"\b{name}=%?([\w.-]+)", self.rest)
        return found.group(1) if found else ""

    @property
    def branches(self) -> list[str]:
        """Names of the computations between which a conditional chooses."""
        listed = _BRANCHES.search(self.rest)
        if listed:
            return [name.strip().lstrip("%") for name in listed.group(1).split(",")]
        return _TARGETS.findall(self.rest)

    @property
    def trips(self) -> int | None:
        """Number of iterations of a while loop; None if it is known only at run time."""
        found = _TRIPS.search(self.rest)
        return int(found.group(1)) if found else None


Computation = dict[str, Instruction]


@dataclasses.dataclass(frozen=True)
class Module:
    """Parsed HLO module: computations by name, each with its instructions by name."""

    computations: dict[str, Computation]
    entry: str

    def whiles(self, computation: str) -> list[Instruction]:
        """Return the while loops of a computation, without nested ones."""
        return [i for i in self.computations[computation].values() if i.opcode == "while"]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel launch; enclosing loops repeat it `count` times.

    A loop with an unknown number of trips counts as one trip and sets `dynamic`.
    """

    name: str
    opcode: str
    shape: str
    written: int  # bytes that one launch writes
    read: int
    op_names: frozenset[str]  # origins of the fused instructions in the traced program
    count: int = 1
    dynamic: bool = False  # whether an enclosing loop has an unknown number of trips
    within: str = ""  # name of the computation that launches it
    microseconds: float = 0.0  # predicted time of one launch, see `kernel_time`


def parse(text: str) -> Module:
    """Parse the text of a scheduled module (`compiled.as_text()`)."""
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            current = computations.setdefault(header.group(2), {})
            entry = header.group(2) if header.group(1) else entry
        elif line.startswith("}"):
            current = None
        elif current is not None and " = " in line:
            instruction = _instruction(line)
            current[instruction.name] = instruction
    if not entry:
        raise ValueError("not an HLO module: no ENTRY computation")
    return Module(computations, entry)


def shape_bytes(shape: str) -> int:
    """Return the bytes of a shape such as `u8[4096,7,7]{2,1,0}`, or of a tuple of shapes."""
    total = 0
    for kind, dims in _ARRAY.findall(shape):
        bits = ITEM_BITS[kind] if kind in ITEM_BITS else int(re.findall(r"\d+", kind)[0])
        for size in filter(None, dims.replace("<=", "").replace(" ", "").split(",")):
            bits *= int(size)
        total += -(-bits // 8)
    return total


def kernels(module: Module, computation: str) -> Iterator[Kernel]:
    """Yield the launches that one run of a computation makes, nested loops included."""
    scope = module.computations[computation]
    for instruction in scope.values():
        opcode = instruction.opcode
        if opcode in FREE or opcode.endswith(FINISHERS):
            continue
        if opcode == "while":
            yield from _loop(module, computation, instruction)
        elif opcode in CALLS:
            yield from kernels(module, instruction.attribute(CALLS[opcode]))
        elif opcode == "conditional":
            yield from _conditional(module, computation, instruction)
        else:
            yield _kernel(module, computation, instruction)


def _loop(module: Module, within: str, loop: Instruction) -> Iterator[Kernel]:
    """Yield one launch for the loop, then its body's launches, `count` multiplied by the trips.

    If the number of trips is unknown, yield one trip of the body and the condition.
    """
    yield Kernel(loop.name, "while", "", 0, 0, frozenset({loop.op_name}), within=within)
    inside = list(kernels(module, loop.attribute("body")))
    if loop.trips is None:
        inside += kernels(module, loop.attribute("condition"))
    for kernel in inside:
        count = kernel.count * (loop.trips or 1)
        dynamic = kernel.dynamic or loop.trips is None
        yield dataclasses.replace(kernel, count=count, dynamic=dynamic)


def _conditional(module: Module, within: str, choice: Instruction) -> Iterator[Kernel]:
    """Yield one launch for the choice, then the branch with the most launches."""
    origin = frozenset({choice.op_name})
    yield Kernel(choice.name, "conditional", "", 0, 0, origin, within=within)
    branches = [list(kernels(module, name)) for name in choice.branches]
    yield from max(branches, key=lambda branch: sum(kernel.count for kernel in branch))


def _kernel(module: Module, within: str, instruction: Instruction) -> Kernel:
    scope = module.computations[within]
    if instruction.opcode in ("fusion", "fusion-start"):
        fused = module.computations[instruction.attribute("calls")]
        written, read = _fusion_bytes(module, scope, instruction, fused)
        origins = {i.op_name for i in fused.values() if i.opcode not in FREE}
    else:
        written = _written(scope, instruction)
        read = sum(
            _read(scope[name], instruction, position)
            for position, name in enumerate(instruction.operands)
        )
        origins = {instruction.op_name}
    return Kernel(
        instruction.name,
        instruction.opcode,
        instruction.shape,
        written,
        read,
        frozenset(origins - {""}),
        within=within,
    )


def _fusion_bytes(
    module: Module, scope: Computation, fusion: Instruction, fused: Computation
) -> tuple[int, int]:
    root = next(i for i in fused.values() if i.is_root)
    written = sum(_written(fused, result) for result in _results(fused, root))
    read = sum(
        _parameter_read(module, fused, scope[name], position)
        for position, name in enumerate(fusion.operands)
    )
    return written, read


def _results(fused: Computation, root: Instruction) -> Iterator[Instruction]:
    """Yield the results of a fusion: its root or, if that is a tuple, the tuple's members.

    A result that is updated in place is replaced by its update.
    """
    if root.opcode == "tuple":
        for name in root.operands:
            yield from _results(fused, fused[name])
        return
    update = _behind_bitcasts(fused, root)
    in_place = (
        update.opcode in ("dynamic-update-slice", "scatter")
        and _behind_bitcasts(fused, fused[update.operands[0]]).opcode == "parameter"
    )
    if in_place:
        yield update
    else:
        yield dataclasses.replace(root, opcode="whole")


def _behind_bitcasts(fused: Computation, instruction: Instruction) -> Instruction:
    while instruction.opcode == "bitcast":
        instruction = fused[instruction.operands[0]]
    return instruction


def _written(scope: Computation, instruction: Instruction) -> int:
    """Return the bytes that an instruction stores.

    For an in-place update these are the bytes of the update, else of the whole result.
    """
    if instruction.opcode == "dynamic-update-slice":
        return scope[instruction.operands[1]].bytes
    if instruction.opcode == "scatter":
        arrays = (len(instruction.operands) - 1) // 2
        return sum(scope[name].bytes for name in instruction.operands[-arrays:])
    if instruction.opcode == "copy-start":  # its shape also contains the operand and a context
        return scope[instruction.operands[0]].bytes
    return instruction.bytes


def _is_partial(user: Instruction, position: int) -> bool:
    """Return whether `user` accesses only a part of its operand at `position`."""
    if user.opcode == "scatter":
        return position < (len(user.operands) - 1) // 2
    return position == 0 and user.opcode in (*SLICES, "dynamic-update-slice")


def _read(operand: Instruction, user: Instruction, position: int) -> int:
    """Return the bytes that `user` loads from an operand: 0 for an array updated in place."""
    if not _is_partial(user, position):
        return operand.bytes
    return user.bytes if user.opcode in SLICES else 0


def _parameter_read(module: Module, fused: Computation, operand: Instruction, position: int) -> int:
    """Return the bytes that a fusion loads from its operand at `position`.

    If the fusion only slices the operand, these are the slices' bytes, else the whole array's.
    """
    names = {i.name for i in fused.values() if i.opcode == "parameter" and i.rest == str(position)}
    total = 0
    for user in fused.values():  # iterated in order of definition, so views come before their users
        places = [place for place, name in enumerate(user.operands) if name in names]
        if places and user.opcode in VIEWS:
            names.add(user.name)
            continue
        for place in places:
            if user.opcode == "fusion":
                inner = module.computations[user.attribute("calls")]
                total += _parameter_read(module, inner, operand, place)
            elif _is_partial(user, place):
                total += _read(operand, user, place)
            else:
                return operand.bytes
    return total


def _instruction(line: str) -> Instruction:
    line = re.sub(r"/\*.*?\*/", "", line.strip())
    is_root = line.startswith("ROOT ")
    name, right = line.removeprefix("ROOT ").split(" = ", 1)
    end = _closing(right, 0) + 1 if right.startswith("(") else right.index(" ")
    shape, right = right[:end], right[end:].lstrip()
    start = right.index("(")
    close = _closing(right, start)
    inside = right[start + 1 : close]
    opcode = right[:start]
    literal = opcode in ("parameter", "constant")
    operands = () if literal else tuple(re.findall(r"%([\w.-]+)", inside))
    rest = inside if literal else right[close + 1 :]
    return Instruction(name.strip().lstrip("%"), shape, opcode, operands, rest, is_root)


def _closing(text: str, start: int) -> int:
    """Return the index of the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index
    raise ValueError(f"unbalanced parentheses in {text[:80]!r}")
