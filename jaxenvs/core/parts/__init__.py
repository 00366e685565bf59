"""Parts of `Env`, members with defaults: for players, learners, batches and upstream packages.

`jaxenvs.core.env.Env` inherits them, so their members are attributes of every environment, and an
environment overrides those in which it differs. Wrappers forward all of them.
"""
