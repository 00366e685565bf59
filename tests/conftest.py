"""Set-up of all tests: run on the CPU, check shapes and dtypes at run time, cache compilation.

The tests run in a checkout, and also from a copy of this folder that tests an installed wheel.
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
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Set this before JAX is imported. The expected results in the tests hold for the CPU.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAXENVS_CACHE"] = "off"  # commands in tests must not write to the home folder

import jax
import pytest

# Check shapes only if beartype is installed. It may be missing when an installed wheel is tested.
# The header of the test run says whether shapes are checked.
SHAPES_CHECKED = importlib.util.find_spec("beartype") is not None
if SHAPES_CHECKED:
    import jaxtyping
    from beartype import BeartypeConf, beartype

    # Type checker that accepts an int where a float is annotated (PEP 484). jaxtyping's import hook
    # needs a checker's name, "module.function", so create a module for this checker.
    checker = types.ModuleType("checker_of_types")
    checker.check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # type: ignore[attr-defined]
    sys.modules[checker.__name__] = checker
    jaxtyped = jaxtyping.jaxtyped

    def at_first_call(decorate: Callable[[Any], Any], function: Any) -> Any:
        """Return a function that decorates `function` at the first call, and then calls the result.

        Decorating all functions at once would take long, and most of them are never called.
        """
        decorated = functools.cache(lambda: decorate(function))

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if jaxtyping.config.jaxtyping_disable:
                return function(*args, **kwargs)
            return decorated()(*args, **kwargs)

        return call

    def outermost(*args: Any, **options: Any) -> Callable[[Any], Any]:
        """Apply jaxtyping's `jaxtyped` to a function, when the function is first called.

        Functions inside functions stay unchecked: each call of the outer function would decorate
        them again.
        """
        decorate = jaxtyped(*args, **options)

        def chosen(it: Any) -> Any:
            if "<locals>" in getattr(it, "__qualname__", ""):
                return it
            return at_first_call(decorate, it) if inspect.isfunction(it) else decorate(it)

        return chosen

    jaxtyping.jaxtyped = outermost  # jaxtyping's import hook adds this decorator
    # Install the hook before jaxenvs is imported: it does not check modules that are already
    # loaded.
    jaxtyping.install_import_hook("jaxenvs", "checker_of_types.check")

from subjects import build  # noqa: E402

import jaxenvs  # noqa: E402
from jaxenvs import testing  # noqa: E402

# Number of memory mappings of a process above which its compiled programs are dropped. Each program
# has several mappings, and Linux allows a process 65,530.
MOST_MAPS = 45_000
# Number of tests between two counts of the mappings; one test adds at most a thousand.
TESTS_BETWEEN = 10
# Thresholds of Python's garbage collector. With the default thresholds, a tenth of the tests' time
# is spent on scans of everything that JAX has traced.
GARBAGE = (100_000, 20, 50)
TESTS_DONE = pytest.StashKey[Iterator[int]]()
# The slowest test files, sorted by core-seconds. Their tests start first, so that all workers
# finish at about the same time.
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
    """Return `.cache/jax` in a writable checkout, otherwise a folder for temporary files."""
    root = Path(__file__).resolve().parent.parent
    if (root / "pyproject.toml").exists() and os.access(root, os.W_OK):
        return root / ".cache" / "jax"
    return Path(tempfile.gettempdir()) / "jaxenvs-tests-jax-cache"


def pytest_configure(config: pytest.Config) -> None:
    """Set strict dtype promotion, cache compiled programs on disk, and collect garbage rarely."""
    gc.set_threshold(*GARBAGE)
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_compilation_cache_dir", str(_cache_folder()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--part`, with which CI runs a part of the tests marked `full`."""
    text = "K/N: of the tests marked full, run only part K (1 to N) of N parts of about equal size"
    parser.addoption("--part", metavar="K/N", type=part_of_tests, default=(1, 1), help=text)


def part_of_tests(text: str) -> tuple[int, int]:
    """Return (K, N) of the text "K/N". Raise ValueError unless 1 <= K <= N."""
    part, parts = (int(number) for number in text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def in_part(nodeid: str, part: tuple[int, int]) -> bool:
    """Return whether the test with this id belongs to part K of N. The id alone decides it."""
    return zlib.crc32(nodeid.encode()) % part[1] == part[0] - 1


@pytest.hookimpl(tryfirst=True)  # run before xdist's hook of this name, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select a part of the tests, group those that share programs, and sort slow files first.

    With the option `--dist loadgroup`, one worker of xdist runs all tests of a group.
    """
    part = config.getoption("--part")
    chosen = [it for it in items if not it.get_closest_marker("full") or in_part(it.nodeid, part)]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_turn)


def _group(item: pytest.Item) -> str:
    """Return the name of a test's group; one worker runs all tests of a group.

    For a test that uses the fixture `compiled` with an id, the group is the module of the id's
    environment class. The worker then compiles each id only once, for its tests of contract, golden
    trace and pictures. For any other test, the group is the variable `GROUP` of the test's file, by
    default the file itself. Files that share compiled programs have the same `GROUP`.
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
    """After collection of the tests, exempt all existing objects from garbage collection.

    These objects live until the end, so scans of them would only take time.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Drop all compiled programs if the process has many memory mappings.

    LLVM crashes when the process reaches Linux's limit on the number of mappings.
    """
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
    """Report which package is tested, and whether its array shapes are checked at run time."""
    shapes = "checked" if SHAPES_CHECKED else "NOT checked (no beartype)"
    where = Path(jaxenvs.__file__).parent
    return f"jaxenvs {jaxenvs.__version__} of {where}, jax {jax.__version__}, shapes {shapes}"


@pytest.fixture(scope="session")
def compiled() -> Callable[[str], testing.Subject]:
    """Return `build`: a function from an id to an environment with shared compiled functions."""
    return build


@pytest.fixture
def as_a_user():
    """Disable the shape checks, so that errors are the library's messages, as users see them."""
    if SHAPES_CHECKED:
        jaxtyping.config.update("jaxtyping_disable", True)
    yield
    if SHAPES_CHECKED:
        jaxtyping.config.update("jaxtyping_disable", False)
