"""Analysis of one fusion (a kernel made of several instructions) of a scheduled HLO module.

Finds the results of the fusion, its emitter and the number of bytes that it stores. An emitter is
the part of XLA's GPU compiler that turns a fusion into a kernel.
"""

import dataclasses
from collections.abc import Iterator

from . import hlo

# Opcodes for which XLA uses a special emitter instead of "loop". XLA calls an instruction that
# determines the emitter a hero.
HEROES = ("scatter", "reduce", "transpose", "concatenate")


@dataclasses.dataclass
class Launch:
    """A kernel launch of a fusion.

    `instruction` is the fusion instruction, which is in the computation `scope`. `kind` is the
    emitter, inferred from the fusion by default.
    """

    module: hlo.Module
    scope: hlo.Computation
    instruction: hlo.Instruction
    kind: str = ""

    def __post_init__(self) -> None:
        """Find the fused computation, its results and the emitter."""
        self.fused = self.module.computations[self.instruction.attribute("calls")]
        root = next(i for i in self.fused.values() if i.is_root)
        self.results = list(self._members(root))
        self.kind = self.kind or self._kind()

    def _members(self, root: hlo.Instruction) -> Iterator[hlo.Instruction]:
        if root.opcode == "tuple":
            for name in root.operands:
                yield from self._members(self.fused[name])
        else:
            yield root

    def _kind(self) -> str:
        if "kind=kLoop" in self.instruction.rest:
            return "loop"
        opcodes = {instruction.opcode for instruction in self.fused.values()}
        present = [hero for hero in HEROES if hero in opcodes]
        named = [hero for hero in present if hero in self.instruction.name]
        return next(iter(named or present), "loop")

    def heroes(self, opcode: str) -> list[hlo.Instruction]:
        """Return the instructions with this opcode that are closest to the results.

        The search starts at the results and follows the operands of each instruction. It does not
        search the operands of an instruction that has this opcode.
        """
        found, seen = [], set()
        pending = [result.name for result in self.results]
        while pending:
            instruction = self.fused[pending.pop()]
            if instruction.name in seen:
                continue
            seen.add(instruction.name)
            if instruction.opcode == opcode:
                found.append(instruction)
            else:
                pending += instruction.operands
        return found

    def source(self, instruction: hlo.Instruction) -> hlo.Instruction:
        """Return the instruction that computes the value of `instruction`.

        Bitcasts and reshapes are skipped, because they only view the value of their operand.
        """
        while instruction.opcode in ("bitcast", "reshape"):
            instruction = self.fused[instruction.operands[0]]
        return instruction

    def stored(self, result: hlo.Instruction) -> hlo.Instruction:
        """Return the instruction whose value the kernel stores for a result of the fusion.

        If the fusion updates a slice of an operand in place, the kernel stores only the update.
        Otherwise it stores `result` itself.
        """
        found = self.source(result)
        if found.opcode == "dynamic-update-slice":
            buffer = self.source(self.fused[found.operands[0]])
            if buffer.opcode == "parameter":
                return self.fused[found.operands[1]]
        return result

    def written(self) -> float:
        """Return the number of bytes that the fusion stores, summed over its results."""
        total = 0
        for result in self.results:
            found = self.source(result)
            if found.opcode == "scatter":
                updates = found.operands[-((len(found.operands) - 1) // 2) :]
                total += sum(self.fused[name].bytes for name in updates)
            else:
                total += self.stored(result).bytes
        return total

    def depth(self) -> int:
        """Return the length of the longest chain of loads, each dependent on the previous load."""
        depth: dict[str, int] = {}
        for i in self.fused.values():
            below = max((depth[name] for name in i.operands), default=0)
            if i.opcode == "gather":
                below = max(depth[i.operands[0]], depth[i.operands[1]] + 1)
            depth[i.name] = max(below, int(i.opcode == "parameter"))
        return max(depth.values(), default=0)
