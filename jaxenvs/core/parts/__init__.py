"""Base classes of `Env` that define members with defaults, grouped by who uses them.

There are base classes for players, for learners, for batches, for levels as text, and for
comparison with other packages. `jaxenvs.core.env.Env` inherits from all of them, so every
environment has all members. An environment overrides a member if the default does not suit it.
Wrappers forward all members.
"""
