"""Think-as-Locals as a form of judging: criteria, then a verdict, over pairs of candidates and any
backend."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import PositiveInt

from carb_data import Frozen, home_path, read_file
from carb_scorers import Candidate, Kind, Planned, ScoreError, Scorer, ScoreRequest, ScorerSpec
from carb_scorers.judge import Ask, Form, JudgeScorer, Read, among_labels, planned, shown_orders
from carb_scorers.models import Failure, Generation, LanguageModel, Prompt, Writing, message
from carb_scorers.models.protocol import Watch, read_backend_options
from tal_rlvr.judge_prompts import CUE, GENERAL, HasPrompt, PromptConfig, render_prompt
from tal_rlvr.judgement import MARKER, VERDICTS, FormatError, parse_judgement

THINK = "think.json"
ADAPTER = "adapter"
"""The folder of the adapters in that of the model into which they are merged."""


class ThinkSettings(Frozen):
    """``think.json``, which training writes beside a model."""

    prompts: PromptConfig = PromptConfig()
    direct: bool = False
    max_new_tokens: PositiveInt = 512


class ThinkOptions(Frozen):
    """Options of ``think:MODEL``, besides those of its backend; defaults are in ``think.json``."""

    backend: str = "hf"
    read: Literal["logprob", "verdict"] = "logprob"
    """``logprob``: a pair counts by the verdict's probability after the criteria; ``verdict``: by
    the verdict."""
    orders: Literal["one", "both"] = "both"
    """Each pair is shown in both orders, or only as given."""
    max_new_tokens: PositiveInt | None = None
    """Longest judgement, in tokens. Default: as in training, or 512."""
    language: str | None = None
    """Language of the instructions, or ``item``: each item's own. Default: as in training."""
    style: str | None = None
    """``full``, ``compact``, or a folder of prompts. Default: as in training."""
    chat: Literal["auto", "yes", "no"] | None = None
    """Whether the chat template is used; ``auto``: where there is one. Default: as in training."""


def think_form(settings: ThinkSettings, options: ThinkOptions) -> Form:
    """Pairs, judged as the model was trained to. An output that is not a judgement is left out; an
    item fails where a pair has no judgement in any order."""

    def asks(request: ScoreRequest) -> list[Ask]:
        by_id = {candidate.id: candidate for candidate in request.candidates}
        orders = shown_orders(tuple(by_id), "pairwise", options.orders)
        return [_ask(settings, request, by_id[first], by_id[second]) for first, second in orders]

    return Form(asks, partial(_read, settings, reads=options.read == "logprob"))


def _ask(
    settings: ThinkSettings, request: ScoreRequest, first: Candidate, second: Candidate
) -> Ask:
    shown = (first.text, second.text)
    culture = request.named_culture or GENERAL
    prompt = judge_prompt(settings, request, shown, culture)
    return Ask((first.id, second.id), prompt, VERDICTS, note=f"A = {first.id}, B = {second.id}\n")


def judge_prompt(
    settings: ThinkSettings, item: HasPrompt, shown: tuple[str, str], culture: str
) -> Prompt:
    """The judge's prompt about a pair; its token ids are those of training.

    Args:
        settings: the choice of prompt.
        item: the question, and its language.
        shown: the two responses in presented order, A first.
        culture: the id of the item's culture, or a name as it is to stand in the prompt.
    """
    prompts = settings.prompts
    (asked,) = render_prompt(
        item,
        shown,
        culture,
        prompts.language,
        direct=settings.direct,
        folder=prompts.folder(),
    )
    return Prompt((message("user", asked["content"]),), cue=f"\n{CUE}", bare=True)


async def _read(
    settings: ThinkSettings, model: LanguageModel, asks: Sequence[Ask], *, reads: bool
) -> list[Read | Failure]:
    watch = None
    if reads:
        watch = Watch(after=MARKER, words=VERDICTS)
    writing = Writing(settings.max_new_tokens, watch=watch)
    generations = await model.generate([ask.prompt for ask in asks], writing)
    out: list[Read | Failure] = []
    for one in generations:
        if isinstance(one, Failure):
            out.append(one)
        else:
            out.append(_judged(one, direct=settings.direct, reads=reads))
    return out


def _judged(written: Generation, *, direct: bool, reads: bool) -> Read | Failure:
    judgement = parse_judgement(written.text, direct=direct)
    if isinstance(judgement, FormatError):
        return Failure(
            ScoreError(kind="parse", message=f"no judgement: {judgement.message}"), written.usage
        )
    values = tuple(float(judgement.verdict == letter) for letter in VERDICTS)
    if reads:
        if written.choices is None:
            message = f"the probabilities of the verdict behind '{MARKER}' are not known"
            return Failure(ScoreError(kind="logprobs", message=message), written.usage)
        logprobs = among_labels(written.choices, VERDICTS)
        if isinstance(logprobs, Failure):
            return Failure(logprobs.error, written.usage)
        values = tuple(math.exp(logprobs[letter]) for letter in VERDICTS)
    return Read(values, written.usage, written.text.strip())


def read_think_settings(target: str) -> ThinkSettings:
    """``think.json`` beside a model, or the defaults where there is none.

    Raises:
        CarbError: the file is broken.
    """
    path = home_path(target) / THINK
    if not path.is_file():
        return ThinkSettings()
    return read_file(
        ThinkSettings, path, "form of a judge", "Remove it, or train again to write it."
    )


def _settings(target: str, options: Mapping[str, str]) -> ThinkSettings:
    """The settings beside a model, with those that the options change."""
    values = read_think_settings(target).model_dump()
    for key in ("language", "style", "chat"):
        if key in options:
            values["prompts"][key] = options[key]
    if "max_new_tokens" in options:
        values["max_new_tokens"] = options["max_new_tokens"]
    return ThinkSettings.model_validate(values)


def _open_think(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``think:MODEL``: a model trained by ``carb train``, or any language model that follows
    the form.

    Raises:
        CarbError: an option is wrong, or the model cannot be opened.
    """
    # says what is wrong with one, before the settings are read from them
    read_backend_options(ThinkOptions, name, options)
    settings = _settings(target, options)
    model, read = open_judge(name, target, options, settings)
    in_flight = model.in_flight
    if in_flight is None and read.backend == "hf":
        in_flight = 1  # here an item takes seconds, and is kept
    spec = ScorerSpec(
        name=name,
        kind="think",
        model=target,
        revision=model.revision,
        parameters={
            **read.model_dump(mode="json", exclude={"revision"}),
            **settings.model_dump(mode="json"),
            "tell": "culture",  # the prompt asks to think as a local of the set's culture
        },
        comparative=True,
        in_flight=in_flight,
    )
    return JudgeScorer(spec, model, think_form(settings, read))


def _plan_think(name: str, target: str, options: Mapping[str, str]) -> Planned:
    read, _ = read_backend_options(ThinkOptions, name, options)
    settings = _settings(target, options)
    longest = settings.max_new_tokens
    return planned(think_form(settings, read), comparative=True, longest=longest)


open_think = Kind(_open_think, _plan_think, reads_language=lambda _: True)


def open_judge(
    name: str, target: str, options: Mapping[str, str], settings: ThinkSettings
) -> tuple[LanguageModel, ThinkOptions]:
    """Open the language model of a judge on the backend that the options name.

    Args:
        name: the name that stands in messages.
        target: the model: a folder or a hub id.
        options: options of ``ThinkOptions`` and of the backend.
        settings: the choice of prompt.

    Raises:
        CarbError: an option is wrong, or the model cannot be opened.
    """
    plain: dict[str, str] = {}
    if settings.prompts.template:
        plain["chat_template_kwargs"] = json.dumps(settings.prompts.template)
    if settings.prompts.chat == "no":  # a server applies its own template to every chat
        plain = {"chat_template": "none"}
        if options.get("backend") == "openai":
            plain = {"api": "completions"}
    adapter = home_path(target) / ADAPTER
    if options.get("backend") == "vllm" and adapter.is_dir():
        plain["dtype"] = "float32"  # vLLM's own choice, bfloat16, would round the change away
    read, kind = read_backend_options(ThinkOptions, name, {**plain, **options})
    return kind.open(target, read), read


def judge_as_scorer(checkpoint: str | Path, *, name: str | None = None, **options: Any) -> Scorer:
    """A trained Think-as-Locals model as a scorer like any other.

    Args:
        checkpoint: folder of the model (``result.model`` of a run), or a hub id.
        name: the scorer's name in tables; null means ``think:CHECKPOINT``.
        options: options by name; ``ThinkOptions`` explains each.

    Raises:
        CarbError: the model or an option is not usable.
    """
    texts = {key: str(value) for key, value in options.items()}
    return open_think(name or f"think:{checkpoint}", str(checkpoint), texts)
