"""Prediction of the time that a kernel takes on an H200, from its HLO and without a GPU.

The predicted time is a fixed minimum (`floor`) plus a smooth maximum of six terms: instruction
issue, cache lookups, stores, memory, latency and the start of thread blocks. The more warps a
multiprocessor has, the more these activities overlap; with few warps, the terms add up. The module
`features` counts the quantities in the terms. `kernel_model` fitted the coefficients to the kernels
measured in `results/kernel_times.json`.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import hlo, products
from .features import Features, features

SCHEDULERS = 132 * 4  # number of warp schedulers of an H200; each issues an instruction per cycle
L2 = 40e6  # size in bytes up to which a launch's arrays mostly stay in the L2 cache
# Opcodes that launch only a copy to the host or, in a CUDA graph, nothing. Their predicted time is
# the minimum `Coefficients.floor`.
WAITS = ("while", "conditional")


class Coefficients(NamedTuple):
    """Coefficients of the time model, in microseconds unless the comment gives another unit.

    The defaults are the result of `kernel_model --fit`.

    For comparison, one issue slot on 528 schedulers at 1.755 GHz takes 1.08e-6 us.
    """

    floor: float = 1.039  # minimum time of a kernel launch, us
    # Costs in us of one event, such as an executed instruction. A cost is multiplied by the number
    # of events in all warps of the launch.
    instruction: float = 1.037e-06  # cost of an issue slot (one machine instruction), us
    # Extra cost of an issue slot of an expensive operation (`Features.special`), us.
    special: float = 2.642e-07
    # Extra cost of an issue slot in the second half of a transposition (`Features.epilogue`), us.
    epilogue: float = 8.677e-07
    load: float = 1.227e-06  # cost of a load instruction, us
    store: float = 2.196e-06  # cost of a store instruction, us
    shuffle: float = 1.224e-06  # cost of a warp shuffle or an access to shared memory, us
    warp: float = 3.033e-06  # cost of starting and ending a warp, us
    # Cost of starting a thread block, us; the GPU starts about one per cycle.
    block: float = 0.0005808
    line: float = 1.88e-06  # cost of looking up a 128-byte cache line in the L1 cache, us
    fetch: float = 4.213e-06  # cost of reading a 32-byte sector from the L2 cache, us
    # Extra cost of reading a sector if the launch's arrays do not fit into the L2 cache, us.
    far: float = 3.445e-06
    sector: float = 3.788e-06  # cost of storing a 32-byte sector, us
    near_byte: float = 1.584e-07  # cost of reading or writing a byte, us
    far_byte: float = 1.251e-07  # extra cost of each byte that exceeds the size of the L2 cache, us
    # Latencies in one warp, followed by parameters of how well other warps hide these latencies.
    step: float = 0.00107  # latency of an issue slot, us
    wait: float = 0.01691  # latency of a load, us
    chain: float = 0.09133  # latency of a load that needs the value of another load, us
    turn: float = 0.02503  # latency of branching to one operand of a concatenation, us
    # Number of warps that a scheduler holds at once. While one warp waits, the other warps run.
    resident: float = 7.246
    # The smooth maximum of the terms is a p-norm. With few warps its exponent is 1, so the terms
    # are added. With many warps the exponent approaches 1 + `overlap`.
    overlap: float = 4.163
    crowd: float = 23.91  # number of warps per scheduler at which the exponent is 1 + `overlap` / 2
    # For each emitter (part of XLA that generates kernels), a factor that multiplies two terms of
    # the model: issue and latency.
    reduce: float = 0.814
    transpose: float = 0.7686
    scatter: float = 0.7028
    concatenate: float = 0.9406


FITTED = Coefficients()


def microseconds(seen: Mapping[str, Any], fitted: Coefficients = FITTED) -> np.ndarray:
    """Return the predicted time of each launch in microseconds.

    seen: dict of features, see `Features`; each is an array over launches.
    """
    c, factor = fitted, factors(seen["kind"], fitted)
    warps = np.maximum(seen["warps"], 1.0)
    moved = seen["read"] + seen["written"]
    issue = factor * (
        c.instruction * seen["instructions"]
        + c.special * seen["special"]
        + c.epilogue * seen["epilogue"]
        + c.load * seen["loads"]
        + c.store * seen["stores"]
        + c.shuffle * seen["shuffles"]
        + c.warp * warps
    )
    caches = c.line * seen["lines"] + seen["fetched"] * (c.fetch + c.far * (seen["read"] > L2))
    memory = c.near_byte * moved + c.far_byte * np.maximum(moved - L2, 0.0)
    one_warp = (
        c.step * seen["instructions"] + c.wait * seen["loads"] + c.turn * seen["branches"]
    ) / warps + c.chain * seen["depth"]
    latency = factor * one_warp * np.maximum(warps / (SCHEDULERS * c.resident), 1.0)
    terms = [issue, caches, c.sector * seen["store_sectors"], memory, latency]
    terms.append(c.block * seen["blocks"])
    crowd = warps / SCHEDULERS
    power = 1.0 + c.overlap * crowd / (crowd + c.crowd)
    largest = np.maximum.reduce(terms) + 1e-9
    return c.floor + largest * sum((term / largest) ** power for term in terms) ** (1 / power)


def factors(kinds: Sequence[str] | np.ndarray, fitted: Coefficients) -> np.ndarray:
    """Return the fitted factor of each launch's emitter, or 1 if the emitter has no factor.

    An emitter is the part of XLA's compiler that generates a kernel, such as `reduce`.
    """
    return np.array([getattr(fitted, str(kind), 1.0) for kind in kinds])


def columns(rows: Iterable[Features]) -> dict[str, np.ndarray]:
    """Return the features of several kernel launches: field name -> array (launches,)."""
    values = zip(*rows, strict=True)
    return {name: np.array(each) for name, each in zip(Features._fields, values, strict=True)}


def timed(module: hlo.Module, kernels: Iterable[hlo.Kernel]) -> list[hlo.Kernel]:
    """Return the kernels with their predicted time in the field `microseconds`.

    A kernel with matrix products takes at least the time of their arithmetic, see `products`.
    """
    kernels = list(kernels)
    known = {key: _features(module, *key) for key in {(k.within, k.name) for k in kernels}}
    if not known:
        return kernels
    times = dict(zip(known, microseconds(columns(known.values())), strict=True))
    for within, name in known:
        scope = module.computations[within]
        least = products.microseconds(module, scope, scope[name])
        times[within, name] = max(times[within, name], least)
    return [
        dataclasses.replace(kernel, microseconds=float(times[kernel.within, kernel.name]))
        for kernel in kernels
    ]


def _features(module: hlo.Module, within: str, name: str) -> Features:
    scope = module.computations[within]
    instruction = scope[name]
    if instruction.opcode in WAITS:
        return Features("memory")
    return features(module, scope, instruction)
