"""Import jaxenvs; fail with a message if the import has side effects.

`test_packaging.py` runs this file in a separate process and also fails if it prints. The import
must not start a JAX backend, write a file, use the network, or import an optional package. Parts
such as `jaxenvs.search` and the families of environments must be imported only when they are used.
"""

import os
import sys

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate"}
NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
HEAVY = {"flax", "gymnasium", "imageio", "matplotlib", "mctx", "minigrid", "optax", "orbax", "PIL"}
HEAVY |= {"absl", "chex", "h5py", "dm_env", "gymnax", "pygame", "ray", "rich", "tyro", "beartype"}


def forbid(event: str, arguments: tuple) -> None:
    """End the process if an audit event shows that it writes a file or uses the network."""
    if event.startswith(NETWORK):
        raise SystemExit(f"network: {event} {arguments}")
    if event in CHANGES:
        raise SystemExit(f"changes files: {event} {arguments}")
    if event == "open":
        _, mode, flags = arguments
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & WRITING:
            raise SystemExit(f"writes {arguments[0]}")


import jax  # noqa: E402, F401 - imported before the check begins, because jax may do what it wants

sys.addaudithook(forbid)
from jax._src import xla_bridge  # noqa: E402

import jaxenvs  # noqa: E402

PARTS = {f"jaxenvs.{name}" for name in ("adapters", "demos", "levels", "render", "search", "text")}
PARTS |= {*jaxenvs.registry.homes()}
if early := sorted(PARTS & set(sys.modules)):
    raise SystemExit(f"imports {early} before they are needed")
jaxenvs.registry.list()
for name in PARTS:
    getattr(jaxenvs, name.removeprefix("jaxenvs."))
if xla_bridge._backends:
    raise SystemExit(f"started {list(xla_bridge._backends)}")
if found := HEAVY & set(sys.modules):
    raise SystemExit(f"imports {sorted(found)}")
