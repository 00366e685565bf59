"""Steps per second of a loop in PyTorch: `to_torch_vec` compared with NumPy arrays.

    python -m jaxenvs.benchmarks.torch_steps --batches 64 1024 8192

Each step draws random actions with PyTorch on the device, and returns observations, rewards and
done flags as tensors there. The NumPy path, `to_gymnasium_vec`, copies the actions to the host and
the results back, as scripts for Gymnasium do. Episodes restart in the same step. Needs torch and
gymnasium.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

import jaxenvs
from jaxenvs import adapters
from jaxenvs.core.extras import require

from .harness import device_lock, instrument, timing

DOORKEY, CRAFT = "Grid-DoorKey-8x8-v0", "Craft-Classic-Symbolic-v0"
TORCH, NUMPY = "to_torch_vec", "to_gymnasium_vec"
WARM_UP = 20  # steps of a trial run, which is timed to choose the number of steps per repeat


class Loop(timing.Runner):
    """A Python loop over the steps of one adapter; `run` times it until the device has finished."""

    def __init__(self, name: str, env_id: str, num_envs: int, seconds: float) -> None:
        step, self.wait = {TORCH: tensors, NUMPY: arrays}[name](env_id, num_envs)
        begun = time.perf_counter()
        step()
        self.wait()
        compiled = round(time.perf_counter() - begun, 2)
        self.step = step
        self.record = timing.Record(name, env_id, num_envs, "default", "", 1, WARM_UP, compiled)
        one = self.run() / WARM_UP
        self.record.rollouts = max(1, math.ceil(seconds / one))

    def run(self) -> float:
        start = time.perf_counter()
        for _ in range(self.record.rollouts):
            self.step()
        self.wait()
        return time.perf_counter() - start


def tensors(env_id: str, num_envs: int) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return two functions: a random step of `to_torch_vec`, and a wait for the device."""
    import torch  # pyright: ignore[reportMissingImports]

    envs = adapters.to_torch_vec(env_id, num_envs)
    # `Any`, because the type checker does not know that the space is `Discrete` and has `n`.
    space: Any = jaxenvs.make(env_id).action_space
    obs, _ = envs.reset(seed=0)

    def step() -> Any:
        nonlocal obs
        actions = torch.randint(space.n, (num_envs,), device=envs.device)
        obs, *rest = envs.step(actions)
        return obs, rest

    return step, waiting(envs.device)


def arrays(env_id: str, num_envs: int) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return two functions: a random step of `to_gymnasium_vec`, and a wait for the device.

    The step converts actions from tensors to NumPy, and results from NumPy to tensors.
    """
    import torch  # pyright: ignore[reportMissingImports]

    envs = adapters.to_gymnasium_vec(env_id, num_envs, autoreset_mode="SameStep")
    # `Any`, because the type checker does not know that the space is `Discrete` and has `n`.
    space: Any = jaxenvs.make(env_id).action_space
    device = torch.device("cpu" if jax.default_backend() == "cpu" else "cuda")
    envs.reset(seed=0)

    def step() -> Any:
        actions = torch.randint(space.n, (num_envs,), device=device)
        results = envs.step(actions.cpu().numpy())[:4]
        return [torch.as_tensor(one).to(device) for one in results]

    return step, waiting(device)


def waiting(device: Any) -> Callable[[], None]:
    """Return a function that waits until PyTorch has finished its work on a device."""
    import torch  # pyright: ignore[reportMissingImports]

    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def measure(env_id: str, num_envs: int, seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Time both adapters in turns; return a record for each."""
    with device_lock.held():
        loops = [Loop(name, env_id, num_envs, seconds) for name in (TORCH, NUMPY)]
    return timing.take_turns(loops, repeats)


def card(work: Any) -> None:
    """Time both adapters and store the records in `work`, a job of the benchmark command `card`."""
    sizes, seconds, repeats = ((8,), 0.01, 2) if work.tiny else ((4096, 65_536), 0.5, 5)
    for num_envs in sizes:
        for env_id in (DOORKEY, CRAFT):

            def figures(env_id: str = env_id, num_envs: int = num_envs) -> list[dict[str, Any]]:
                rows = measure(env_id, num_envs, seconds, repeats)
                return [{**row, "times_s": row.pop("seconds")} for row in rows]

            work.measure(figures, id=env_id, num_envs=num_envs)


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark with the options in `argv`; print figures and write the `--json` file."""
    parser = instrument.parser("torch_steps", __doc__)
    parser.add_argument("--ids", nargs="+", default=[DOORKEY, CRAFT], help="environments")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 1024, 8192], help="sizes")
    instrument.add_repeats(parser, 0.5, 5)
    args = parser.parse_args(argv)
    for package, extra in (("torch", "torch"), ("gymnasium", "gym")):
        require((package,), extra)
    rows: list[dict[str, Any]] = []
    for env_id in args.ids:
        for num_envs in args.batches:
            rows += measure(env_id, num_envs, args.seconds, args.repeats)
            for row in rows[-2:]:
                speed, micros = row["steps_per_second"], row["microseconds"]
                print(f"{env_id} {num_envs} {row['contestant']}: {speed:,} steps/s, {micros} us")
            instrument.write(args.json, {**instrument.header(args), "rows": rows})
