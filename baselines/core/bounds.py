"""Bounds of a learner's settings, declared in the types of fields: `gamma: Share = 0.99`."""

import functools
import inspect
import math
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from jaxtyping import Array

T = TypeVar("T")


class Bounds(NamedTuple):
    """Range of numbers that a setting may have."""

    least: float = 0.0
    most: float = math.inf
    open: bool = False  # whether `least` is excluded
    infinite: bool = False  # whether infinity is allowed

    def check(self, name: str, value: float) -> None:
        """Raise `ValueError` for a number outside the bounds."""
        if math.isinf(value) and value >= self.least and not self.infinite:
            limit = "finite"
        elif self.open and not self.least < value <= self.most:
            limit = f"above {self.least:g} and at most {self.most:g}"
        elif self.least > -math.inf and not value >= self.least:  # also true for NaN
            limit = f"at least {self.least:g}"
        elif value > self.most:
            limit = f"at most {self.most:g}"
        else:
            return
        raise ValueError(f"{name}={value} must be {limit}")


USUAL = Bounds()  # bounds of numbers that declare none
Count = Annotated[int, Bounds(least=1)]
Share = Annotated[float, Bounds(most=1.0)]
Rate = Annotated[float, Bounds(most=1.0, open=True)]
Signed = Annotated[float, Bounds(least=-math.inf)]
Unlimited = Annotated[float, Bounds(infinite=True)]
Swept = T | Array  # number that `--sweep` may replace by an input array of the compiled program


@functools.cache
def bounds(kind: type) -> dict[str, Bounds]:
    """Return the declared bounds of a class's fields, by name.

    A subclass that redeclares a field without bounds inherits its base's bounds.
    """
    found = {}
    for base in reversed(kind.__mro__):
        for name, declared in inspect.get_annotations(base).items():
            if given := _declared(declared):
                found[name] = given
    return found


def python_type(kind: Any) -> Any:
    """Return the Python type of a field: `float` for `Swept[Share]`."""
    first = get_args(kind)[0] if Array in get_args(kind) else kind
    return get_args(first)[0] if _declared(first) else first


def _declared(kind: Any) -> Bounds | None:
    """Return the bounds in an annotation, or None."""
    parts = [each for part in get_args(kind) for each in (part, *get_args(part))]
    return next((part for part in parts if isinstance(part, Bounds)), None)
