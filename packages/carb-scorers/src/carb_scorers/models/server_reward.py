"""Classifiers on a vLLM server: ``/classify`` and ``/score``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from carb_data import CarbError
from carb_scorers.models.protocol import BackendKind, Failure, Prompt, Reward, Turn, plain_text
from carb_scorers.models.server_client import Clock, Endpoint, gather
from carb_scorers.models.server_options import ServerRewardOptions
from carb_scorers.models.tokens import guarded_unseen
from carb_scorers.scorer import Usage


class ServerRewardModel:
    """See ``RewardModel``. Each candidate is a request of its own, and fails alone. Nothing is sent before it is asked.

    Raises:
        CarbError: the URL is not one, the key is missing, an option has no use, or httpx is not installed.
    """

    def __init__(self, model: str, options: ServerRewardOptions, clock: Clock | None = None) -> None:
        if options.api == "score" and json.loads(options.chat_template_kwargs):
            raise CarbError("chat_template_kwargs= needs api=classify: with api=score no template is used.")
        self.model = model
        self.revision: str | None = None  # a server does not say
        self.in_flight: int | None = options.concurrency
        self._api = options.api
        root = options.url.rstrip("/").removesuffix("/v1")  # a path may stand beside it
        self._endpoint = Endpoint(options, clock, url=root)
        self._extra: dict[str, Any] = json.loads(options.body)
        self._variables: dict[str, Any] = json.loads(options.chat_template_kwargs)

    async def rewards(self, prompts: Sequence[Prompt], answers: Sequence[str]) -> list[Reward | Failure]:
        """See ``RewardModel``. The head's own output: the server is asked to put no sigmoid behind it.

        Raises:
            CarbError: the head has several outputs, or see ``Endpoint.ask``.
        """
        return await gather(
            [
                partial(self._endpoint.ask, f"/{self._api}", self._body(prompt, answer), self._reward)
                for prompt, answer in zip(prompts, answers, strict=True)
            ]
        )

    async def aclose(self) -> None:
        """Nothing is held between calls."""

    def _body(self, prompt: Prompt, answer: str) -> dict[str, Any]:
        answer = guarded_unseen(answer)
        if self._api == "score":
            asked: dict[str, Any] = {"text_1": guarded_unseen(plain_text(prompt)), "text_2": answer}
        else:
            turns = [{**turn, "content": guarded_unseen(turn["content"])} for turn in prompt.messages]
            asked = {
                "messages": [*turns, Turn(role="assistant", content=answer)],
                "add_generation_prompt": False,
                "chat_template_kwargs": self._variables or None,
            }
        return {"model": self.model, **asked, "use_activation": False, **self._extra}

    def _reward(self, answer: Mapping[str, Any], usage: Usage) -> Reward:
        row = answer["data"][0]
        outputs = row["probs"] if self._api == "classify" else [row["score"]]
        if len(outputs) > 1:
            raise CarbError(f"'{self.model}' has {len(outputs)} outputs, and backend=openai reads one; use backend=hf.")
        return Reward(float(outputs[0]), usage)


REWARD_MODEL = BackendKind(ServerRewardOptions, ServerRewardModel)
