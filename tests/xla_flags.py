"""Print the XLA flags of `make test`, which make compilation quick.

Tests compile much and compute little. LLVM optimises nothing, fusions skip MLIR, a program is not
split for threads because the workers use all cores, and XLA skips passes that only simplify or
verify a program, which take a fifth of the remaining time. The algebraic simplifier stays: without
it, means of softmaxes over a batch are wrong for many shapes (jax 0.10.2 on CPUs).

XLA ends a process that sets an unknown flag, and flags change between releases. Flags that the
installed XLA does not know are left out.
"""

import os
import subprocess
import sys

LEFT_OUT = (
    "conditional-simplifier",
    "constant_folding",
    "cse",
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
    """Return whether JAX starts with these flags."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": " ".join(flags)}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def known(*flags: str) -> tuple[str, ...]:
    """Return the flags that the installed XLA supports."""
    return flags if accepted(*flags) else tuple(filter(accepted, flags))


if __name__ == "__main__":
    print(*known(*QUICK))
