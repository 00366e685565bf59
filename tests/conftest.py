"""Set-up of all tests: run-time checks of shapes and dtypes, one compilation cache, the CPU.

Runs from a checkout, and from a copy of this folder with an installed wheel.
"""

import functools
import gc
import importlib.util
import inspect
import itertools
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before jax is imported: expected results are for the CPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAXENVS_CACHE"] = "off"  # commands run by tests write nothing into the home folder

import jax
import pytest

# A clean environment around the wheel may lack beartype; the header of the run says so.
SHAPES_CHECKED = importlib.util.find_spec("beartype") is not None
if SHAPES_CHECKED:
    import jaxtyping
    from beartype import BeartypeConf, beartype

    # An int is a valid float (PEP 484); the hook needs the module name of its checker.
    checker = types.ModuleType("checker_of_types")
    checker.check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # type: ignore[attr-defined]
    sys.modules[checker.__name__] = checker
    jaxtyped = jaxtyping.jaxtyped

    def at_first_call(decorate: Callable[[Any], Any], function: Any) -> Any:
        """Return a function that is decorated at its first call: most are never called."""
        decorated = functools.cache(lambda: decorate(function))

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if jaxtyping.config.jaxtyping_disable:
                return function(*args, **kwargs)
            return decorated()(*args, **kwargs)

        return call

    def outermost(*args: Any, **options: Any) -> Callable[[Any], Any]:
        """Apply `jaxtyped`, except to nested functions, which would be decorated in each call."""
        decorate = jaxtyped(*args, **options)

        def chosen(it: Any) -> Any:
            if "<locals>" in getattr(it, "__qualname__", ""):
                return it
            return at_first_call(decorate, it) if inspect.isfunction(it) else decorate(it)

        return chosen

    jaxtyping.jaxtyped = outermost  # decorator that the hook adds to each function and class
    # Before jaxenvs is imported: modules loaded earlier would stay unchecked.
    jaxtyping.install_import_hook("jaxenvs", "checker_of_types.check")

import jaxenvs  # noqa: E402
from jaxenvs import testing  # noqa: E402

# Memory mappings of a process above which its compiled programs are dropped. Each program has
# several, and Linux allows 65,530.
MOST_MAPS = 45_000
TESTS_BETWEEN = 10  # tests between two counts of the mappings; a test adds at most a thousand
# Thresholds of garbage collection. With Python's defaults it scans everything that JAX has traced,
# and takes a tenth of the tests' time.
GARBAGE = (100_000, 20, 50)
TESTS_DONE = pytest.StashKey[Iterator[int]]()
# The slowest files start first, so that workers finish together; sorted by core-seconds.
LONGEST = (
    "test_ray.py",
    "test_full_differential.py",
    "test_full_quirks.py",
    "test_full_env.py",
    "test_train.py",
    "test_value_units.py",
    "test_fixed_supports.py",
    "test_muzero.py",
    "test_gpu_equals_cpu.py",
    "test_stock.py",
    "test_actor_critic.py",
    "test_dyna.py",
    "test_sweep.py",
    "test_rl2.py",
    "test_search.py",
    "test_craft_differential.py",
    "test_value_learners.py",
    "test_faults.py",
    "test_devices.py",
    "test_masks.py",
    "test_golden.py",
    "test_contract.py",
    "test_site.py",
    "grid/test_differential.py",
    "test_dqn.py",
    "test_card_apart.py",
    "test_guide.py",
    "test_r2d2.py",
    "test_craft_env.py",
    "test_ppo_rnn.py",
    "test_exploration.py",
    "test_ppo.py",
    "test_floors.py",
    "test_every_puzzle.py",
    "render/test_craft.py",
    "test_replay.py",
    "test_vector.py",
    "test_alphazero.py",
    "test_solve_command.py",
    "test_wrappers.py",
    "test_eager.py",
    "test_proofs.py",
    "test_testing.py",
    "test_rejection.py",
    "test_gymnasium.py",
    "test_davi.py",
    "test_levels.py",
    "test_sokoban.py",
    "test_properties.py",
)


def _cache_folder() -> Path:
    """Return `.cache/jax` of the checkout, or a temporary folder if that is not writable."""
    root = Path(__file__).resolve().parent.parent
    if (root / "pyproject.toml").exists() and os.access(root, os.W_OK):
        return root / ".cache" / "jax"
    return Path(tempfile.gettempdir()) / "jaxenvs-tests-jax-cache"


def pytest_configure(config: pytest.Config) -> None:
    """Make JAX strict, cache its compiled programs, and collect garbage rarely."""
    gc.set_threshold(*GARBAGE)
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_compilation_cache_dir", str(_cache_folder()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests that share compiled programs (`--dist loadgroup`), the slowest first."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_turn)


def _group(item: pytest.Item) -> str:
    """Return the group of a test: its file, or `GROUP`, which files with shared programs set.

    If a test uses the compiled subject of an id, the group is the module of its class, so that the
    contract, golden trace and pictures of an id share compiled programs.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "compiled" in getattr(item, "fixturenames", ()) and "id" in params:
        return jaxenvs.spec(params["id"]).env_class.__module__
    return getattr(item.module, "GROUP", item.nodeid.split("::")[0])


def _turn(item: pytest.Item) -> int:
    file = item.path.as_posix()
    turns = (turn for turn, end in enumerate(LONGEST) if file.endswith(end))
    return next(turns, len(LONGEST))


def pytest_collection_finish() -> None:
    """Exempt permanent objects from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Drop compiled programs before LLVM crashes because the process has too many mappings."""
    done = item.session.stash.setdefault(TESTS_DONE, itertools.count(1))
    maps = Path("/proc/self/maps")
    if (
        next(done) % TESTS_BETWEEN == 0
        and maps.exists()
        and maps.read_bytes().count(b"\n") > MOST_MAPS
    ):
        build.cache_clear()
        jax.clear_caches()
        gc.collect()


def pytest_report_header(config: pytest.Config) -> str:
    """Report the tested package, and whether shapes are checked."""
    shapes = "checked" if SHAPES_CHECKED else "NOT checked (no beartype)"
    where = Path(jaxenvs.__file__).parent
    return f"jaxenvs {jaxenvs.__version__} of {where}, jax {jax.__version__}, shapes {shapes}"


@functools.cache
def build(id: str) -> testing.Subject:
    """Return an environment with its functions compiled once for all tests."""
    return testing.Subject.of(jaxenvs.make(id))


@pytest.fixture(scope="session")
def compiled() -> Callable[[str], testing.Subject]:
    """Return `compiled(id)`: the environment with shared jitted functions."""
    return build


@pytest.fixture
def as_a_user():
    """Disable shape checks, so that errors are the library's messages, as for users."""
    if SHAPES_CHECKED:
        jaxtyping.config.update("jaxtyping_disable", True)
    yield
    if SHAPES_CHECKED:
        jaxtyping.config.update("jaxtyping_disable", False)
