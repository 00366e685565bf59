"""Checks for authors of environments: `check_env`, and the hostile play that it includes."""

from .contract import CHECKS, ContractError, Subject, check_env
from .fuzzing import Fuzzed, Fuzzer, fuzz

__all__ = ["CHECKS", "ContractError", "Fuzzed", "Fuzzer", "Subject", "check_env", "fuzz"]
