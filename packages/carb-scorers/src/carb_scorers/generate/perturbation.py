"""Perturbed versions of right answers that a model writes, each checked before it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from carb_data import BonSet, CarbError, Dataset, Perturbation, Response
from carb_data.labels import is_known, names_culture
from carb_data.language import in_language
from carb_data.models import Frozen
from carb_data.ngrams import normalise
from carb_scorers.generate.instructions import Instructions, fill
from carb_scorers.generate.writers import GivenUpError, Writers, similarity, work_off
from carb_scorers.waiting import wait_for

__all__ = ["FailedVersion", "PerturbReport", "perturb"]

WORDING: Mapping[Perturbation, tuple[float, float]] = {
    Perturbation.CC: (0.3, 0.998),
    Perturbation.RP: (0.05, 0.97),
}
"""Least and largest cosine of character n-grams to the original. They hold the hand-made versions of carb-seed, and
refuse little. Wording cannot be compared across languages (CL)."""
MOST_UNCHANGED = 0.2
"""Share of its text in which a paraphrase may begin and end as its original does: beyond, one place was changed, as a
changed concept is."""
LENGTH_RATIO = 1.6
"""How many times longer or shorter than its original a text in the same language may be, in characters."""


class FailedVersion(Frozen):
    """A version that could not be made; nothing was added to the set in its place."""

    item_id: str
    perturbation: Perturbation
    language: str
    reasons: tuple[str, ...]
    """One for each attempt."""


class PerturbReport(Frozen):
    """What was made, left out and failed."""

    made: dict[str, int]
    """Number of new texts by perturbation."""
    skipped: dict[str, int]
    """Reason to number of versions that were not asked for."""
    failures: tuple[FailedVersion, ...]
    """In the order of the data set; ``made``, ``skipped`` and these sum to all that could be asked for."""
    cost: float
    """Cost of this run's calls by the prices in the model's spec."""


@dataclass(frozen=True, slots=True)
class _Job:
    item: BonSet
    kind: Perturbation
    language: str

    @property
    def response_id(self) -> str:
        suffix = f"-{self.language}" if self.kind is Perturbation.CL else ""
        return f"{self.item.chosen.id}-{self.kind.value.lower()}{suffix}"

    def version(self, text: str, model: str) -> Response:
        original = self.item.chosen
        return Response(
            id=self.response_id,
            text=text,
            role=original.role,
            language=self.language,
            culture=original.culture,
            generator=model,
            perturbation=self.kind,
            original=original.id,
            verified=False,
        )


def perturb(
    dataset: Dataset,
    kinds: Collection[str],
    model: str,
    *,
    languages: Sequence[str] = ("en",),
    instructions: Instructions | None = None,
    attempts: int = 4,
    replace: bool = False,
    seed: int = 0,
    store: Path | None = None,
    parallel: int = 8,
    progress: Callable[[int, int, int], None] | None = None,
) -> tuple[Dataset, PerturbReport]:
    """Add perturbed versions of ``chosen`` to the sets of a data set.

    Each is checked: the language that it should be in, the culture's name gone (RC) or kept (CC, RP, CL), not the
    same text nor a rejected answer, about the same length, its wording near the original, and for RP reworded
    throughout. That a model's version means what it should only a reader can say: it is marked unverified.

    Args:
        dataset: The sets; they are not changed, new ones are returned.
        kinds: The kinds of perturbations to make: any of ``CC``, ``RC``, ``CL``, ``RP``.
        model: Spec of the model that writes, such as ``openai:MODEL?url=…``.
        languages: The BCP 47 tags of the languages into which CL translates.
        instructions: Templates for each kind; by default those of the package.
        attempts: The number of times that a text is written before it is given up.
        replace: Whether to make versions again that a set has already.
        seed: The seed from which the model's seeds are derived.
        store: The file of the model's answers: a second run pays only for what is missing. Null keeps no file.
        parallel: The number of texts in work at a time.
        progress: The function that is called with the numbers of versions done, to do, and failed.

    Raises:
        CarbError: An unknown kind, or a model that refuses every request.
        MissingExtraError: An extra that the model or the checks need is not installed.
    """
    jobs, skipped = _jobs(dataset, _kinds(kinds), languages, replace)
    made: dict[tuple[str, str], Response] = {}
    failed: dict[_Job, tuple[str, ...]] = {}

    async def write_all(told: Instructions) -> Writers:
        async with Writers(store) as writers:

            async def work(job: _Job) -> None:
                prompt = _prompt(job, told)
                key = (seed, job.item.id, job.response_id)
                try:
                    text, *_ = await writers.until(job.kind, [(model, prompt)], key, attempts, lambda t: _fault(job, t))
                    made[job.item.id, job.response_id] = job.version(text, model)
                except GivenUpError as failure:
                    failed[job] = failure.reasons
                if progress is not None:
                    progress(len(made) + len(failed), len(jobs), len(failed))

            await work_off(jobs, work, parallel)
        return writers

    writers = wait_for(write_all, instructions or Instructions())
    new = Dataset(_with_versions(item, [v for (name, _), v in made.items() if name == item.id]) for item in dataset)
    return new, PerturbReport(
        made=dict(sorted(Counter(str(response.perturbation) for response in made.values()).items())),
        skipped=dict(skipped),
        failures=tuple(
            FailedVersion(item_id=job.item.id, perturbation=job.kind, language=job.language, reasons=failed[job])
            for job in jobs
            if job in failed
        ),
        cost=writers.cost,
    )


def _kinds(kinds: Collection[str]) -> list[Perturbation]:
    known = [kind.value for kind in Perturbation]
    unknown = sorted(set(kinds) - set(known))
    if unknown or not kinds:
        raise CarbError(f"Unknown perturbations {unknown}; there are {', '.join(known)}.")
    return [kind for kind in Perturbation if kind.value in kinds]


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
                if kind is Perturbation.RC and not names_culture(item.chosen.text, item.culture):
                    skipped["RC: the answer does not name the culture"] += 1
                elif kind is Perturbation.CL and language.partition("-")[0] == own.partition("-")[0]:
                    skipped["CL: the set is in that language"] += 1
                elif (kind, language) in present and not replace:
                    skipped[f"{kind}: there already"] += 1
                else:
                    jobs.append(_Job(item, kind, language))
    return jobs, skipped


def _with_versions(item: BonSet, new: Sequence[Response]) -> BonSet:
    replaced = {(r.perturbation, r.language, r.original) for r in new}
    ids = {r.id for r in new}
    kept = [r for r in item.perturbed if (r.perturbation, r.language, r.original) not in replaced and r.id not in ids]
    return item.model_copy(update={"perturbed": (*kept, *new)}) if new else item


def _prompt(job: _Job, told: Instructions) -> str:
    templates = {
        Perturbation.CL: told.translate,
        Perturbation.RP: told.paraphrase,
        Perturbation.CC: told.change_concept,
        Perturbation.RC: told.remove_name,
    }
    item = job.item
    return fill(
        templates[job.kind],
        culture=item.culture,
        language=job.language,
        text=item.chosen.text,
        question=item.prompt_text,
    )


def _fault(job: _Job, text: str) -> str | None:
    """What keeps a text from being the version, or null."""
    item, original = job.item, job.item.chosen.text
    if not text:
        return "empty"
    if normalise(text) == normalise(original):
        return "the same text as its original"
    if not in_language(text, job.language):
        return f"not in '{job.language}'"
    names = names_culture(text, item.culture)
    if job.kind is Perturbation.RC and names:
        return "still names the culture"
    named = names_culture(original, item.culture) and is_known(item.culture, job.language)
    if job.kind is not Perturbation.RC and named and not names:
        return "no longer names the culture"
    if job.kind is not Perturbation.CL and not 1 / LENGTH_RATIO <= len(text) / len(original) <= LENGTH_RATIO:
        return f"length: {len(text)} characters beside {len(original)}"
    if any(normalise(text) == normalise(wrong.text) for wrong in item.rejected):
        return "the same text as a rejected answer"
    if job.kind is Perturbation.RP and (share := unchanged_share(original, text)) > MOST_UNCHANGED:
        return f"changed in one place only: {share:.0%} begins and ends as its original"
    if job.kind not in WORDING:
        return None
    low, high = WORDING[job.kind]
    near = similarity(original, text)
    return None if low <= near <= high else f"similarity {near:.3f} outside {low} to {high}"


def unchanged_share(original: str, version: str) -> float:
    """Share of the longer text with which both begin or end: near 1 where one place was changed."""
    one, other = normalise(original), normalise(version)
    size = min(len(one), len(other))
    start = next((n for n in range(size) if one[n] != other[n]), size)
    end = next((n for n in range(size - start) if one[-1 - n] != other[-1 - n]), size - start)
    return (start + end) / max(len(one), len(other), 1)
