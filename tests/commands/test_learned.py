"""Tests of the rule that a recorded run has learned if it clearly beats random play."""

import itertools

import pytest
from scipy import stats

from jaxenvs.commands.learned import chance, is_learned, is_same_task
from jaxenvs.commands.page import reference

NEVER = {"return": 0.0, "error": 0.0, "succeeded": 0, "episodes": 1024}
SELDOM = {"return": 0.03, "error": 0.005, "succeeded": 40, "episodes": 1024}
SCORED = {"return": 20.0, "error": 0.3, "succeeded": None, "episodes": 1024}
FALLEN = {"return": -1.0, "error": 0.0, "succeeded": 0, "episodes": 1024}


def run(mean: float, succeeded: int | None, episodes: int = 256, apart: tuple[str, ...] = ()):
    return {"returns": [mean], "succeeded": succeeded, "episodes": episodes, "apart": apart}


@pytest.mark.parametrize(
    ("made", "random", "expected"),
    [
        (run(0.003, 1), NEVER, False),  # One success proves nothing.
        (run(0.04, 14), NEVER, False),  # significant, but the difference is too small
        (run(0.06, 17), NEVER, True),
        (run(0.1, 5, episodes=32), NEVER, True),
        (run(0.2, 1, episodes=4), NEVER, False),  # large difference, but possibly by chance
        (run(0.079, 30), SELDOM, False),  # p < 0.001, but the difference is too small
        # 20 successes alone would not be enough (P = 0.008). But the return is four standard errors
        # higher, because successes are faster, and this is enough.
        (run(0.081, 20), SELDOM, True),
        (run(0.12, 20, episodes=64), SELDOM, True),
        (run(0.12, 9, episodes=48), SELDOM, True),  # p = 0.0002, so it is not by chance
        # 9 successes in 64 episodes are not significant (p = 0.0015). The return is 4 standard
        # errors higher, but does not count, because fewer than 10 episodes succeed.
        (run(0.12, 9, episodes=64), SELDOM, False),
        # 4 standard errors are enough if the number of successes is unknown
        (run(0.12, None, episodes=64), SELDOM, True),
        # The return is only 1.9 higher; three standard errors of the difference are 2.0.
        (run(21.9, None), SCORED, False),
        (run(22.1, None), SCORED, True),
        # Random play has no record of successes, so the returns are compared.
        (run(22.1, 1), SCORED, True),
        (run(-0.1, 0), FALLEN, True),  # without success, but the return is far higher
        (run(-1.0, 0), FALLEN, False),
        (run(0.003, 1, apart=("RND",)), NEVER, False),  # an RND bonus does not change the task
        # The run changed the task. It counts as learned, because random play on this task was not
        # recorded.
        (run(0.003, 1, apart=("size=5",)), NEVER, True),
    ],
)
def test_a_run_has_learned_by_enough_and_not_by_chance(made, random, expected):
    assert is_learned(made, random) == expected
    assert is_learned(made, None)


@pytest.mark.parametrize("episodes", [1, 64, 256, 16_384])
@pytest.mark.parametrize("others", [64, 1024])
def test_the_p_value_is_that_of_fishers_exact_test(episodes, others):
    for share, by_chance in itertools.product([0.0, 0.02, 0.5, 1.0], [0.0, 0.01, 0.5, 1.0]):
        won, lucky = round(share * episodes), round(by_chance * others)
        table = [[won, episodes - won], [lucky, others - lucky]]
        expected = stats.fisher_exact(table, alternative="greater").pvalue
        found = chance(run(share, won, episodes), {"succeeded": lucky, "episodes": others})
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-12), table


def test_every_record_has_the_fields_that_the_rule_reads():
    table = reference()
    for id, random in table["random"].items():
        for record in (random, *table["trained"].get(id, [])):
            assert record["succeeded"] is None or 0 <= record["succeeded"] <= record["episodes"], id
            assert record["episodes"] > 0


def test_a_few_successes_of_recorded_runs_are_not_called_learned():
    """A recorded run with 1 to 7 successes in 256 episodes has not learned.

    Runs in environments in which random play has 8 successes or more are not checked.
    """
    table = reference()
    few = [
        is_learned(made, table["random"][id])
        for id, runs in table["trained"].items()
        for made in runs
        if (table["random"].get(id, SCORED)["succeeded"] or 0) < 8 and is_same_task(made)
        if made["episodes"] == 256 and 0 < (made["succeeded"] or 0) < 8
    ]
    assert few and not any(few)
