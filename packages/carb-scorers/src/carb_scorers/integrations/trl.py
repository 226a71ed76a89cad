"""A scorer as a reward function of TRL's trainers (``GRPOTrainer(reward_funcs=...)``)."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import anyio.to_thread

from carb_data import CarbError
from carb_scorers.scorer import Scorer
from carb_scorers.spec import asked_about, check_about
from carb_scorers.texts import (
    Opened,
    Text,
    check_company,
    entries,
    is_list,
    role_of,
    score_texts,
    turns_of,
)
from carb_scorers.waiting import wait_for

Scale = Callable[[float], float]
FIRST_TRL = (1, 6)
"""The first release that leaves a completion without a reward out of its group."""

_ROLES = "assistant user system tool function ipython"
WHOLE_GROUPS = (
    "Give each process whole groups (per_device_train_batch_size a multiple of num_generations)"
)


class TRLReward:
    """Called by the trainer with a batch; gives a reward for each completion, ``None`` where
    scoring failed."""

    def __init__(
        self,
        scorer: Scorer | str,
        culture: str | None,
        language: str | None,
        seed: int,
        scale: Scale,
    ) -> None:
        self._opened = Opened(scorer)
        self._constants = {"culture": culture, "language": language}
        self._seed = seed
        self._scale = scale
        self.__name__ = self._opened.name

    def __call__(self, *arguments: Any, **columns: Any) -> list[float | None]:
        """``rewards``, waited for."""
        return wait_for(partial(self.rewards, *arguments, **columns))

    async def rewards(
        self,
        prompts: Sequence[object],
        completions: Sequence[object],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Rewards, one for each completion.

        Args:
            prompts: texts, or chats as lists of messages.
            completions: texts, or lists with the assistant's messages.
            log_metric: the trainer's function for metrics; it gets the share of completions that
                could not be scored.
            columns: The columns of the data set, among them ``culture`` and ``language``.

        Raises:
            CarbError: a culture or language is missing, a column is no list as long as the prompts,
                or the scorer cannot be opened.
        """
        given = {"prompts": prompts, "completions": completions, **columns}
        for name in ("prompts", "completions", *self._constants):
            if not is_list(given.get(name, prompts), len(prompts)):
                raise CarbError(
                    f"'{name}' must be a list with a value for each of the {len(prompts)} prompts."
                )
        used = await anyio.to_thread.run_sync(self._opened.get)
        count = len(prompts)
        about: list[list[str | None]] = []
        for name, constant in self._constants.items():
            column = columns.get(name, [None] * count)
            known = [None if value != value else value for value in column]  # NaN is no value
            about.append([constant if value is None else str(value) for value in known])
        remedy = "add a column '{name}' to the training data, or give as_trl_reward({name}=...)."
        texts = []
        rows = zip(prompts, map(_answer, completions), zip(*about, strict=True), strict=True)
        for prompt, answer, (culture, language) in rows:
            place = asked_about(used.spec, culture, language, remedy)
            texts.append(Text.of(prompt, answer, *place))
        check_company(used.spec, texts, WHOLE_GROUPS)
        scores = [one.score for one in await score_texts(used, texts, seed=self._seed)]
        rewards = [None if score is None else self._scale(score) for score in scores]
        if log_metric is not None and rewards:
            share = rewards.count(None) / len(rewards)
            log_metric(f"rewards/{self.__name__}/failed", share)
        return rewards


class AsyncTRLReward(TRLReward):
    """Awaited by the trainer, which asks its asynchronous rewards all at once."""

    async def __call__(  # type: ignore[override]
        self, *arguments: Any, **columns: Any
    ) -> list[float | None]:
        """``rewards``."""
        return await self.rewards(*arguments, **columns)


_UNANSWERED = "<think>"
"""A text without an answer."""


def _answer(completion: object) -> str:
    """The assistant's words; of several turns (with tool calls between) all of its own.

    A thought where it wrote no answer, not even an empty one: TRL passes on a conversation that
    ended with a call.
    """
    from carb_scorers.models.marks import answer_in  # a baseline is opened without models

    if isinstance(completion, str):
        return completion
    given = [(one, role_of(one, "assistant")) for one in entries(completion)]
    turns = [one for one, role in given if role == "assistant"]
    strange = {role for _, role in given}.difference(_ROLES.split())
    if strange and not turns:
        raise CarbError(
            f"No message of a completion is the assistant's; their role is {', '.join(strange)}."
        )
    answers = [answer_in(text) for _, text in turns_of(turns)]
    if None in answers[-1:]:  # it ends within a thought
        return _UNANSWERED
    words = [text for text in answers if text and text.strip()]
    # a call or a thought is another key of its turn, whose content is then no answer
    plain = [one for one in turns if {name for name in one if one[name]} <= {"role", "content"}]
    if words or any(isinstance(one.get("content"), str) for one in plain):
        return "\n\n".join(words)
    return _UNANSWERED


def _check_trl() -> None:
    try:
        installed = version("trl")
    except PackageNotFoundError:
        return
    release = tuple(map(int, re.findall(r"\d+", installed)[:2]))
    if release < FIRST_TRL:
        raise CarbError(
            f"TRL {installed} counts a reward of None as 0, which is the best of a group of "
            f"negative rewards. Install a later one: pip install 'carb-scorers[trl]'"
        )


def as_trl_reward(
    scorer: Scorer | str,
    *,
    culture: str | None = None,
    language: str | None = None,
    seed: int = 0,
    scale: Scale = float,
    awaited: bool = False,
) -> TRLReward:
    """A scorer as a reward function for ``GRPOTrainer`` and its kin.

    Completions of the same prompt are put into one request, so that scorers that compare (judges)
    have something to compare; equal completions get equal rewards. A trainer on several processes
    calls this on each with its own share, so give such scorers whole groups
    (``per_device_train_batch_size`` a multiple of ``num_generations``). One completion alone is
    refused.

    Args:
        scorer: a spec string (opened when first called) or a ``Scorer``.
        culture: culture of the prompts that have none in a column ``culture`` of the data.
        language: language of the prompts that have none in a column ``language`` of the data.
        seed: seed of the order in which completions are presented.
        scale: function of a score that gives the reward, such as ``carb_metrics.centred``'s;
            default: the score itself.
        awaited: whether the function is asynchronous, which suits a scorer on a server; by default
            it is not.

    Returns:
        A function ``(prompts, completions, **columns) -> list of rewards``. A completion that could
        not be scored gets ``None``, which TRL leaves out of the group's mean.

    Raises:
        CarbError: TRL is older than 1.6, which takes ``None`` for 0. Or the argument is no scorer,
            the culture is not registered, or the language is no tag. Or a spec has no such kind or
            option; a missing model is found at the first call.
    """
    _check_trl()
    check_about(culture, language)
    kind = TRLReward
    if awaited:
        kind = AsyncTRLReward
    return kind(scorer, culture, language, seed, scale)
