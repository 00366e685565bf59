"""Test of `rounded`, which keeps XLA from fusing a product with a following addition.

The tests' XLA flags disable this fusion, so the test runs in a process without these flags.
"""

import os
import subprocess
import sys

CODE = """
import jax, numpy as np
from jaxenvs.core.rounding import rounded

x, y, z = np.random.default_rng(0).random((3, 10_000), np.float32)
for product in (lambda a, b: a * b, lambda a, b: rounded(a * b)):
    print((np.asarray(jax.jit(lambda x, y, z: product(x, y) + z)(x, y, z)) != x * y + z).sum())
"""


def test_a_rounded_product_is_not_fused():
    without = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=without, check=True, capture_output=True, text=True
    )
    plain, kept = map(int, done.stdout.split())
    assert kept == 0
    assert plain == 0 or plain > 100  # 0 if this processor or this release of XLA does not fuse
