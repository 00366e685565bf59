"""Test that the faults of `mutations.py` can still be made; the script itself takes minutes."""

from mutations import MUTATIONS, ROOT


def test_every_mutation_still_applies():
    """Each mutation still finds the text that it replaces.

    A change of the code can require a change of a mutation; otherwise the script of mutations
    stops.
    """
    for name, mutation in MUTATIONS.items():
        assert (ROOT / mutation.file).read_text().count(mutation.old) == 1, name
        files = [word for word in mutation.tests.split() if word.endswith(".py")]
        assert files and all((ROOT / "tests" / file).is_file() for file in files), name
