"""Test that TorchRL's checker finds no fault in the adapters to Gymnasium."""

import importlib.util

import pytest

from jaxenvs.adapters import to_gymnasium, to_gymnasium_vec


@pytest.mark.skipif(importlib.util.find_spec("torchrl") is None, reason="TorchRL brings PyTorch")
@pytest.mark.filterwarnings("ignore")  # ignore warnings of TorchRL and its packages
@pytest.mark.parametrize("mode", [None, "SameStep", "Disabled"])
def test_specs(mode):
    from torchrl.envs import GymWrapper
    from torchrl.envs.utils import check_env_specs

    id = "Classic-CartPole-v0"
    env = to_gymnasium_vec(id, 4, autoreset_mode=mode) if mode else to_gymnasium(id)
    check_env_specs(GymWrapper(env))
