"""The viewer in a browser: `jaxenvs play ID --web` serves it on this machine."""
