"""Bounds of a learner's settings, declared as types of their fields: `gamma: Share = 0.99`."""

import functools
import inspect
import math
from typing import Annotated, Any, NamedTuple, get_args


class Bounds(NamedTuple):
    """Numbers that a setting may take."""

    least: float = 0.0
    most: float = math.inf
    open: bool = False  # whether `least` itself is excluded
    infinite: bool = False  # whether infinity is allowed

    def check(self, name: str, value: float) -> None:
        """Raise `ValueError` for a number outside the bounds."""
        if math.isinf(value) and not self.infinite:
            limit = "finite" if value > 0 else f"at least {self.least:g}"
        elif self.open and not self.least < value <= self.most:
            limit = f"above {self.least:g} and at most {self.most:g}"
        elif self.least > -math.inf and not value >= self.least:  # also for NaN
            limit = f"at least {self.least:g}"
        elif value > self.most:
            limit = f"at most {self.most:g}"
        else:
            return
        raise ValueError(f"{name}={value} must be {limit}")


USUAL = Bounds()  # of a number whose type declares none
Count = Annotated[int, Bounds(least=1)]
Share = Annotated[float, Bounds(most=1.0)]
Rate = Annotated[float, Bounds(most=1.0, open=True)]
Signed = Annotated[float, Bounds(least=-math.inf)]
Unlimited = Annotated[float, Bounds(infinite=True)]


@functools.cache
def bounds(kind: type) -> dict[str, Bounds]:
    """Return the declared bounds of a class's fields, by name.

    A subclass that declares a field again without bounds keeps those of its base.
    """
    found = {}
    for base in reversed(kind.__mro__):
        for name, declared in inspect.get_annotations(base).items():
            if given := _declared(declared):
                found[name] = given
    return found


def without_bounds(kind: Any) -> Any:
    """Return the type of a field without its bounds."""
    return get_args(kind)[0] if _declared(kind) else kind


def _declared(kind: Any) -> Bounds | None:
    """The bounds in an annotation; None if it has none."""
    return next((part for part in get_args(kind)[1:] if isinstance(part, Bounds)), None)
