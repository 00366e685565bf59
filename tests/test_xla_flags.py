"""Tests that the test suite's XLA flags are not set if the installed XLA does not know them."""

import pytest
import xla_flags


@pytest.mark.full
def test_a_flag_that_xla_does_not_have_is_left_out():
    old = "--xla_force_host_platform_device_count=1"
    assert xla_flags.known("--xla_of_another_release=true", old) == (old,)
