"""Parser of XLA's scheduled HLO text; it also counts the kernels and bytes of a program.

On a GPU every instruction of a scheduled computation is one kernel launch, except instructions that
only name data (bitcast, tuple). The bytes of a kernel are those that it accesses: a gather or
(dynamic) slice reads only the slice, an in-place scatter or dynamic-update-slice writes only the
update, and all other instructions read and write whole arrays.
"""

import dataclasses
import re
from collections.abc import Iterator

# Opcodes that launch no kernel.
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
# Suffixes of opcodes that end an asynchronous operation. These opcodes launch no kernel, because
# the kernel is launched by the opcode that starts the operation.
FINISHERS = ("-done", "-update")
# Opcode that only calls a computation -> attribute with the name of this computation.
CALLS = {"call": "to_apply", "async-start": "calls"}
# Opcodes that move no data inside a fusion. They only change the index at which an operand is read.
VIEWS = {"bitcast", "reshape", "copy", "transpose"}
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
    """One instruction of a computation, parsed from a line of the HLO text."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    # Text of the attributes; for a parameter its index, for a constant its value.
    rest: str
    is_root: bool  # whether the value of the instruction is the result of the computation

    @property
    def bytes(self) -> int:
        """Size of the result in bytes; for a tuple, the sum over its arrays."""
        return shape_bytes(self.shape)

    @property
    def op_name(self) -> str:
        """Path of the JAX name scopes in which the instruction was traced; "" if it is missing."""
        found = _OP_NAME.search(self.rest)
        return found.group(1) if found else ""

    def attribute(self, name: str) -> str:
        """Return the name of the computation that the attribute `name` (such as `body`) refers to.

        Returns "" if the instruction lacks this attribute.
        """
        found = re.search(rf"\b{name}=%?([\w.-]+)", self.rest)
        return found.group(1) if found else ""

    @property
    def branches(self) -> list[str]:
        """Names of the branch computations of a conditional, which runs one of them."""
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
    """Parsed HLO module: a dict of computations by name.

    A computation is a dict of instructions by name.
    """

    computations: dict[str, Computation]
    entry: str

    def whiles(self, computation: str) -> list[Instruction]:
        """Return the while loops of a computation, but not the loops inside them."""
        return [i for i in self.computations[computation].values() if i.opcode == "while"]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel of a program, and the number of times that the program launches it.

    If an enclosing loop's number of iterations is unknown, `count` assumes one iteration, and
    `dynamic` is True.
    """

    name: str
    opcode: str
    shape: str
    written: int  # bytes that one launch writes
    read: int  # bytes that one launch reads
    op_names: frozenset[str]  # `op_name` of all instructions that are fused into the kernel
    count: int = 1  # number of launches: product of the enclosing loops' iteration counts
    dynamic: bool = False  # whether an enclosing loop has an unknown number of iterations
    within: str = ""  # name of the computation that launches the kernel
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
    """Return the size in bytes of a shape such as `u8[4096,7,7]{2,1,0}`, or of a tuple."""
    total = 0
    for kind, dims in _ARRAY.findall(shape):
        bits = ITEM_BITS[kind] if kind in ITEM_BITS else int(re.findall(r"\d+", kind)[0])
        for size in filter(None, dims.replace("<=", "").replace(" ", "").split(",")):
            bits *= int(size)
        total += -(-bits // 8)
    return total


def kernels(module: Module, computation: str) -> Iterator[Kernel]:
    """Yield the kernels that one run of a computation launches, including those in loops."""
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
    """Yield one launch for the loop itself, then the kernels of its body.

    Each kernel's number of launches is multiplied by the number of iterations. If that number is
    unknown, one iteration is counted, and the kernels of the loop's condition are yielded too.
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
    """Yield the launch of a conditional instruction, then the kernels of one branch.

    Which branch runs is unknown, so the branch with the most launches is chosen.
    """
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
    """Yield the results of a fusion: its root or, if the root is a tuple, the tuple's elements.

    For an array that is updated in place, yield the updating instruction. Every other result has
    the opcode "whole", because the kernel writes the whole array.
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
    """Return the number of bytes that an instruction stores.

    A scatter or dynamic-update-slice stores only the update; other instructions store the whole
    result.
    """
    if instruction.opcode == "dynamic-update-slice":
        return scope[instruction.operands[1]].bytes
    if instruction.opcode == "scatter":
        arrays = (len(instruction.operands) - 1) // 2
        return sum(scope[name].bytes for name in instruction.operands[-arrays:])
    # The result of "copy-start" is a tuple of the copy, the operand and a context. Count only the
    # copy.
    if instruction.opcode == "copy-start":
        return scope[instruction.operands[0]].bytes
    return instruction.bytes


def _is_partial(user: Instruction, position: int) -> bool:
    """Return whether `user` accesses only a part of its operand number `position`."""
    if user.opcode == "scatter":
        return position < (len(user.operands) - 1) // 2
    return position == 0 and user.opcode in (*SLICES, "dynamic-update-slice")


def _read(operand: Instruction, user: Instruction, position: int) -> int:
    """Return the number of bytes that `user` reads from its operand number `position`.

    The result is 0 for an array that `user` updates in place.
    """
    if not _is_partial(user, position):
        return operand.bytes
    return user.bytes if user.opcode in SLICES else 0


def _parameter_read(module: Module, fused: Computation, operand: Instruction, position: int) -> int:
    """Return the number of bytes that a fusion reads from its operand number `position`.

    If the fusion only slices the operand, it reads only the slices, otherwise the whole array.
    """
    names = {i.name for i in fused.values() if i.opcode == "parameter" and i.rest == str(position)}
    total = 0
    # A value is defined before its users. So when the loop reaches an instruction, `names` already
    # contains all views of the parameter, such as reshapes, that the instruction may use.
    for user in fused.values():
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
    """Return the index in `text` of the parenthesis that closes the parenthesis at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index
    raise ValueError(f"unbalanced parentheses in {text[:80]!r}")
