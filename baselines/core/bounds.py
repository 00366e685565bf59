"""Bounds of a learner's settings, declared in the types of their fields.

The field `gamma: Share = 0.99`, for example, accepts numbers from 0 to 1.
"""

import functools
import inspect
import math
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from jaxtyping import Array

T = TypeVar("T")


class Bounds(NamedTuple):
    """Range of the numbers that a setting accepts, from `least` to `most`, both included."""

    least: float = 0.0
    most: float = math.inf
    open: bool = False  # whether `least` itself is not accepted
    infinite: bool = False  # whether infinity is accepted

    def check(self, name: str, value: float) -> None:
        """Raise `ValueError` if the setting `name` has a value outside the bounds."""
        if math.isinf(value) and value >= self.least and not self.infinite:
            limit = "finite"
        elif self.open and not self.least < value <= self.most:
            limit = f"above {self.least:g} and at most {self.most:g}"
        elif self.least > -math.inf and not value >= self.least:  # `not >=` is also true for NaN
            limit = f"at least {self.least:g}"
        elif value > self.most:
            limit = f"at most {self.most:g}"
        else:
            return
        raise ValueError(f"{name}={value} must be {limit}")


USUAL = Bounds()  # bounds of fields that declare none: finite numbers of at least 0
Count = Annotated[int, Bounds(least=1)]
Share = Annotated[float, Bounds(most=1.0)]
Rate = Annotated[float, Bounds(most=1.0, open=True)]
Signed = Annotated[float, Bounds(least=-math.inf)]
Unlimited = Annotated[float, Bounds(infinite=True)]
# Type of a setting that `--sweep` accepts. In a sweep, the number is a traced array, an input of
# the compiled program, so that one program trains all values.
Swept = T | Array


@functools.cache
def bounds(kind: type) -> dict[str, Bounds]:
    """Return the declared bounds of a settings class's fields, by field name.

    If a subclass declares a field again without bounds, the bounds of its base class apply.
    """
    found = {}
    for base in reversed(kind.__mro__):
        for name, declared in inspect.get_annotations(base).items():
            if given := _declared(declared):
                found[name] = given
    return found


def python_type(kind: Any) -> Any:
    """Return the Python type in a field's annotation, such as `float` for `Swept[Share]`."""
    first = get_args(kind)[0] if Array in get_args(kind) else kind
    return get_args(first)[0] if _declared(first) else first


def _declared(kind: Any) -> Bounds | None:
    """Return the bounds that an annotation declares, or None."""
    parts = [each for part in get_args(kind) for each in (part, *get_args(part))]
    return next((part for part in parts if isinstance(part, Bounds)), None)
