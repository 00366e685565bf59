"""Test that each mutation in `mutations.py` still finds the text that it replaces, exactly once."""

from mutations import MUTATIONS, ROOT


def test_every_mutation_still_applies():
    """The text that a mutation replaces occurs exactly once in its file, and its test files exist.

    If this test fails after a change of the code, adapt the mutation; `mutations.py` would stop.
    """
    for name, mutation in MUTATIONS.items():
        assert (ROOT / mutation.file).read_text().count(mutation.old) == 1, name
        files = [word for word in mutation.tests.split() if word.endswith(".py")]
        assert files and all((ROOT / "tests" / file).is_file() for file in files), name
