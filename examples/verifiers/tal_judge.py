"""The Think-as-Locals task as an environment of verifiers (0.4, its API ``verifiers.v1``), for any
trainer of its kind.

    PYTHONPATH=examples/verifiers vf-eval tal-judge --env.taskset.config-file run.toml --no-push -m
    MODEL \
        --client.base-url http://127.0.0.1:8000/v1

A plugin of verifiers is a module that exports what a run needs; this is one. Its tasks are the
pairs of a configuration of ``carb train``, each in both orders. R_corr is the reward, and form is
measured: verifiers gives a reward no probabilities of the policy, so R_appr is not here. Without
``--no-push`` verifiers uploads a finished run.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf
from openai import AsyncOpenAI

from tal_rlvr import (
    Judgement,
    Verdict,
    correctness_reward,
    load_config,
    parse_judgement,
    render_prompt,
)
from tal_rlvr.judgement import FormatError, holds_verdict
from tal_rlvr.mix import ordered

__all__ = ["JudgeEnv", "JudgeHarness", "JudgeTaskset"]


class JudgeData(vf.TaskData):
    """One pair in one order."""

    label: Verdict
    strict: bool
    """Whether only a well-formed judgement has a verdict, since a response shows one that the judge
    may copy."""


class JudgeTask(vf.Task[JudgeData]):
    """R_corr is the reward; form is measured."""

    @vf.reward(weight=1.0)
    async def R_corr(self, trace: vf.Trace) -> float:  # noqa: N802 - the paper's name
        """+1 for the right verdict, -1 otherwise; no readable verdict counts as wrong."""
        return correctness_reward([self._judged(trace)], [self.data.label])[0]

    @vf.metric
    async def well_formed(self, trace: vf.Trace) -> float:
        """1 for a well-formed judgement."""
        return float(isinstance(self._judged(trace), Judgement))

    @vf.metric
    async def readable(self, trace: vf.Trace) -> float:
        """1 where the verdict can be read."""
        return float(self._judged(trace).verdict is not None)

    def _judged(self, trace: vf.Trace) -> Judgement | FormatError:
        text = (
            trace.root_reply
        )  # not ``last_reply``, which takes spaces off that make an output ill-formed
        if text is None:
            text = trace.assistant_messages[-1].content if trace.assistant_messages else None
        return parse_judgement(text or "", lenient=not self.data.strict)


class JudgeConfig(vf.TasksetConfig):
    """What is judged."""

    config_file: str = "demo-cpu"
    """A configuration of ``carb train``, whose ``mix`` and ``prompts`` are used."""
    held_out: bool = False
    """The held-out pairs instead of those to train on."""


class JudgeTaskset(vf.Taskset[JudgeTask, JudgeConfig]):
    """Pairs of the configuration's mix, each in both orders."""

    def load(self) -> Iterator[JudgeTask]:
        """See ``verifiers.v1.Taskset``."""
        config = load_config(self.config.config_file)
        parts, prompts = config.mix.mixed()[0], config.prompts
        pairs = parts.held_out if self.config.held_out else parts.train
        for row in ordered(pairs, seed=config.seed, shuffle=not self.config.held_out):
            pair, shown = row.pair, (row.first, row.second)
            messages = render_prompt(
                pair, shown, pair.culture, prompts.language, folder=prompts.folder()
            )
            data = JudgeData(
                id=f"{pair.id}/{row.label}",
                prompt=messages[0]["content"],
                label=row.label,
                strict=holds_verdict(messages),
            )
            yield JudgeTask(data, self.config.task)


class JudgeHarness(vf.Harness[vf.HarnessConfig]):
    """A single question without tools, asked from this process.

    By default verifiers gives a model a shell, and its harness without tools asks the package index
    in each run.
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
        async with AsyncOpenAI(
            base_url=endpoint, api_key=secret, timeout=None
        ) as client:  # the run has a timeout
            question = {"role": "user", "content": data.prompt}
            await client.chat.completions.create(model=ctx.model, messages=[question])
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class JudgeEnvConfig(vf.SingleAgentEnvConfig):
    """What runs the judge."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    """This machine; by default verifiers rents a sandbox and reaches the model through a public
    tunnel."""


class JudgeEnv(vf.Env[JudgeEnvConfig]):
    """The judge, alone with one pair."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """See ``verifiers.v1.Env``."""
        await agents.agent.run(task)
