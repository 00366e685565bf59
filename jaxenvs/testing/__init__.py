"""Tests that authors run on their environments: `check_env` and the fuzzer `fuzz`."""

from .contract import CHECKS, ContractError, Subject, check_env
from .fuzzing import Fuzzed, Fuzzer, fuzz

__all__ = ["CHECKS", "ContractError", "Fuzzed", "Fuzzer", "Subject", "check_env", "fuzz"]
