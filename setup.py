"""Which packages are installed; pyproject.toml says the rest.

The folders beside `jaxenvs/` are installed inside it, which `packages.find` cannot express.
"""

from setuptools import find_packages, setup

BESIDE = ("baselines", "benchmarks", "render")


def packages(folder: str) -> list[str]:
    """Packages of a top-level folder, itself among them."""
    return find_packages(include=[folder, f"{folder}.*"])


setup(
    packages=[
        *packages("jaxenvs"),
        *(f"jaxenvs.{name}" for folder in BESIDE for name in packages(folder)),
    ],
    package_dir={f"jaxenvs.{folder}": folder for folder in BESIDE},
)
