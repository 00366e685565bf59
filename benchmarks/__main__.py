"""Run an instrument from a checkout that need not be installed.

    python benchmarks card --minutes 25             # as python -m jaxenvs.benchmarks.card
    python benchmarks resets --ids Grid-DoorKey-8x8-v0

Packages that are missing and cannot be installed can be put in any folder on PYTHONPATH.
"""

import importlib
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parent.name == "jaxenvs"  # inside the package, not beside it
ROOT = HERE.parent.parent if INSTALLED else HERE.parent
NEEDED = ("jax", "numpy", "jaxtyping")  # by `import jaxenvs`


def prepare() -> None:
    """Let `jaxenvs` and the folders beside it be imported from here."""
    sys.path[:1] = [str(ROOT)]  # in place of this folder, whose modules are jaxenvs.benchmarks'
    extend()


def extend() -> None:
    """Let the folders beside `jaxenvs` be imported as parts of it."""
    package = importlib.import_module("jaxenvs")
    if not INSTALLED and str(ROOT) not in package.__path__:
        package.__path__.append(str(ROOT))  # what `package-dir` of pyproject.toml does elsewhere


def main(argv: list[str]) -> int:
    """Run the instrument that is named first with the other arguments; return the exit code."""
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
