"""Run a benchmark from a checkout that is not installed.

    python benchmarks card --minutes 25             # like python -m jaxenvs.benchmarks.card
    python benchmarks resets --ids Grid-DoorKey-8x8-v0

If packages are missing and cannot be installed, put them in any folder on PYTHONPATH.
"""

import importlib
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# True in an installed package, whose `__init__.py` lies next to this folder. False in a checkout,
# where this folder lies in the root, which has no `__init__.py`.
INSTALLED = (HERE.parent / "__init__.py").is_file()
ROOT = HERE.parent.parent if INSTALLED else HERE.parent
NEEDED = ("jax", "numpy", "jaxtyping")  # packages without which `import jaxenvs` fails


def main(argv: list[str]) -> int:
    """Run the benchmark named by `argv[0]`, with the other arguments; return the exit code."""
    if not argv or argv[0].startswith("-"):
        print((__doc__ or "").strip())
        return 0 if argv else 2
    # Replace the first entry of `sys.path`, where Python has put this folder, by the folder that
    # contains `jaxenvs`. The benchmarks are then imported as `jaxenvs.benchmarks.*`.
    sys.path[:1] = [str(ROOT)]
    try:
        importlib.import_module("jaxenvs")
    except ModuleNotFoundError as error:
        print(
            f"jaxenvs needs {', '.join(NEEDED)}, and {error.name} is missing: install it, or put "
            f"a folder with it on PYTHONPATH",
            file=sys.stderr,
        )
        return 2
    sys.argv[:] = [argv[0], *argv[1:]]
    runpy.run_module(f"jaxenvs.benchmarks.{argv[0]}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
