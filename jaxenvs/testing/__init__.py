"""Conformance tests for environment authors: `check_env`, which includes fuzzing."""

from .contract import CHECKS, ContractError, Subject, check_env
from .fuzzing import Fuzzed, Fuzzer, fuzz

__all__ = ["CHECKS", "ContractError", "Fuzzed", "Fuzzer", "Subject", "check_env", "fuzz"]
