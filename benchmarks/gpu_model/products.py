"""Arithmetic of matrix products, which limits the time of large ones.

The other features of a kernel describe loads, stores and scalar instructions. A matrix product runs
on tensor cores instead. A few thousand products per loaded number need more time than the bytes.
"""

import math

from . import hlo, indices

# Operations per microsecond of an H200's tensor cores: 60 % of the maximum in its data sheet, an
# assumption. XLA computes products of float32 numbers with the tensor cores' 19-bit numbers.
RATES = {"bf16": 0.6 * 989e6, "f16": 0.6 * 989e6, "f32": 0.6 * 494e6}
USUAL = RATES["f32"]


def products(
    module: hlo.Module, scope: hlo.Computation, instruction: hlo.Instruction
) -> list[tuple[hlo.Computation, hlo.Instruction]]:
    """Return the matrix products that a kernel computes, each with its computation."""
    if instruction.opcode == "dot":
        return [(scope, instruction)]
    if instruction.opcode not in ("fusion", "fusion-start"):
        return []
    fused = module.computations[instruction.attribute("calls")]
    return [found for inner in fused.values() for found in products(module, fused, inner)]


def operations(scope: hlo.Computation, product: hlo.Instruction) -> int:
    """Return the number of multiplications and additions of a matrix product."""
    shape = indices.dims(scope[product.operands[0]].shape)
    contracted = indices.numbers(product.rest, "lhs_contracting_dims")
    return 2 * indices.size(product.shape) * math.prod(shape[axis] for axis in contracted)


def microseconds(module: hlo.Module, scope: hlo.Computation, instruction: hlo.Instruction) -> float:
    """Return the least time that the matrix products of a kernel need; 0 if it has none."""
    total = 0.0
    for within, product in products(module, scope, instruction):
        kind = within[product.operands[0]].shape.partition("[")[0]
        total += operations(within, product) / RATES.get(kind, USUAL)
    return total
