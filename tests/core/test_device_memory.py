"""Tests of the memory sizes of machines and devices, which are None where unknown."""

from unittest.mock import Mock

import jax

from jaxenvs.core import memory


def test_a_cpu_has_the_memory_of_the_machine():
    assert memory.device_memory(jax.devices("cpu")[0]) == memory.machine_memory() > 2**28


def test_a_device_reports_its_memory_or_none():
    for stats, known in (({"bytes_limit": 7}, 7), ({}, None), (None, None)):
        device = Mock(spec=jax.Device, platform="gpu")
        device.memory_stats.return_value = stats
        assert memory.device_memory(device) == known


def test_an_operating_system_may_not_report_memory(monkeypatch):
    monkeypatch.delattr("os.sysconf")
    assert memory.machine_memory() is None
