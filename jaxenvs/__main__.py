"""`python -m jaxenvs`: the command line, as `jaxenvs`."""

import sys

from .cli import program

sys.exit(program())
