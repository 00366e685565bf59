"""Tests of the bounds that settings classes declare at their fields."""

import dataclasses
import math

import pytest
from jaxtyping import Array

from jaxenvs.baselines.core.bounds import Bounds, Count, Share, Signed, bounds, python_type
from jaxenvs.baselines.core.settings import Checked
from jaxenvs.baselines.registry import ALGORITHMS


@dataclasses.dataclass(frozen=True)
class Base(Checked):
    """Settings with one field of each kind of bound."""

    total_steps: Count = 1
    chunk: Count = 1
    steps_per_update: Count = 1
    share: Share = 0.5
    signed: Signed = -1.0


@dataclasses.dataclass(frozen=True)
class Derived(Base):
    """Settings that redeclare a field with another default, without repeating its bounds."""

    share: float = 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"total_steps": 0}, "total_steps=0 must be at least 1"),
        ({"share": 1.5}, "share=1.5 must be at most 1"),
        ({"share": -0.5}, "share=-0.5 must be at least 0"),
        ({"share": math.nan}, "share=nan must be at least 0"),
        ({"signed": math.inf}, "signed=inf must be finite"),
        ({"signed": -math.inf}, "signed=-inf must be finite"),
    ],
)
@pytest.mark.parametrize("kind", [Base, Derived])
def test_numbers_outside_their_bounds_are_refused(kind, given, message):
    kind().check()
    with pytest.raises(ValueError, match=message):
        kind(**given).check()


def test_open_and_infinite_bounds():
    Bounds(infinite=True).check("norm", math.inf)
    rate = Bounds(most=1.0, open=True)
    rate.check("rate", 1.0)
    for value in (0.0, 1.1, math.nan):
        with pytest.raises(ValueError, match=f"rate={value} must be above 0 and at most 1"):
            rate.check("rate", value)


def test_bounds_that_exclude_the_largest_number():
    rate = Bounds(most=1.0, below=True, hint="1 drops everything")
    rate.check("rate", 0.0)
    with pytest.raises(ValueError, match=r"rate=1\.0 must be below 1; 1 drops everything"):
        rate.check("rate", 1.0)
    share = Bounds(most=1.0, open=True, below=True)
    for value in (0.0, 1.0):
        with pytest.raises(ValueError, match=f"share={value} must be above 0 and below 1"):
            share.check("share", value)
    with pytest.raises(ValueError, match=r"kappa=0\.0 must be above 0$"):
        Bounds(open=True).check("kappa", 0.0)


def test_bounds_of_a_tuple_apply_to_each_number():
    Bounds(least=1).check("widths", (64, 1))
    Bounds(least=1).check("widths", ())
    with pytest.raises(ValueError, match=r"widths=\(64, 0\) must each be at least 1"):
        Bounds(least=1).check("widths", (64, 0))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_number_declares_its_bounds(name):
    """`check` tests only numbers with declared bounds, so every number must declare them."""
    settings = ALGORITHMS[name].load().Settings
    numbers = {
        field.name
        for field in dataclasses.fields(settings)
        if python_type(field.type) in (int, float) or isinstance(field.default, (int, float))
        if not isinstance(field.default, bool)
    }
    assert not numbers - {*bounds(settings)}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_that_can_be_swept_may_be_arrays(name):
    """A sweep replaces a float by an array, so the field's type must allow both."""
    settings = ALGORITHMS[name].load().Settings
    types = {field.name: field.type for field in dataclasses.fields(settings)}
    for swept in settings.sweepable():
        assert Array in types[swept].__args__
        assert python_type(types[swept]) is float


@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_are_within_their_bounds(name):
    settings = ALGORITHMS[name].load().Settings
    declared = bounds(settings)
    for field in dataclasses.fields(settings):
        if field.name in declared and field.default is not None:  # None: the setting is off
            declared[field.name].check(field.name, field.default)
