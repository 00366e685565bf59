"""Optional dependencies: errors for missing packages, and versions of installed ones."""

import importlib.metadata
import importlib.util
from collections.abc import Iterable

from .typed import installation


class MissingExtraError(ImportError):
    """Raised if packages of an optional extra are missing; the message says how to install them."""

    def __init__(self, packages: Iterable[str], extra: str) -> None:
        """Build the error message from the missing packages and the name of the extra."""
        super().__init__(
            f"this needs {', '.join(packages)}, not installed here: run {installation(extra)}"
        )


def require(packages: Iterable[str], extra: str) -> None:
    """Raise `MissingExtraError` if a package is missing; `extra` names the extra to install."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(missing, extra)


def version(package: str) -> str:
    """Return the version of an installed package, or "" if it is not installed.

    The result is also "" for a package that Python imports from a folder without installation.
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
