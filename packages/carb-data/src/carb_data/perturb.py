"""Perturbed versions of ``chosen``: RC by rule, CL, RP and CC by a model, each verified before it is used."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from carb_data.construct.calls import Calls, ModelUsage, work_off
from carb_data.construct.clients import GenerationError, Models
from carb_data.construct.config import EmbedderSpec, ModelSpec
from carb_data.construct.journal import AnswerJournal
from carb_data.construct.pipeline import clean
from carb_data.construct.prompts import Prompts, fill, language_name
from carb_data.dataset import Dataset
from carb_data.errors import CarbError
from carb_data.labels import is_known, names_culture
from carb_data.models import BonSet, Perturbation, Response
from carb_data.registry import cultures
from carb_data.unlabel import remove_label
from carb_data.verification import VersionCalibration, unchanged_share
from carb_data.waiting import wait_for

__all__ = ["perturb"]

WORDING: Mapping[Perturbation, tuple[float, float]] = {
    Perturbation.CC: (0.3, 0.998),
    Perturbation.RP: (0.05, 0.97),
}
"""Least and largest cosine of character n-grams to the original, where there is no embedding model: they hold all
hand-made ones of carb-seed@2, and refuse little. Wording cannot be compared across languages (CL)."""

MOST_UNCHANGED = 0.2
"""Share of its text in which a paraphrase may begin and end as its original does. Of the hand-made texts of
carb-seed@2, 6 of 120 paraphrases have more, and 109 of 120 changed concepts."""

LENGTH_RATIO = 1.6
"""How many times longer or shorter than its original a text in the same language may be, in characters."""

RULES = "rules of carb-data"
"""Generator of the versions made without a model."""


@dataclass(frozen=True, slots=True)
class PerturbFailure:
    """A version that could not be made; nothing was added to the set in its place."""

    item_id: str
    perturbation: Perturbation
    language: str
    reasons: tuple[str, ...]
    """One for each attempt."""


@dataclass(frozen=True, slots=True)
class PerturbResult:
    """The data set with its new perturbed texts, and what was made, left out and failed."""

    dataset: Dataset
    made: dict[str, int]
    """Number of new texts by perturbation."""
    unverified: dict[str, int]
    """How many of these no embedding model could verify, by perturbation; their ``verified`` is false."""
    calibration: VersionCalibration | None
    """How well the embedding model tells good versions from bad ones; None where none was used."""
    skipped: dict[str, int]
    """Reason to number of versions that were not asked for."""
    failures: tuple[PerturbFailure, ...]
    """Failures in the order of the data set; ``made``, ``skipped`` and these sum to all that could be asked for."""
    usage: dict[str, ModelUsage]
    """Usage by model."""

    @property
    def cost(self) -> float:
        """Cost of this run's calls by the generator's prices."""
        return sum(usage.cost for usage in self.usage.values())


@dataclass(frozen=True, slots=True)
class _Job:
    item: BonSet
    kind: Perturbation
    language: str

    @property
    def response_id(self) -> str:
        suffix = f"-{self.language}" if self.kind is Perturbation.CL else ""
        return f"{self.item.chosen.id}-{self.kind.value.lower()}{suffix}"


def perturb(
    dataset: Dataset,
    kinds: Collection[str],
    *,
    generator: ModelSpec | None = None,
    models: Models | None = None,
    languages: Sequence[str] = ("en",),
    embedder: EmbedderSpec | None = None,
    prompts: Prompts | None = None,
    attempts: int = 4,
    replace: bool = False,
    seed: int = 0,
    journal: str | Path | None = None,
    parallel: int = 8,
    progress: Callable[[int, int, int], None] | None = None,
) -> PerturbResult:
    """Add perturbed versions of ``chosen`` to the sets of a data set.

    Each is checked: the language that it should be in, the culture's name gone (RC) or kept (CC, RP, CL), not the
    same text nor a rejected answer, about the same length, and for RP reworded throughout. With an embedding model as
    ``embedder`` it must also be near its original, by limits that are calibrated on the seed's hand-made versions, and
    RP nearer than to every rejected answer; only then is it marked ``verified``. It may be called where an event loop
    runs, as in a notebook.

    Args:
        dataset: the sets; they are not changed, new ones are returned.
        kinds: the kinds of perturbations to make: any of ``CC``, ``RC``, ``CL``, ``RP``.
        generator: the model that writes CL, RP and CC; RC needs none.
        models: the factory of the generator and the embedder (``carb_data.construct.Models``); RC needs none.
        languages: the BCP 47 tags of the languages into which CL translates.
        embedder: the embedding model that verifies; without one character n-grams compare wording alone, and every
            version is marked unverified.
        prompts: templates (``translate``, ``paraphrase``, ``change_concept``).
        attempts: The number of times that a text is written before it is given up.
        replace: whether to make versions again that a set has already.
        seed: the seed from which the model's seeds are derived.
        journal: the file of the model's answers: a second run pays only for what is missing. None keeps no file.
        parallel: the number of texts in work at a time.
        progress: the function that is called with the numbers of versions done, to do, and failed.

    Raises:
        CarbError: an unknown kind, no generator for a kind that needs one, or a model that refuses every request.
        MissingExtraError: an extra (``construct``, ``local``, ``checks``) is not installed.
    """
    wanted = _kinds(kinds, generator)
    jobs, skipped = _jobs(dataset, wanted, languages, replace)
    made: dict[tuple[str, str], Response] = {}
    failed: dict[_Job, tuple[str, ...]] = {}
    writer = _Writer(generator, embedder or EmbedderSpec(), prompts or Prompts(), attempts, seed)
    to_write = [job for job in jobs if job.kind is not Perturbation.RC]

    def keep(job: _Job, outcome: Response | tuple[str, ...]) -> None:
        if isinstance(outcome, Response):
            made[job.item.id, job.response_id] = outcome
        else:
            failed[job] = outcome
        if progress is not None:
            progress(len(made) + len(failed), len(jobs), len(failed))

    for job in jobs:
        if job.kind is Perturbation.RC:
            keep(job, _unlabelled(job))
    if to_write:
        with AnswerJournal(None if journal is None else Path(journal)) as kept:
            wait_for(_write_all, to_write, writer, kept, models, parallel, keep)
    return PerturbResult(
        dataset=Dataset(_with_versions(item, jobs_of, made) for item, jobs_of in _by_item(dataset, jobs)),
        made=dict(sorted(Counter(str(response.perturbation) for response in made.values()).items())),
        unverified=dict(sorted(Counter(str(r.perturbation) for r in made.values() if r.verified is False).items())),
        calibration=writer.calibration,
        skipped=dict(skipped),
        failures=tuple(
            PerturbFailure(job.item.id, job.kind, job.language, failed[job]) for job in jobs if job in failed
        ),
        usage=writer.usage,
    )


def _kinds(kinds: Collection[str], generator: ModelSpec | None) -> list[Perturbation]:
    known = [kind.value for kind in Perturbation]
    unknown = sorted(set(kinds) - set(known))
    if unknown or not kinds:
        raise CarbError(f"Unknown perturbations {unknown}; there are {', '.join(known)}.")
    chosen = [kind for kind in Perturbation if kind.value in kinds]
    if generator is None and chosen != [Perturbation.RC]:
        raise CarbError("CL, RP and CC are written by a model: give a generator. RC alone needs none.")
    return chosen


def _jobs(
    dataset: Dataset, kinds: Sequence[Perturbation], languages: Sequence[str], replace: bool
) -> tuple[list[_Job], Counter[str]]:
    jobs: list[_Job] = []
    skipped: Counter[str] = Counter()
    for item in dataset:
        own = item.chosen.language
        present = {(r.perturbation, r.language) for r in item.perturbed if r.original == item.chosen.id}
        for kind in kinds:
            for language in languages if kind is Perturbation.CL else (own,):
                if kind is Perturbation.CL and _primary(language) == _primary(own):
                    skipped["CL: the set is in that language"] += 1
                elif (kind, language) in present and not replace:
                    skipped[f"{kind}: there already"] += 1
                else:
                    jobs.append(_Job(item, kind, language))
    return jobs, skipped


def _by_item(dataset: Dataset, jobs: Sequence[_Job]) -> Iterator[tuple[BonSet, list[_Job]]]:
    mine: dict[str, list[_Job]] = {}
    for job in jobs:
        mine.setdefault(job.item.id, []).append(job)
    for item in dataset:
        yield item, mine.get(item.id, [])


def _with_versions(item: BonSet, jobs: Sequence[_Job], made: Mapping[tuple[str, str], Response]) -> BonSet:
    new = [made[item.id, job.response_id] for job in jobs if (item.id, job.response_id) in made]
    replaced = {(r.perturbation, r.language, r.original) for r in new}
    ids = {r.id for r in new}
    kept = [r for r in item.perturbed if (r.perturbation, r.language, r.original) not in replaced and r.id not in ids]
    return item.model_copy(update={"perturbed": (*kept, *new)}) if new else item


def _unlabelled(job: _Job) -> Response | tuple[str, ...]:
    text = job.item.chosen.text
    if not names_culture(text, job.item.culture):
        return ("its original does not name the culture",)
    shorter = remove_label(text, job.item.culture, job.language)
    if shorter is None:
        return ("no rule takes the culture's name out",)
    return _version(job, shorter, RULES)


def _version(job: _Job, text: str, generator: str, *, verified: bool | None = None) -> Response:
    original = job.item.chosen
    return Response(
        id=job.response_id,
        text=text,
        role=original.role,
        language=job.language,
        culture=original.culture,
        generator=generator,
        perturbation=job.kind,
        original=original.id,
        verified=verified,
    )


async def _write_all(
    jobs: Sequence[_Job],
    writer: _Writer,
    journal: AnswerJournal,
    models: Models | None,
    parallel: int,
    keep: Callable[[_Job, Any], None],
) -> None:
    async with Calls(journal, writer.embedder, models) as calls:
        if writer.embedder.kind != "ngrams":
            writer.calibration = await calls.calibration()

        async def work(job: _Job) -> None:
            keep(job, await writer.write(job, calls))

        try:
            await work_off(jobs, work, parallel)
        finally:
            writer.usage.update(sorted(calls.usage.items()))


@dataclass(slots=True)
class _Writer:
    generator: ModelSpec | None
    embedder: EmbedderSpec
    prompts: Prompts
    attempts: int
    seed: int
    calibration: VersionCalibration | None = None
    usage: dict[str, ModelUsage] = field(default_factory=dict)

    async def write(self, job: _Job, calls: Calls) -> Response | tuple[str, ...]:
        """A verified version, or the reason of every attempt."""
        assert self.generator is not None
        prompt = self._prompt(job)
        reasons: list[str] = []
        for attempt in range(self.attempts):
            content = f"{self.seed}\0{job.item.id}\0{job.response_id}\0{attempt}"
            seed = int.from_bytes(hashlib.sha256(content.encode()).digest()[:4], "big") >> 1
            try:
                answer = await calls.complete(self.generator, job.response_id, prompt, seed)
                text = clean(answer.text)
                reason = "cut off at max_tokens" if answer.finish == "length" else await self._fault(job, text, calls)
            except GenerationError as error:
                text, reason = "", f"the model failed: {error}"
            if reason is None:
                languages = (job.item.chosen.language, job.language)
                verified = self.calibration is not None and self.calibration.verifies(job.kind, *languages)
                return _version(job, text, self.generator.model, verified=verified)
            reasons.append(reason)
        return tuple(reasons)

    def _prompt(self, job: _Job) -> str:
        template = {
            Perturbation.CL: self.prompts.translate,
            Perturbation.RP: self.prompts.paraphrase,
            Perturbation.CC: self.prompts.change_concept,
        }[job.kind]
        culture = cultures[job.item.culture].name
        language = language_name(job.language)
        text = job.item.chosen.text
        return fill(
            template, culture=culture, language=language, text=text, question=job.item.prompt_text, reference=""
        )

    async def _fault(self, job: _Job, text: str, calls: Calls) -> str | None:
        from carb_data.language import in_language
        from carb_data.ngrams import normalise

        original = job.item.chosen.text
        if not text:
            return "empty"
        if normalise(text) == normalise(original):
            return "the same text as its original"
        if not in_language(text, job.language):
            return f"not in '{job.language}'"
        named = names_culture(original, job.item.culture)
        if named and is_known(job.item.culture, job.language) and not names_culture(text, job.item.culture):
            return "no longer names the culture"
        if job.kind is not Perturbation.CL and not 1 / LENGTH_RATIO <= len(text) / len(original) <= LENGTH_RATIO:
            return f"length: {len(text)} characters beside {len(original)}"
        if any(normalise(text) == normalise(wrong.text) for wrong in job.item.rejected):
            return "the same text as a rejected answer"
        if job.kind is Perturbation.RP and (share := unchanged_share(original, text)) > MOST_UNCHANGED:
            return f"changed in one place only, as a changed concept is: {share:.0%} begins and ends as its original"
        return await (self._wording(job, text, calls) if self.calibration is None else self._meaning(job, text, calls))

    async def _wording(self, job: _Job, text: str, calls: Calls) -> str | None:
        if job.kind not in WORDING:
            return None
        low, high = WORDING[job.kind]
        similarity = await calls.similarity(job.item.chosen.text, text)
        return None if low <= similarity <= high else f"similarity {similarity:.3f} outside {low} to {high}"

    async def _meaning(self, job: _Job, text: str, calls: Calls) -> str | None:
        assert self.calibration is not None
        rejected = [wrong.text for wrong in job.item.rejected] if job.kind is Perturbation.RP else []
        version, *others = [
            (vector, language)
            for vector, language in zip(
                await calls.embed([text, job.item.chosen.text, *rejected]),
                (job.language, *[job.item.chosen.language] * (1 + len(rejected))),
                strict=True,
            )
        ]
        own, *wrong = [self.calibration.cosine(version, other) for other in others]
        least = self.calibration.least[job.kind]
        if own < least:
            return f"similarity {own:.3f} below {least:.3f}"
        if any(theirs >= own for theirs in wrong):
            return "nearer to a rejected answer than to its original"
        return None


def _primary(tag: str) -> str:
    return tag.partition("-")[0].lower()
