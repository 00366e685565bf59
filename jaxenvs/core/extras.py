"""Optional dependencies: missing packages and installed versions."""

import importlib.metadata
import importlib.util
from collections.abc import Iterable

from .typed import installation


class MissingExtraError(ImportError):
    """Packages of an extra are missing; the message gives the command that installs them."""

    def __init__(self, packages: Iterable[str], extra: str) -> None:
        """Take the missing packages and the extra that installs them."""
        super().__init__(
            f"this needs {', '.join(packages)}, not installed here: run {installation(extra)}"
        )


def require(packages: Iterable[str], extra: str) -> None:
    """Raise `MissingExtraError` if any of the packages is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(missing, extra)


def version(package: str) -> str:
    """Return the version of a package; "" if it is not installed (it may still be on the path)."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
