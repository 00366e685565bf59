"""`SuccessInInfo`, a base class of wrappers that change the reward or the state of a step.

An environment's `succeeded` computes from the unchanged step whether the agent has succeeded. A
wrapper must therefore call `succeeded` before it changes the step, and store the result.
"""

from jaxtyping import Array, Bool

from ..env import Env, Step
from ..wrapper import Wrapper


class SuccessInInfo(Wrapper):
    """Base class of wrappers that change the reward or the state of a step.

    `succeeded` may need the unchanged step. Before the change, the wrapper therefore calls
    `with_success`, which stores the result of `succeeded` in `info`.
    """

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Return the entry of `info` that `with_success` wrote; None if success is not defined."""
        return step.info.get("succeeded")


def with_success(env: Env, step: Step) -> Step:
    """Add `env.succeeded(step)` to the step's `info`, unless `env` defines no success."""
    success = env.succeeded(step)
    return step if success is None else step._replace(info={**step.info, "succeeded": success})
