"""Errors of the model of kernel time on programs that it was not fitted to."""

from typing import Any

from .registry import RESULTS, table
from .text import Column, Table, fixed, of, percent, ratio, tabulated, whole

FILE = f"{RESULTS}/kernel_model.json"


def _step(name: str) -> Column:
    return lambda row: ratio(row[name] / row["busy"])


def _near(name: str) -> Column:
    return lambda row: percent(row[f"{name}_near"])


@table("kernel-model", FILE)
def errors(figures: dict[str, Any]) -> Table:
    """One line for each program; the last one sums all."""
    columns: dict[str, Column] = {
        "program": lambda row: row["program"] or "all",
        "kernels": of("kernels", whole),
        "step, us": of("step", fixed(0)),
        "in kernels": of("busy", fixed(0)),
        "model / measured": _step("model"),
        "without its environment": _step("model_family"),
        "former model": _step("old"),
        "time within 1.5": _near("model"),
        "without its environment, too": _near("model_family"),
        "former": _near("old"),
    }
    return tabulated(figures["rows"], columns)


@table("kernel-model-worst", FILE)
def worst(figures: dict[str, Any]) -> Table:
    """Kernels with the most time that is predicted wrong."""
    columns: dict[str, Column] = {
        "program": of("program"),
        "kernel": lambda row: f"`{row['kernel']}`",
        "result": lambda row: f"`{row['shape']}`",
        "us": of("microseconds", fixed(1)),
        "model": of("model", fixed(1)),
        "of all time": lambda row: percent(row["share"]),
    }
    return tabulated(figures["worst"], columns)
