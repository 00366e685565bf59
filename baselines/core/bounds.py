"""Bounds of a learner's settings, declared in the types of their fields.

Every numeric field of a settings class declares bounds: `gamma: Share = 0.99`, for example, accepts
numbers from 0 to 1. The method `check` of the class raises an error if a setting is outside its
bounds, or if several settings contradict each other.
"""

import functools
import inspect
import math
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from jaxtyping import Array

T = TypeVar("T")


class Bounds(NamedTuple):
    """Range of the numbers that a setting accepts, from `least` to `most`.

    Both limits are included, unless `open` or `below` is True. If the setting is a tuple, each of
    its numbers must be in the range.
    """

    least: float = 0.0
    most: float = math.inf
    open: bool = False  # whether `least` itself is excluded
    below: bool = False  # whether `most` itself is excluded
    infinite: bool = False  # whether infinity is accepted
    hint: str = ""  # end of the error message, such as values to try

    def check(self, name: str, value: float | tuple[float, ...]) -> None:
        """Raise `ValueError` if `value`, of the setting `name`, is outside the bounds."""
        each = "each be " if isinstance(value, tuple) else "be "
        for number in value if isinstance(value, tuple) else (value,):
            if limit := self._violated(number):
                hint = f"; {self.hint}" if self.hint else ""
                raise ValueError(f"{name}={value} must {each}{limit}{hint}")

    def _violated(self, value: float) -> str:
        """Return the limit that `value` violates, such as "at least 1"; "" if it violates none."""
        upper = f"{'below' if self.below else 'at most'} {self.most:g}"
        lower = f"{'above' if self.open else 'at least'} {self.least:g}"
        if math.isinf(value) and value >= self.least and not self.infinite:
            return "finite"
        # a comparison with NaN is False, so `not value > least` treats NaN as too low
        too_low = not value > self.least if self.open else not value >= self.least
        too_high = value >= self.most if self.below else value > self.most
        if self.open and (too_low or too_high) and self.most < math.inf:
            return f"{lower} and {upper}"
        if too_low and self.least > -math.inf:
            return lower
        return upper if too_high else ""


Count = Annotated[int, Bounds(least=1)]
NonNegativeInt = Annotated[int, Bounds()]
NonNegative = Annotated[float, Bounds()]
Positive = Annotated[float, Bounds(open=True)]
Share = Annotated[float, Bounds(most=1.0)]
Rate = Annotated[float, Bounds(most=1.0, open=True)]
Widths = Annotated[tuple[int, ...], Bounds(least=1, hint="widths of layers, such as 64 64")]
Signed = Annotated[float, Bounds(least=-math.inf)]
Unlimited = Annotated[float, Bounds(infinite=True)]
# Type of a setting that `--sweep` can vary. In a sweep the setting is a traced array, an input of
# the compiled program, so one program trains with all values.
Swept = T | Array


def is_swept(kind: Any) -> bool:
    """Return whether the annotation of a field is `Swept`."""
    return Array in get_args(kind)


@functools.cache
def bounds(kind: type) -> dict[str, Bounds]:
    """Return the bounds of a settings class's fields, by field name, as annotations declare them.

    If a subclass declares a field again without bounds, the field keeps the base class's bounds.
    """
    found = {}
    for base in reversed(kind.__mro__):
        for name, declared in inspect.get_annotations(base).items():
            if given := _declared(declared):
                found[name] = given
    return found


def python_type(kind: Any) -> Any:
    """Return the Python type in a field's annotation, such as `float` for `Swept[Share]`."""
    if type(None) in get_args(kind):
        return python_type(get_args(kind)[0]) | None
    first = get_args(kind)[0] if is_swept(kind) else kind
    return get_args(first)[0] if _declared(first) else first


def _declared(kind: Any) -> Bounds | None:
    """Return the bounds that an annotation declares, or None."""
    parts = [each for part in get_args(kind) for each in (part, *get_args(part))]
    return next((part for part in parts if isinstance(part, Bounds)), None)
