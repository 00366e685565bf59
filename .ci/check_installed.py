"""Check an installed wheel from outside: `check_installed.py core|extras|locked CHECKOUT`."""

import importlib
import importlib.metadata
import importlib.util
import runpy
import sys
from pathlib import Path

INSIDE_ONLY = ("render", "baselines", "benchmarks", "tests")  # not separate import names


def check_core(checkout: Path) -> None:
    """Check that the installed package is imported, and that it has only one import name."""
    import jaxenvs

    for name in dir(jaxenvs):  # parts are imported when they are accessed
        getattr(jaxenvs, name)
    package = Path(jaxenvs.__file__).resolve().parent
    assert not package.is_relative_to(checkout), f"{package} is in the checkout"
    assert (package / "py.typed").is_file(), "py.typed is not installed"
    assert jaxenvs.__version__ == importlib.metadata.version("jaxenvs")
    for name in INSIDE_ONLY:
        assert importlib.util.find_spec(name) is None, f"the wheel installs a top-level {name!r}"
    print(f"jaxenvs {jaxenvs.__version__} from {package}")


def check_extras(checkout: Path) -> None:
    """Check that every module of the other folders can be imported under its installed name."""
    for folder in ("render", "baselines", "benchmarks"):
        sources = sorted((checkout / folder).rglob("*.py"))
        assert sources, f"{folder} has no modules"
        for source in sources:
            parts = source.relative_to(checkout).with_suffix("").parts
            name = ".".join(("jaxenvs", *parts)).removesuffix(".__init__")
            found = Path(str(importlib.import_module(name).__file__)).resolve()
            assert not found.is_relative_to(checkout), f"{found} is in the checkout"
            print(name)


def check_locked(checkout: Path) -> None:
    """Check that the import needs no write access and has no side effects (no backend ...)."""
    site = Path(str(importlib.util.find_spec("jaxenvs").origin)).parent.parent
    try:
        (site / "written").touch()
    except OSError as error:
        print(f"{site} cannot be written to: {error.strerror}")
    else:
        (site / "written").unlink()
        print(f"{site} CAN be written to here: only attempts to write are detected")
    runpy.run_path(str(checkout / "tests" / "import_check.py"))


if __name__ == "__main__":
    checks = {"core": check_core, "extras": check_extras, "locked": check_locked}
    checks[sys.argv[1]](Path(sys.argv[2]).resolve())
