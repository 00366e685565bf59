"""Print the flags with which XLA compiles for `make test`.

Tests compile much and compute little, so the flags shorten compilation. LLVM optimises nothing, and
fusions are not compiled through MLIR. Programs are not split into threads, because the test workers
already use all cores. Passes of XLA that only simplify or verify a program are skipped, which saves
a fifth of the remaining time. Two such passes are kept. The elimination of common subexpressions
saves a third of the compilation of large programs, because the time of later passes grows faster
than the program. The algebraic simplifier is needed for correct results: without it, means of
softmaxes over a batch are wrong for many shapes (jax 0.10.2 on CPUs).

XLA ends a process that sets an unknown flag, and the set of flags changes between releases. So
flags that the installed release does not know are left out.
"""

import os
import subprocess
import sys

LEFT_OUT = (
    "conditional-simplifier",
    "constant_folding",
    "hlo-verifier",
    "reshape-mover",
    "simplification",
    "sort-simplifier",
    "tree_reduction_rewriter",
    "tuple-simplifier",
    "while-loop-invariant-code-motion",
    "while-loop-simplifier",
)
QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    f"--xla_disable_hlo_passes={','.join(LEFT_OUT)}",
)


def accepted(*flags: str) -> bool:
    """Return whether JAX starts in a new process with these XLA flags."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": " ".join(flags)}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def known(*flags: str) -> tuple[str, ...]:
    """Return the flags that the installed XLA supports."""
    return flags if accepted(*flags) else tuple(filter(accepted, flags))


if __name__ == "__main__":
    print(*known(*QUICK))
