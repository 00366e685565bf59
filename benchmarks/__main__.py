"""Run a benchmark from a checkout, whether installed or not.

    python benchmarks card --minutes 25             # like python -m jaxenvs.benchmarks.card
    python benchmarks resets --ids Grid-DoorKey-8x8-v0

Missing packages that cannot be installed may be in any folder on PYTHONPATH.
"""

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parent.name == "jaxenvs"  # inside the package, not next to it
ROOT = HERE.parent.parent if INSTALLED else HERE.parent
NEEDED = ("jax", "numpy", "jaxtyping")  # by `import jaxenvs`


def prepare() -> None:
    """Make `jaxenvs` and the folders next to it importable from here."""
    sys.path[:1] = [str(ROOT)]  # replaces this folder, whose modules belong to jaxenvs.benchmarks
    extend()


def extend() -> None:
    """Make the folders next to `jaxenvs` importable as parts of it."""
    package = importlib.import_module("jaxenvs")
    if not INSTALLED and str(ROOT) not in package.__path__:
        package.__path__.append(str(ROOT))  # as `package_dir` of setup.py does on installation


def pytest_configure(config: Any) -> None:
    """Hook of pytest (`-p benchmarks.__main__`): worker processes import this checkout."""
    extend()


def main(argv: list[str]) -> int:
    """Run the named benchmark with the other arguments; return the exit code."""
    if not argv or argv[0].startswith("-"):
        print((__doc__ or "").strip())
        return 0 if argv else 2
    try:
        prepare()
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
