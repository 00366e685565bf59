"""What an author of an environment checks it with: `check_env` and the play behind it."""

from .contract import CHECKS, ContractError, Subject, check_env
from .fuzzing import Fuzzed, Fuzzer, fuzz

__all__ = ["CHECKS", "ContractError", "Fuzzed", "Fuzzer", "Subject", "check_env", "fuzz"]
