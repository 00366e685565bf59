"""The faults of `mutations.py` can still be made; the script itself takes minutes."""

from mutations import MUTATIONS, ROOT


def test_every_fault_still_applies():
    """Whoever moves code moves its mutation too; otherwise the script would stop there."""
    for name, mutation in MUTATIONS.items():
        assert (ROOT / mutation.file).read_text().count(mutation.old) == 1, name
        files = [word for word in mutation.tests.split() if word.endswith(".py")]
        assert files and all((ROOT / "tests" / file).is_file() for file in files), name
