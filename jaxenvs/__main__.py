"""Run the command line with `python -m jaxenvs`."""

import sys

from .cli import program

sys.exit(program())
