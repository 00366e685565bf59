"""Write the tables of all pages from the JSON of the measurements.

    python -m jaxenvs.benchmarks.tables            # write them
    python -m jaxenvs.benchmarks.tables --check    # print what differs; exit code 1

It needs only Python: `python -m benchmarks.tables` runs in a checkout with nothing installed.
"""

import argparse
import difflib
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from .pages import filled, marked, pages
from .registry import TABLES, render

ROOT = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the tables, or check them with `--check`; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m jaxenvs.benchmarks.tables")
    parser.description = (__doc__ or "").split("\n")[0]
    add = parser.add_argument
    add("--check", action="store_true", help="write nothing; print what differs, exit code 1")
    add("--root", type=Path, default=ROOT, help="the checkout (default: %(default)s)")
    args = parser.parse_args(argv)
    try:
        changed, lost = survey(args.root)
    except (LookupError, OSError, ValueError) as error:
        print(f"tables: {error.args[0] if len(error.args) == 1 else error}", file=sys.stderr)
        return 2
    for path, (old, new) in changed.items():
        if args.check:
            print(difference(path.relative_to(args.root), old, new))
        else:
            path.write_text(new, "utf-8")
            print(f"wrote {path.relative_to(args.root)}")
    for name in lost:
        print(f"tables: no page has <!-- table: {name} -->", file=sys.stderr)
    return int(bool(lost or (args.check and changed)))


def survey(root: Path) -> tuple[dict[Path, tuple[str, str]], list[str]]:
    """Return the pages that would change, with their (old, new) texts, and the unused tables.

    A table is unused if no page has a marker for it. Raises `ValueError` with the name of the page
    if a marker names an unknown table or has no end marker.
    """
    if not (root / "README.md").is_file():
        raise ValueError(f"{root} is not a checkout: it has no README.md; give one with --root")
    changed, seen = {}, set()
    for path in pages(root):
        old = path.read_text("utf-8")
        try:
            seen.update(marked(old))
            new = filled(old, functools.partial(render, root=root))
        except (LookupError, ValueError) as error:
            raise ValueError(f"{path.relative_to(root)}: {error.args[0]}") from error
        if new != old:
            changed[path] = (old, new)
    return changed, sorted(TABLES.keys() - seen)


def difference(path: Path, old: str, new: str) -> str:
    """Return a unified diff from the old to the new text of the page `path`."""
    lines = (old.splitlines(), new.splitlines(), f"{path} as it is", f"{path} by its JSON")
    return "\n".join(difflib.unified_diff(*lines, lineterm="", n=1))


if __name__ == "__main__":
    sys.exit(main())
