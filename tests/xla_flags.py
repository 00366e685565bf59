"""Print the flags with which XLA compiles for `make test`.

Tests compile much and compute little: LLVM optimises nothing, fusions do not pass through MLIR,
and a program is not split for threads, as the workers use all cores.
XLA ends a process that gives it a flag it does not know, and flags come and go with its releases;
those that the installed one does not know are left out.
"""

import os
import subprocess
import sys

QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)


def accepted(*flags: str) -> bool:
    """Whether JAX starts with flags."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": " ".join(flags)}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def known(*flags: str) -> tuple[str, ...]:
    """The flags that the installed XLA supports."""
    return flags if accepted(*flags) else tuple(filter(accepted, flags))


if __name__ == "__main__":
    print(*known(*QUICK))
