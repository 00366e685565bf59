"""Core of jaxenvs: base class `Env`, registry of ids, spaces, batches (`VectorEnv`), wrappers."""
