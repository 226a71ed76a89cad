"""A scorer as a custom reward function of verl (``reward.custom_reward_function.path`` and
``.name``).

verl calls ``compute_score(data_source, solution_str, ground_truth, extra_info)``, since 0.7 from
many threads at once on each of ``reward.num_workers`` processes. Its manager ``batch`` calls it
with lists instead, which hold whole groups. verl does not give the prompt, so that must be in
``extra_info``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from carb_data import CarbError
from carb_scorers.scorer import Scorer, ScorerSpec
from carb_scorers.spec import asked_about
from carb_scorers.texts import (
    Opened,
    Scored,
    Text,
    check_company,
    is_list,
    score_texts,
)
from carb_scorers.waiting import wait_together

WHOLE_GROUPS = (
    "Set reward_manager=batch, which gives whole groups, and val_kwargs.n above 1 for validation"
)


Info = Mapping[str, Any]
"""The fields of a row beside its prompt."""


class NoRewardError(RuntimeError):
    """A response could not be scored, and ``when_failed`` names no reward for it."""


def as_verl_reward(
    scorer: Scorer | str,
    *,
    when_failed: float | None = None,
    seed: int = 0,
    scale: Callable[[float], float] = float,
) -> Callable[..., Any]:
    """A scorer as verl's ``compute_score``.

    Args:
        scorer: a spec string (opened when first called) or a ``Scorer``.
        when_failed: reward of a response that could not be scored. There are no missing rewards in
            verl: without this option such a response ends the training with ``NoRewardError``, and
            gets no made-up number. But verl's managers ``rate_limited`` and ``prime`` turn any
            error into a reward of 0.
        seed: seed of the order in which responses are presented.
        scale: as for ``as_trl_reward``.

    Returns:
        ``compute_score(data_source, solution_str, ground_truth, extra_info=None, **_) -> float``,
        which verl's manager ``batch`` calls as ``compute_score(solution_strs=..., extra_infos=...,
        ...) -> list of floats``. Responses to the same prompt then share a request, as a scorer
        that compares (a judge) needs. It needs ``prompt`` (a text or messages) in ``extra_info``,
        and ``culture`` and ``language`` where the scorer reads them. Data source and ground truth
        are not used.

    Raises:
        CarbError: the argument is no scorer. When ``compute_score`` is called, too: the scorer
            cannot be opened, or it compares and gets one response alone.
        NoRewardError: when called, a response has no score, and ``when_failed`` is not given.
    """
    opened = Opened(scorer)

    def rewards(responses: Sequence[str], infos: Sequence[Info | None]) -> list[float]:
        used = opened.get()
        if not (is_list(responses) and is_list(infos, len(responses))):
            raise CarbError("verl must give a list of texts and as many extra_infos.")
        pairs = zip(responses, infos, strict=True)
        texts = [_text(response, info, used.spec) for response, info in pairs]
        check_company(used.spec, texts, WHOLE_GROUPS)
        ask = partial(score_texts, used, texts, seed=seed)
        return [_reward(scored, when_failed, scale) for scored in wait_together(ask)]

    def compute_score(
        data_source: Any = None,  # noqa: ARG001 - verl's signature
        solution_str: str | None = None,
        ground_truth: Any = None,  # noqa: ARG001
        extra_info: Info | None = None,
        *,
        solution_strs: Sequence[str] | None = None,
        extra_infos: Sequence[Info | None] = (),
        **_: Any,
    ) -> float | list[float]:
        if solution_strs is not None:
            return rewards(solution_strs, extra_infos)
        if solution_str is None:
            raise CarbError("verl gave no text (solution_str), which is all that is scored here.")
        return rewards([solution_str], [extra_info])[0]

    return compute_score


def _text(response: str, info: Info | None, spec: ScorerSpec) -> Text:
    remedy = "put it into verl's extra_info when you prepare the data."
    if not isinstance(info, Mapping) or info.get("prompt") is None:
        raise CarbError(f"A reward needs an extra_info with a prompt: {remedy}")
    about = asked_about(spec, info.get("culture"), info.get("language"), remedy)
    return Text.of(info["prompt"], response, *about)


def _reward(scored: Scored, when_failed: float | None, scale: Callable[[float], float]) -> float:
    if scored.score is not None:
        return scale(scored.score)
    if when_failed is not None:
        return when_failed
    assert scored.error is not None  # it says why there is no score
    raise NoRewardError(
        f"A response could not be scored ({scored.error.kind}: {scored.error.message}). Give "
        "as_verl_reward(when_failed=...) to go on."
    )
