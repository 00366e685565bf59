"""The error and the warning about the text of a level."""

import warnings


class LevelError(ValueError):
    """Raised for a text that is not a valid level; the message gives the fault, line and column."""

    def __init__(self, message: str, line: int = 1, column: int = 1, file: str = "") -> None:
        """Build the error from a sentence, and the line and column of the fault, counted from 1.

        file: path of the file with the text; "" if there is none.
        """
        place = f"line {line}, column {column}"
        super().__init__(f"{file}: {place}: {message}" if file else f"{place}: {message}")
        self.message, self.line, self.column, self.file = message, line, column, file

    def __reduce__(self) -> tuple[type, tuple[str, int, int, str]]:
        """Return the constructor and its arguments, with which `pickle` copies the error."""
        return type(self), (self.message, self.line, self.column, self.file)


class LevelWarning(UserWarning):
    """Warning about an ambiguous or unusual level; `strict=True` raises `LevelError` instead."""


def warn(message: str, line: int, column: int, *, strict: bool) -> None:
    """Warn about the text of a level; raise `LevelError` instead if `strict`."""
    error = LevelError(message, line, column)
    if strict:
        raise error
    warnings.warn(str(error), LevelWarning, stacklevel=2)
