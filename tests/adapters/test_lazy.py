"""Tests that adapters load their packages at first use, and that errors name missing packages."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from worlds import FAMILIES

from jaxenvs import adapters

LAZY = """
import sys
import jaxenvs
from jaxenvs import adapters
from jaxenvs.core.typed import installation
assert dir(adapters) == sorted(adapters.__all__), dir(adapters)
loaded = PACKAGES & set(sys.modules)
assert not loaded, loaded
adapters.to_gymnasium
assert "gymnasium" in sys.modules and "dm_env" not in sys.modules
for name in PACKAGES:
    sys.modules[name] = None  # as if it were not installed
for name, extra in EXTRAS.items():
    for module in [name for name in sys.modules if name.startswith("jaxenvs.adapters.")]:
        del sys.modules[module]
    try:
        getattr(adapters, name)
    except ImportError as error:
        assert installation(extra) in str(error), error
        assert f"jaxenvs.adapters.{name} needs " in str(error), error
    else:
        raise SystemExit(f"{name} needs nothing")
"""
NO_BACKEND = """
import jaxenvs
from jax._src import xla_bridge
from jaxenvs.adapters import to_gymnasium, to_gymnasium_vec
for id in IDS:
    env = jaxenvs.make(id)
    for params in (None, env.default_params.replace(max_steps_in_episode=9)):
        to_gymnasium(env, params=params, render_mode="rgb_array")
        to_gymnasium_vec(env, 2, params=params)
    assert not xla_bridge._backends, id
"""
PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
EXTRAS = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]


def test_packages_load_at_first_use_and_errors_name_the_extra():
    assert adapters.__all__ == sorted(adapters._HOMES)
    needs = {name: adapters._PACKAGES[home] for name, home in adapters._HOMES.items()}
    for package, extra in needs.values():
        assert any(line.replace("-", "_").startswith(package) for line in EXTRAS[extra])
    extras = {name: extra for name, (_, extra) in needs.items()}
    packages = {package for package, _ in needs.values()}
    code = f"EXTRAS, PACKAGES = {extras!r}, {packages!r}\n{LAZY}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_making_an_adapter_for_gymnasium_starts_no_backend():
    """Making an adapter must not start a JAX backend, because the process may fork afterwards.

    Gymnasium's `AsyncVectorEnv` forks, and a fork after the start of a backend would hang.
    """
    code = f"IDS = {list(FAMILIES.values())!r}\n{NO_BACKEND}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_other_names_raise():
    with pytest.raises(AttributeError, match="no attribute 'to_gym'"):
        _ = adapters.to_gym  # type: ignore[attr-defined]
