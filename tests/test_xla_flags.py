"""Future releases of XLA may lack some flags; the tests must still start."""

import pytest
import xla_flags


@pytest.mark.full
def test_an_unknown_flag_is_left_out():
    old = "--xla_force_host_platform_device_count=1"
    assert xla_flags.known("--xla_of_another_release=true", old) == (old,)
