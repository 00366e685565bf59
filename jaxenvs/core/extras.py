"""Packages that come with an extra: which are missing, and the version of one that is not."""

import importlib.metadata
import importlib.util
from collections.abc import Iterable

from .typed import installation


class MissingExtraError(ImportError):
    """Packages of an extra are missing; the message is a sentence that says how to install them."""

    def __init__(self, packages: Iterable[str], extra: str) -> None:
        """Name the packages, and the extra that brings them."""
        super().__init__(
            f"this needs {', '.join(packages)}, not installed here: run {installation(extra)}"
        )


def require(packages: Iterable[str], extra: str) -> None:
    """Raise `MissingExtraError` for packages that are missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(missing, extra)


def version(package: str) -> str:
    """Return the version of a package, "" if it is not installed (but perhaps on the path)."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
