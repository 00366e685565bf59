"""Tests of levels and states of XLand as text."""

import jax
import pytest
import texts

import jaxenvs
from jaxenvs import levels

TASK = (
    "goal: hold(red key); near(red ball, blue hex) -> red key; map: red ball, blue hex, pink star"
)


@pytest.fixture(scope="module")
def env():
    return jaxenvs.make("XLand-R4-9x9-v0", task=TASK)


@pytest.mark.full
@pytest.mark.parametrize("id", ["XLand-R4-9x9-v0"])
def test_reading_inverts_writing(id):
    texts.check_texts(id, 4, lambda i: (0, 5 + i, texts.STEPS - 1))


@pytest.mark.slow
@pytest.mark.parametrize("id", jaxenvs.registry.list("XLand"))
def test_reading_inverts_writing_for_every_id(id):
    texts.check_texts(id, 100, lambda i: (i % texts.STEPS,))


def test_a_text_has_the_task_and_a_legend(env):
    level = jax.device_get(env.sample_level(jax.random.key(0)))
    lines = env.level_text(level).split("\n")
    assert lines[:3] == [
        "task: goal: hold(red key)",
        "task: near(red ball, blue hex) -> red key",
        "task: map: red ball, blue hex, pink star",
    ]
    assert {"legend: *i pink star", "legend: Br red ball", "legend: Hb blue hex"} <= {*lines}
    renamed = "\n".join(lines).replace("*i", "qq")
    texts.assert_same(levels.read(env, renamed), level)


def test_episodes_have_the_task_of_the_file(tmp_path, env):
    level = env.sample_level(jax.random.key(0))
    levels.save(tmp_path / "some.txt", [level], env)
    made = jaxenvs.make("XLand-R4-9x9-v0", levels=str(tmp_path / "some.txt"))
    assert made.default_params == env.default_params
    texts.assert_same(jax.device_get(made.sample_level(jax.random.key(1))), jax.device_get(level))
    (entry,) = levels.load(tmp_path / "some.txt")
    levels.save(tmp_path / "again.txt", [entry])
    assert (tmp_path / "again.txt").read_text() == (tmp_path / "some.txt").read_text()


def test_mistakes_have_a_place(env):
    text = env.level_text(env.sample_level(jax.random.key(0)))
    for wrong, place in (
        (text.replace("hold(red key)", "hold(red kay)"), "line 1, column 7: .*red kay"),
        (text.replace("legend: Br red ball", "legend: Br"), "write two characters and a tile"),
        (text.replace("WG", "QQ", 1), "column 1: unknown pair 'QQ'"),
        (text.replace("task:", "pocket:", 1), "'goal: hold|starts with an empty pocket"),
    ):
        with pytest.raises(levels.LevelError, match=place):
            levels.read(env, wrong)
