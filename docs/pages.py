"""Hook of mkdocs: write a page for every environment id, and add pages from other folders.

The generated pages are not stored in the repository. Making the pages of ids (`id_pages.py`) takes
most of the time, so several processes run `pages.py FOLDER MODULE...`: each writes the pages of the
ids in some modules.
"""

import ast
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Set before jax is imported. Each program runs once, so it should compile quickly.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

import id_pages
import jax

from jaxenvs.commands.page import page

ROOT = Path(__file__).resolve().parent.parent
# Files of the repository that become pages, and their addresses.
TAKEN = {
    "README.md": "index.md",
    "baselines/README.md": "baselines.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/learners.md": "benchmarks-learners.md",
    "benchmarks/families.md": "benchmarks-families.md",
    "benchmarks/gpu.md": "benchmarks-gpu.md",
    "tests/README.md": "tests.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
REPORTED = 20  # pages between two lines of progress
MOST_WORKERS = 8  # processes, each of which loads JAX
# A link or a picture. Code, in a fence or in backquotes, also matches, but with empty groups:
# `relinked` leaves it unchanged.
_LINK = re.compile(
    r"^```.*?^```$|`[^`\n]+`|\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


# Packages of learners and their titles in the navigation.
LEARNERS = {
    "on_policy": "On-policy",
    "off_policy": "Off-policy",
    "model_based": "Planning and models",
    "offline": "Demonstrations",
    "puzzles": "Puzzles",
}


def on_config(config: Any) -> Any:
    """Add families with their ids, and the pages of learners, to the navigation.

    Also copy the addresses of the site and the repository from pyproject.toml. A site with several
    versions (`make docs-versioned`, in which mike sets `MIKE_DOCS_VERSION`) has a version menu.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["jaxenvs"]
    version = os.environ.get("MIKE_DOCS_VERSION", "")
    if version:
        config.extra["version"] = {"provider": "mike"}
    if settings["documentation"]:
        config.site_url = posixpath.join(settings["documentation"], version, "")
    if settings["repository"]:
        config.repo_url, config.repo_name = settings["repository"], "jaxenvs"
    families = [
        {
            family: [
                f"envs/{family}/index.md",
                *({id: f"envs/{id}.md"} for id in id_pages.ids(family)),
            ]
        }
        for family in id_pages.families()
    ]
    for entry in config.nav:
        if "Environments" in entry:
            entry["Environments"] = ["envs/index.md", *families]
        if "Learners" in entry:
            entry["Learners"] = learner_pages()
    return config


def learner_pages() -> list[Any]:
    """Return the navigation of `docs/learners/`: index, learners by package, then other pages."""
    pages = {path.stem: f"learners/{path.name}" for path in (ROOT / "docs/learners").glob("*.md")}
    first, groups = pages.pop("index"), []
    for package, title in LEARNERS.items():
        names = learners(package)
        groups.append({title: [pages.pop(name, f"learners/{name}.md") for name in names]})
    return [first, *groups, *(pages[name] for name in sorted(pages))]


def learners(package: str) -> dict[str, Path]:
    """Return the learners of a package of `baselines/` with their modules.

    The registry is read as text: a documentation build does not install the learners' packages.
    """
    table = (ROOT / "baselines" / "registry.py").read_text("utf-8")
    modules = re.findall(rf'"\.{package}\.(\w+)"', table)
    folder = ROOT / "baselines" / package
    return {module.replace("_", "-"): folder / f"{module}.py" for module in modules}


def docstring_page(name: str, module: Path) -> str:
    """Return the page of a learner without a file in `docs/learners`: its module's docstring."""
    return f"# {name}\n\n{ast.get_docstring(ast.parse(module.read_text('utf-8')))}\n"


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name, content in generated():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    """Make the links of a page point into the site."""
    sources = {target: source for source, target in TAKEN.items()}
    uri = page.file.src_uri
    return relinked(markdown, sources.get(uri, f"docs/{uri}"), uri)


def generated() -> Iterator[tuple[str, str | bytes]]:
    """Yield address and content of every generated page and picture."""
    for source, target in TAKEN.items():
        yield target, (ROOT / source).read_text("utf-8")
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        yield f"notebooks/{path.stem}.md", notebook(json.loads(path.read_text("utf-8")))
    for package in LEARNERS:
        for name, module in learners(package).items():
            if not (ROOT / "docs" / "learners" / f"{name}.md").exists():
                yield f"learners/{name}.md", docstring_page(name, module)
    yield "envs/index.md", id_pages.overview()
    for family in id_pages.families():
        yield f"envs/{family}/index.md", id_pages.listing(family)
    with tempfile.TemporaryDirectory() as folder:
        _make_all(Path(folder))
        for path in sorted(Path(folder).iterdir()):
            yield f"envs/{path.name}", path.read_bytes()


def _make_all(folder: Path) -> None:
    """Write the pages of all environments with several processes, and print progress.

    There is one process per core, but at most `MOST_WORKERS`.
    """
    groups = id_pages.modules()
    if len(groups) == 1:
        main(str(folder), *groups)
        return
    workers, total = min(os.cpu_count() or 1, MOST_WORKERS), len(id_pages.ids())
    shares: list[list[str]] = [[] for _ in range(workers)]
    sizes = [0] * workers
    for name in sorted(groups, key=lambda name: -len(groups[name])):
        least = sizes.index(min(sizes))
        shares[least].append(name)
        sizes[least] += len(groups[name])
    read, write = os.pipe()
    command = [sys.executable, __file__, str(folder)]
    children = [subprocess.Popen([*command, *share], stdout=write) for share in shares if share]
    os.close(write)
    with os.fdopen(read) as done:
        for count, _ in enumerate(done, 1):
            if count % REPORTED == 0 or count == total:
                print(f"pages of environments: {count} of {total}", flush=True)
    if any(child.wait() for child in children):
        raise RuntimeError("a process that makes pages of environments failed, see above")


def main(folder: str, *names: str) -> None:
    """Write pages, pictures and animations of the ids of some modules, and print each id."""
    jax.config.update("jax_compilation_cache_dir", str(ROOT / ".cache" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    groups = id_pages.modules()
    for name in names:
        for id in groups[name]:
            path = Path(folder) / id
            path.with_name(f"{id}.md").write_text(id_pages.rendered(page(id)), "utf-8")
            path.with_name(f"{id}.gif").write_bytes(id_pages.animation(id))
            path.with_name(f"{id}.png").write_bytes(id_pages.picture(id))
            print(id, flush=True)


def relinked(markdown: str, source: str, uri: str) -> str:
    """Turn links between files of the repository into links between pages.

    `source` is the file in the repository, `uri` the page. Links to files without a page become
    plain text.
    """
    here = posixpath.dirname(uri)

    def link(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        text, (path, mark, anchor) = _LINK.sub(link, match[1]), match[2].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return f"[{text}]({match[2]})"
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = TAKEN.get(file) or (file[5:] if file.startswith("docs/") else None)
        if target is None:
            return text
        return f"[{text}]({posixpath.relpath(target, here or '.')}{mark}{anchor})"

    return _LINK.sub(link, markdown)


def notebook(content: dict[str, Any]) -> str:
    """Return a notebook with its outputs as Markdown."""
    parts = []
    for cell in content["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            said = output.get("data") or {"text/plain": output.get("text", "")}
            shown = {kind: "".join(lines) for kind, lines in said.items()}
            if page := shown.get("text/html"):
                parts.append(page)
            elif picture := shown.get("image/png"):
                parts.append(f'<img alt="a picture" src="data:image/png;base64,{picture.strip()}">')
            else:
                parts.append(f"```\n{shown['text/plain'].rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
