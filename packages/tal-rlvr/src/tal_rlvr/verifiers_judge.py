"""The judge's task as an environment of ``verifiers`` (0.4, its API ``verifiers.v1``), for any trainer that speaks it.

A plugin of verifiers is a module with a name of its own that exports what a run needs. Make one, ``tal_judge.py``, in
a folder of ``PYTHONPATH``::

    from tal_rlvr.verifiers_judge import JudgeEnv, JudgeHarness, JudgeTaskset

    __all__ = ["JudgeEnv", "JudgeHarness", "JudgeTaskset"]

and evaluate a served model with ``vf-eval tal-judge --env.taskset.config-file run.toml --no-push -m MODEL
--client.base-url URL``. Without ``--no-push`` verifiers uploads a finished run.
"""

from __future__ import annotations

from collections.abc import Iterator

from carb_data.extras import require
from tal_rlvr.config import load_config
from tal_rlvr.judgement import Verdict
from tal_rlvr.mix import ordered
from tal_rlvr.other_trainers import judge_rows, judged

require("verifiers.v1", package="tal-rlvr", extra="verifiers")
import verifiers.v1 as vf  # noqa: E402 - the line above names the missing extra
from openai import AsyncOpenAI  # noqa: E402 - comes with verifiers, so the same line names what is missing

__all__ = ["JudgeConfig", "JudgeData", "JudgeEnv", "JudgeEnvConfig", "JudgeHarness", "JudgeTask", "JudgeTaskset"]


class JudgeData(vf.TaskData):  # type: ignore[misc]  # verifiers is untyped
    """One pair in one order."""

    label: Verdict
    strict: bool
    """Whether only a well-formed judgement has a verdict, as in ``tal_rlvr.other_trainers.JudgeRow``."""


class JudgeTask(vf.Task[JudgeData]):  # type: ignore[misc]  # verifiers is untyped
    """R_corr is the reward; form is measured."""

    @vf.reward(weight=1.0)  # type: ignore[untyped-decorator]  # verifiers is untyped
    async def R_corr(self, trace: vf.Trace) -> float:  # noqa: N802 - the paper's name
        """+1 for the right verdict, -1 otherwise; no readable verdict counts as wrong."""
        return self._judged(trace)["R_corr"]

    @vf.metric  # type: ignore[untyped-decorator]  # verifiers is untyped
    async def well_formed(self, trace: vf.Trace) -> float:
        """1 for a well-formed judgement."""
        return self._judged(trace)["well_formed"]

    @vf.metric  # type: ignore[untyped-decorator]  # verifiers is untyped
    async def readable(self, trace: vf.Trace) -> float:
        """1 where the verdict can be read."""
        return self._judged(trace)["readable"]

    def _judged(self, trace: vf.Trace) -> dict[str, float]:
        text = trace.root_reply  # not ``last_reply``, which takes spaces off that make an output ill-formed
        if text is None:
            text = trace.assistant_messages[-1].content if trace.assistant_messages else None
        return judged(text or "", self.data.label, strict=self.data.strict)


class JudgeConfig(vf.TasksetConfig):  # type: ignore[misc]  # verifiers is untyped
    """What is judged."""

    config_file: str = "demo-cpu"
    """A configuration of ``carb train``, whose ``mix`` and ``prompts`` are used."""
    held_out: bool = False
    """The held-out pairs instead of those to train on."""


class JudgeTaskset(vf.Taskset[JudgeTask, JudgeConfig]):  # type: ignore[misc]  # verifiers is untyped
    """Pairs of the configuration's mix, each in both orders."""

    def load(self) -> Iterator[JudgeTask]:
        """See ``verifiers.v1.Taskset``."""
        config = load_config(self.config.config_file)
        pairs = config.mix.parts()[1 if self.config.held_out else 0]
        rows = ordered(pairs, seed=config.seed, shuffle=not self.config.held_out)
        for row in judge_rows(rows, config.prompts, direct=config.direct):
            yield JudgeTask(
                JudgeData(id=row.id, prompt=row.prompt, label=row.label, strict=row.strict), self.config.task
            )


class JudgeHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]  # verifiers is untyped
    """A single question without tools, asked from this process.

    By default verifiers gives a model a shell, and its harness without tools asks the package index in each run.
    """

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,  # noqa: ARG002 - verifiers passes it
        runtime: vf.Runtime,  # noqa: ARG002 - verifiers passes it
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],  # noqa: ARG002 - verifiers passes it
        data: JudgeData,
    ) -> vf.ProgramResult:
        """See ``verifiers.v1.Harness``."""
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None) as client:  # the run has a timeout
            question = {"role": "user", "content": data.prompt}
            await client.chat.completions.create(model=ctx.model, messages=[question])
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class JudgeEnvConfig(vf.SingleAgentEnvConfig):  # type: ignore[misc]  # verifiers is untyped
    """What runs the judge."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    """This machine; by default verifiers rents a sandbox and reaches the model through a public tunnel."""


class JudgeEnv(vf.Env[JudgeEnvConfig]):  # type: ignore[misc]  # verifiers is untyped
    """The judge, alone with one pair."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """See ``verifiers.v1.Env``."""
        await agents.agent.run(task)
