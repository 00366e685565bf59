"""Tests of `to_torch_vec` with PyTorch, on the CPU: values, memory, dtypes, `torch.compile`."""

import copy
import shutil
import types

import jax
import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is an optional package (extra `torch`)")

import torch
from exports import ECHO, MODES, SEED, actions_for, assert_same, native
from worlds import DOORS, Doors, by_default

import jaxenvs
from jaxenvs.adapters import to_torch_vec
from jaxenvs.adapters.pytorch import devices

ROWS = 64
IDS = ("Grid-DoorKey-5x5-v0", "Craft-Classic-Symbolic-v0", "Puzzle-2048-v0", "Classic-CartPole-v0")
every_mode = pytest.mark.parametrize("mode", MODES)


def numbers(results):
    """Return copies of the tensors of a reset or step as NumPy arrays."""
    return jax.tree.map(lambda leaf: leaf.numpy().copy(), results)


def play(envs, actions, mode, use):
    """Yield `use(results)` after each reset and step; overwrite the actions after each step."""
    yield use(envs.reset(seed=SEED))
    for action in actions:
        given = torch.from_numpy(action.copy())
        results = envs.step(given)
        given.fill_(-1)
        done = results[2] | results[3]
        yield use(results)
        if mode == "none" and done.any():
            yield use(envs.reset(options={"reset_mask": done}))


def spoiled(results):
    """Copy results to NumPy, change the original tensors in place, and return the copies."""
    seen = numbers(results)
    jax.tree.map(
        lambda leaf: leaf.mul_(0) if leaf.dtype != torch.bool else leaf.logical_not_(), results
    )
    return seen


@every_mode
@pytest.mark.parametrize("env", [DOORS, *IDS], ids=str)
def test_trajectories_are_those_of_make_vec(env, mode):
    """Play 300 steps, change every tensor in place, and compare with `make_vec` bit by bit."""
    env = jaxenvs.make(env) if isinstance(env, str) else env
    actions = actions_for(env, 300, ROWS)
    envs = to_torch_vec(env, ROWS, device="cpu", autoreset=mode)
    assert_same(list(play(envs, actions, mode, spoiled)), native(env, actions, mode))


@every_mode
@pytest.mark.parametrize("env", [ECHO, *by_default(IDS[:1], IDS, full=IDS[1:])], ids=str)
def test_no_later_step_overwrites_a_tensor_that_is_kept(env, mode):
    env = jaxenvs.make(env) if isinstance(env, str) else env
    envs = to_torch_vec(env, ROWS, device="cpu", autoreset=mode)
    actions = actions_for(env, 200, ROWS)
    kept = list(play(envs, actions, mode, lambda results: (results, numbers(results))))
    assert_same([numbers(results) for results, _ in kept], [seen for _, seen in kept])
    places = [leaf.data_ptr() for leaf in jax.tree.leaves([results for results, _ in kept])]
    assert len(set(places)) == len(places)


def test_tensors_share_the_memory_of_jax(monkeypatch):
    envs = to_torch_vec(DOORS, ROWS, device="cpu")
    seen = []
    begin = envs.begin
    monkeypatch.setattr(
        envs, "begin", lambda *args, **kw: seen.append(begin(*args, **kw)) or seen[0]
    )
    results = envs.reset(seed=0)
    for array, tensor in zip(*map(jax.tree.leaves, (seen[0], results)), strict=True):
        assert array.unsafe_buffer_pointer() == tensor.data_ptr()
        assert str(array.dtype) == str(tensor.dtype).removeprefix("torch.")


def test_unsigned_integers_become_wider_types_with_the_same_values():
    obs, _ = to_torch_vec(ECHO, 2, device="cpu").reset(seed=0)
    assert obs["wide"].dtype == torch.int64 and obs["wide"].tolist() == [2**32 - 1] * 2
    assert obs["narrow"].dtype == torch.int32 and obs["narrow"].tolist() == [2**16 - 1] * 2
    assert (obs["wide"] + 1).tolist() == [2**32] * 2


def test_final_obs_is_the_true_successor():
    """`final_obs` is the observation before a reset: in `DOORS`, its number equals the reward."""
    envs = to_torch_vec(DOORS, ROWS, device="cpu")
    envs.reset(seed=SEED)
    ends = 0
    for action in actions_for(DOORS, 40, ROWS):
        obs, reward, terminated, truncated, info = envs.step(action)
        done = terminated | truncated
        assert torch.equal(info["final_obs"]["number"].float(), reward)
        assert torch.equal(obs["number"][~done].float(), reward[~done])
        assert not (terminated & truncated).any()
        assert torch.equal(info["action_mask"][:, 2], obs["number"] % 2 == 0)
        ends += int(done.sum())
    assert ends > 2 * ROWS


@pytest.mark.parametrize(
    "kind",
    [
        torch.as_tensor,
        lambda a: torch.as_tensor(a).int(),
        lambda a: torch.as_tensor(a).to(torch.uint8),
        lambda a: torch.stack([torch.as_tensor(a)] * 2, 1)[:, 0],  # not contiguous
        np.asarray,
        list,
        jax.numpy.asarray,
    ],
)
def test_actions_may_be_tensors_arrays_or_lists(kind):
    actions = [kind(np.full(4, k)) for k in (0, 1, 2)]
    envs, other = (to_torch_vec(DOORS, 4, device="cpu") for _ in range(2))
    assert_same(
        [numbers(envs.reset(seed=1)), *(numbers(envs.step(action)) for action in actions)],
        [
            numbers(other.reset(seed=1)),
            *(numbers(other.step(torch.full((4,), k))) for k in range(3)),
        ],
    )


def test_real_actions_may_need_gradients():
    envs = to_torch_vec("Classic-Pendulum-v0", 4)
    envs.reset(seed=0)
    action = torch.zeros(4, 1, dtype=torch.float64, requires_grad=True)
    obs, reward, *_ = envs.step(action)
    assert obs.dtype == reward.dtype == torch.float32 and not obs.requires_grad


def test_params_may_differ_in_every_environment():
    params = DOORS.default_params.replace(max_steps_in_episode=np.arange(1, 4))
    envs = to_torch_vec(DOORS, 3, params=params, device="cpu")
    envs.reset(seed=0)
    assert envs.step([0, 0, 0])[3].tolist() == [True, False, False]


def test_a_copied_batch_continues_identically():
    envs = to_torch_vec(DOORS, 4, device="cpu")
    envs.reset(seed=3)
    other = copy.deepcopy(envs)
    assert_same(*([numbers(each.step(np.full(4, k))) for k in range(3)] for each in (envs, other)))
    assert other.device == torch.device("cpu") and other.num_envs == 4


def test_spaces_are_those_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    envs = to_torch_vec("Grid-Empty-5x5-v0", 3)
    assert envs.single_action_space == gymnasium.spaces.Discrete(7)
    assert envs.single_observation_space.shape == (7, 7, 3)
    assert envs.observation_space.shape == (3, 7, 7, 3) and envs.action_space.shape == (3,)
    envs.close()


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), jax.devices("cpu")[0]])
def test_a_device_has_names_in_both_packages(device):
    envs = to_torch_vec(DOORS, 2, device=device)
    assert envs.device == torch.device("cpu")
    assert envs.reset(seed=0)[0]["number"].device == envs.device


def test_a_gpu_without_an_index_is_the_current_one_of_pytorch(monkeypatch):
    """`cuda` is the GPU that is PyTorch's current device when the batch is made."""
    gpus = [types.SimpleNamespace(platform="gpu", local_hardware_id=i) for i in range(2)]
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: gpus)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert devices("cuda") == (gpus[1], torch.device("cuda:1"))
    assert devices("cuda:0") == (gpus[0], torch.device("cuda:0"))
    assert devices(None) == (gpus[0], torch.device("cuda:0"))


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # ignore warnings of PyTorch's compiler
def test_a_compiled_policy_takes_the_tensors():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    policy = torch.compile(lambda obs: network(obs).argmax(-1))
    envs = to_torch_vec("Classic-CartPole-v0", ROWS, device="cpu")
    obs, _ = envs.reset(seed=0)
    with torch.no_grad():
        for _ in range(5):
            action = policy(obs)
            torch.testing.assert_close(action, network(obs).argmax(-1))
            obs, *_ = envs.step(action)


VECTOR = Doors(vector=True)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.step(torch.zeros(3).int()), ValueError, "no episode has begun"),
        (
            lambda e: (e.reset(), e.step(torch.zeros(2).int())),
            ValueError,
            r"needs 3 actions of Dis",
        ),
        (lambda e: (e.reset(), e.step(torch.zeros(3))), ValueError, "dtype torch.float32"),
        (lambda e: (e.reset(), e.step(torch.ones(3) > 0)), ValueError, "dtype torch.bool"),
        (lambda e: e.reset(options={"mask": 1}), ValueError, "unknown option 'mask'"),
        (
            lambda e: e.reset(options={"reset_mask": [1, 0, 0]}),
            ValueError,
            r"bools with shape \(3,",
        ),
        (
            lambda e: e.reset(options={"reset_mask": torch.tensor([True, False, True])}),
            ValueError,
            "all environments once",
        ),
        (
            lambda e: to_torch_vec(DOORS, 3, device="cuda:7"),
            ValueError,
            "JAX has no device 'cuda:7'",
        ),
        (lambda e: to_torch_vec(DOORS, 3, device="meta"), ValueError, "JAX has no device 'meta'"),
        (lambda e: to_torch_vec(DOORS, 0), ValueError, "num_envs=0 is out of range"),
        (lambda e: to_torch_vec(DOORS, 3, size=3), TypeError, "fields .* belong to make"),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(to_torch_vec(DOORS, 3, device="cpu"))


def test_actions_are_checked_on_request():
    envs = to_torch_vec(VECTOR, 3, device="cpu", check_actions=True)
    envs.reset(seed=0)
    envs.step(torch.ones(3, 2).int())
    with pytest.raises(ValueError, match=r"an array of 3 actions of .*got array"):
        envs.step(torch.full((3, 2), 2))
