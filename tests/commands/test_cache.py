"""Tests of the commands' cache of compiled programs: folder, size limit, permissions, failures."""

import os
import resource
import signal
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from jaxenvs import cli
from jaxenvs.commands import cache
from jaxenvs.core import files

HIT, MISS = "/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses"
SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_enable_xla_caches",
)


@pytest.fixture
def jax_alone(monkeypatch):
    """Run a test without JAX's cache, as in a user's process; then restore the tests' settings."""
    before = {name: jax.config.values[name] for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    monkeypatch.delenv("JAXENVS_CACHE", raising=False)
    with warnings.catch_warnings():
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture
def events():
    """Yield a list to which the names of JAX's events are appended as they occur."""
    received: list[str] = []

    def listen(event: str, **more: object) -> None:
        received.append(event)

    jax.monitoring.register_event_listener(listen)
    yield received
    # Releases before jax 0.8 cannot remove the listener. It then goes on appending to `received`,
    # which is harmless, because no test reads this list again.
    getattr(jax.monitoring, "unregister_event_listener", lambda _: None)(listen)


@pytest.fixture
def kept(jax_alone, monkeypatch, tmp_path):
    """Start a cache that stores every program; return its folder."""
    monkeypatch.setattr(cache, "MIN_COMPILE_SECONDS", 0.0)
    monkeypatch.setenv("JAXENVS_CACHE", str(tmp_path / "kept"))
    cache.start()
    return tmp_path / "kept"


def compiled() -> float:
    """Compile a fixed program again, and run it; return its result."""
    return float(jax.jit(lambda x: jnp.sin(x) * 3 + 1)(jnp.float32(0)))


HOME = {"HOME": "/home/a"}


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        (HOME, "/home/a/.cache/jaxenvs"),
        ({**HOME, "XDG_CACHE_HOME": "/var/b"}, "/var/b/jaxenvs"),
        # A path that is not absolute is ignored.
        ({**HOME, "XDG_CACHE_HOME": "b"}, "/home/a/.cache/jaxenvs"),
        ({**HOME, "JAXENVS_CACHE": "/c"}, "/c"),
        ({**HOME, "JAXENVS_CACHE": "~/c"}, "/home/a/c"),
        *[({**HOME, "JAXENVS_CACHE": off}, None) for off in ("off", "OFF", "0", "no")],
    ],
)
def test_the_folder_follows_the_variables(variables, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/a")
    assert files.cache_folder(variables) == (folder and Path(folder))


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def lost(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", lost)
    assert files.cache_folder({}) is None


def test_a_program_is_found_again(kept, events):
    assert compiled() == 1 and MISS in events and HIT not in events
    assert kept.stat().st_mode & 0o777 == 0o700
    assert compiled() == 1 and HIT in events


def test_the_variable_turns_it_off(jax_alone, monkeypatch):
    monkeypatch.setenv("JAXENVS_CACHE", "off")
    cache.start()
    assert jax.config.values["jax_compilation_cache_dir"] is None


def test_jaxs_variable_takes_precedence(jax_alone, monkeypatch, tmp_path):
    monkeypatch.setenv("JAXENVS_CACHE", str(tmp_path / "ours"))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    cache.start()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "theirs")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("where", ["file", "file/below", "open", "/proc/none"])
def test_a_folder_that_is_not_private_is_not_used(where, jax_alone, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)  # refused, because other users could put programs there
    monkeypatch.setenv("JAXENVS_CACHE", str(tmp_path / where))
    cache.start()
    assert jax.config.values["jax_compilation_cache_dir"] is None and compiled() == 1


def test_a_damaged_program_is_recompiled_without_a_warning(kept, events):
    compiled()
    files = list(kept.glob("*-cache"))
    for file in files:
        file.write_bytes(file.read_bytes()[:40])
    assert compiled() == 1 and HIT not in events  # a warning would fail the test
    assert compiled() == 1 and HIT in events


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a file's size is Linux's")
def test_a_full_disk_is_harmless(kept, events):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        assert compiled() == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert not list(kept.glob("*-cache"))  # no truncated program remains in the cache
    assert compiled() == 1 and compiled() == 1 and HIT in events


def test_an_empty_program_is_removed(tmp_path):
    """An empty file is removed: JAX treats the file as missing, but would not overwrite it."""
    half, whole = tmp_path / "half-cache", tmp_path / "whole-cache"
    half.touch()
    whole.write_bytes(b"1")
    cache.trim(tmp_path)
    assert list(tmp_path.iterdir()) == [whole]


def test_a_deleted_working_directory_means_no_cache(monkeypatch, tmp_path):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert files.cache_folder({files.CACHE: "here"}) is None


def test_the_least_recently_used_programs_are_removed_and_other_files_stay(tmp_path):
    for age, name in enumerate(["new-cache", "used-cache", "old-cache", "letter.txt"]):
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (10_000 - age, 5_000 - age))
    os.utime(tmp_path / "used-cache", (20_000, 1))
    cache.trim(tmp_path, 3000)
    assert len(list(tmp_path.iterdir())) == 4
    cache.trim(tmp_path, 2900)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "letter.txt",
        "new-cache",
        "used-cache",
    ]


@pytest.mark.parametrize(
    ("argv", "keeps"),
    [("play X", True), ("train X", True), ("watch --help", False), ("bench", False), ("", False)],
)
def test_commands_that_measure_or_print_help_have_no_cache(argv, keeps, monkeypatch):
    started = []
    monkeypatch.setattr(cache, "start", lambda: started.append(True))
    monkeypatch.setattr(cli.gpu_flags, "enable", lambda: False)
    cli._set_up(argv.split())
    assert bool(started) == keeps
