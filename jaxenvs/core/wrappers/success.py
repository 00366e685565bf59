"""Success of a step whose reward or state a wrapper changes."""

from jaxtyping import Array, Bool

from ..env import Env, Step
from ..wrapper import Wrapper


class SuccessInInfo(Wrapper):
    """Base of wrappers that change the steps that `env.succeeded` reads.

    Such a wrapper calls `env.succeeded` on the unchanged step (see `with_success`) and stores the
    result in `info`.
    """

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Return the result of the wrapped environment, from `info`."""
        return step.info.get("succeeded")


def with_success(env: Env, step: Step) -> Step:
    """Add `info["succeeded"]` to a step of `env`, if it defines success."""
    success = env.succeeded(step)
    return step if success is None else step._replace(info={**step.info, "succeeded": success})
