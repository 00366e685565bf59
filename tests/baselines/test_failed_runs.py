"""Tests of trainings that fail before their first update: they leave and remove no files."""

import jax.numpy as jnp
import pytest
from tiny import FLAGS, Endless

from jaxenvs import registry
from jaxenvs.baselines.run import loop, train

ID = "Faulty-Step-v0"


class Faulty(Endless):
    """Environment `Endless` with a step that reads a field that the state lacks."""

    def step_state(self, key, state, action, params):
        """Read a missing field, which raises `AttributeError` while JAX traces the step."""
        return super().step_state(key, state.place, action, params)


class Careless(Endless):
    """Environment `Endless` with a step that changes a dtype."""

    def step_state(self, key, state, action, params):
        """Return a state whose time has the dtype float32 instead of int32."""
        return super().step_state(key, state.replace(time=jnp.float32(0)), action, params)


class Lacking(Endless):
    """Environment `Endless` without a step function."""

    step_state = registry.Env.step_state


@pytest.fixture
def environment(monkeypatch, as_a_user):
    """Return a function that registers an environment class for the test."""
    monkeypatch.setattr(registry, "_specs", dict(registry._specs))
    return registry.register(ID)


def trained(path, *more):
    """Train in the registered environment, with the run's folder `path`; return the exit code."""
    return train.main([ID, *FLAGS, "--total-steps", "512", "--out", str(path), *more])


def test_a_step_that_raises_leaves_no_directory(environment, tmp_path):
    environment(Faulty)
    with pytest.raises(AttributeError, match="place"):
        trained(tmp_path / "runs" / "new")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("env_class", "words"),
    [(Careless, "Careless.step_state turned state.time"), (Lacking, "Lacking lacks step_state;")],
)
def test_a_fault_with_a_sentence_leaves_no_directory(
    env_class, words, environment, tmp_path, capsys
):
    environment(env_class)
    assert trained(tmp_path / "runs" / "new") == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) == 1
    assert not [*tmp_path.iterdir()]


def test_a_failure_on_the_device_leaves_no_directory_but_other_files(
    environment, tmp_path, monkeypatch
):
    """A failure in the first update leaves no run folder, and keeps files of other programs.

    The failure happens on the device, after the run's folder was made.
    """
    environment(Endless)
    monkeypatch.setattr(loop, "run_chunk", lambda *arguments: 1 / 0)
    monkeypatch.setattr(loop, "_trace", lambda *arguments: None)
    for out in (tmp_path / "runs" / "new", tmp_path):
        with pytest.raises(ZeroDivisionError):
            trained(out)
        assert not [*tmp_path.iterdir()]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "notes").touch()
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path / "runs" / "new")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["notes"]


def test_a_fault_does_not_remove_the_run_that_was_to_be_overwritten(environment, tmp_path, capsys):
    environment(Careless)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "log.jsonl").write_text('{"update": 1}\n')
    assert trained(tmp_path) == 2 and "already holds a run" in capsys.readouterr().err
    assert trained(tmp_path, "--overwrite") == 2 and "state.time" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "log.jsonl"}
