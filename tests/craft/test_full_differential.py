"""Our full game against craftax 1.6.1: same starts, actions and chance, same everything."""

import lockstep_full as lockstep
import pytest
import starts_full as starts
from lockstep import merged

GROUP = "lockstep_full"  # one worker compiles both games for both files
ROWS = 8 * len(starts.KINDS)  # every kind of start by every way to play, twice
STEPS, LONG_STEPS, TRIALS = 12, 200, 10


def check(report, least, events):
    print(report._replace(first=[]))
    assert not report.differences, report.first[:5]
    assert report.steps >= least
    assert report.events["choices unexplained"] == 0
    assert not [name for name in events if not report.events[name]]


def test_every_kind_of_start_plays_as_the_package():
    check(lockstep.trial(ROWS, STEPS, seed=0), least=500, events=["mobs born", "hurt"])


@pytest.mark.slow
def test_sixty_thousand_steps_play_as_the_package(record_property):
    trials = [lockstep.trial(ROWS, LONG_STEPS, seed=100 * i) for i in range(1, TRIALS + 1)]
    report = merged(trials)
    record_property("report", report._asdict())
    check(
        report, least=60_000, events=[name for name in report.events if "unexplained" not in name]
    )
    assert all(report.achievements.values()), report.achievements
