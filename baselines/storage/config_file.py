"""Validation of a run's config.json, defaults for fields that older files lack, new names."""

from typing import Any

from .. import old_names

# Fields that older files lack, with the values that their runs had.
OLDER: dict[str, Any] = {"algorithm": "ppo", "tracking": {}, "sweep": {}, "params": {}}
KINDS = {
    "id": str,
    "seed": int,
    "seeds": int,
    "fields": dict,
    "algorithm": str,
    "tracking": dict,
    "sweep": dict,
    "params": dict,
}


def validated(content: Any, form: int) -> dict[str, Any]:
    """Return the fields of a `Config`; raise `TypeError` or `ValueError` for invalid content.

    `content` is the parsed file. `form` is the only format number that this version can read.
    """
    if not isinstance(content, dict):
        raise TypeError("it holds no object")
    if content.get("format") != form:
        raise ValueError(f"format {content.get('format')}, known is {form}")
    content = {**OLDER, **content}
    for name, kind in KINDS.items():
        if not isinstance(content.get(name), kind):
            raise TypeError(f"{name} is {content.get(name, 'missing')!r}")
    if content["seeds"] < 1 or not 0 <= content["seed"] < 2**31:
        raise ValueError(f"seeds {content['seeds']} from {content['seed']} on")
    _check_sweep(content["sweep"], content["seeds"])
    if not isinstance(content.get("settings"), dict):
        raise TypeError("settings must be an object")
    for part in ("fields", "settings"):
        content = content | {part: {k: _hashable(v) for k, v in content[part].items()}}
    settings = old_names.current_settings(content["algorithm"], content["settings"])
    return content | {"settings": settings}


def _check_sweep(sweep: dict[str, Any], seeds: int) -> None:
    """Raise `ValueError` if a swept value is not a number.

    Also raise `ValueError` if `seeds` is not a multiple of the number of combinations of swept
    values.
    """
    count = 1
    for name, values in sweep.items():
        if not isinstance(values, list) or not all(isinstance(x, (int, float)) for x in values):
            raise ValueError(f"sweep {name}={values!r}")
        count *= len(values)
    if not count or seeds % count:
        raise ValueError(f"seeds {seeds} of a sweep with {count} settings")


def _hashable(value: Any) -> Any:
    """Return the value with lists converted back to tuples; JSON stores tuples as lists."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
