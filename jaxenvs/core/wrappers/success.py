"""Success of a step whose reward or state a wrapper changes."""

from jaxtyping import Array, Bool

from ..env import Env, Step
from ..wrapper import Wrapper


class SuccessInInfo(Wrapper):
    """Base of wrappers that change what `env.succeeded` looks at: `info` has its answer."""

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Tell whether the step accomplished the task, as the environment inside saw it."""
        return step.info.get("succeeded")


def with_success(env: Env, step: Step) -> Step:
    """Add `info["succeeded"]` to a step of `env`, where it has a notion of success."""
    success = env.succeeded(step)
    return step if success is None else step._replace(info={**step.info, "succeeded": success})
