"""Perturbed versions of right answers that a model writes, each checked before it is used."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

from carb_data import (
    BonSet,
    CarbError,
    Dataset,
    Perturbation,
    Response,
    names_culture,
    normalise,
    same_language,
)
from carb_data.surface import is_known
from carb_scorers.generate.instructions import for_version
from carb_scorers.generate.writers import (
    Progress,
    WriteReport,
    Writers,
    plain_fault,
    similarity,
    write_all,
)

WORDING: Mapping[Perturbation, tuple[float, float]] = {
    Perturbation.CC: (0.3, 0.998),
    Perturbation.RP: (0.05, 0.97),
}
"""Least and largest cosine of character n-grams to the original. They hold the hand-made versions
of carb-seed, and refuse little. Wording cannot be compared across languages (CL)."""
MOST_UNCHANGED = 0.2
"""Share of its text in which a paraphrase may begin and end as its original does. Beyond it, only
one phrase was changed, as for a changed concept."""
LENGTH_RATIO = 1.6
"""How many times longer or shorter than its original a text in the same language may be, in
characters."""
ATTEMPTS = 4
"""How often a text is written before it is given up."""


@dataclass(frozen=True)
class _Job:
    item: BonSet
    kind: Perturbation
    language: str

    @property
    def response_id(self) -> str:
        suffix = ""
        if self.kind is Perturbation.CL:
            suffix = f"-{self.language}"
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
    seed: int = 0,
    store: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Dataset, WriteReport]:
    """Add perturbed versions of ``chosen`` to the sets of a data set.

    Each is checked: its language; the culture's name gone (RC) or kept (CC, RP, CL). It is neither
    the same text nor a rejected answer. Its length and wording are near the original's; for RP it
    is reworded throughout. Only a reader can confirm the meaning of a model's version: it is marked
    unverified.

    Args:
        dataset: The sets; they are not changed, new ones are returned.
        kinds: The kinds of perturbations to make: any of ``CC``, ``RC``, ``CL``, ``RP``.
        model: Spec of the model that writes, such as ``openai:MODEL?url=…``.
        languages: The BCP 47 tags of the languages into which CL translates.
        seed: The model's seeds are derived from it.
        store: The file of the model's answers: a second run pays only for missing ones. Null keeps
            no file.
        progress: The function that is called with the numbers of versions done, to do, and given
            up.

    Raises:
        CarbError: An unknown kind, or a model that refuses every request.
        MissingExtraError: An extra that the model or the checks need is not installed.
    """
    known = [kind.value for kind in Perturbation]
    if not kinds or not set(kinds) <= set(known):
        raise CarbError(
            f"Unknown perturbations {sorted(set(kinds) - set(known))}; there are "
            f"{', '.join(known)}."
        )
    chosen = [kind for kind in Perturbation if kind.value in kinds]
    jobs, skipped = _jobs(dataset, chosen, languages)
    written, report = write_all(
        [(f"{job.item.id} {job.response_id}", job) for job in jobs],
        partial(_make, model=model, seed=seed),
        store,
        progress,
        count=lambda made: str(made[1].perturbation),
        skipped=skipped,
    )
    versions: dict[str, list[Response]] = {}
    for item_id, version in written:
        versions.setdefault(item_id, []).append(version)
    sets = [_with(item, versions.get(item.id, ())) for item in dataset]
    return Dataset(sets), report


async def _make(
    job: _Job,
    writers: Writers,
    *,
    model: str,
    seed: int,
) -> tuple[str, Response]:
    """A set's id, and the version that a model wrote for it."""
    item = job.item
    text = item.chosen.text
    asked = for_version(job.kind, text, culture=item.culture, language=job.language)
    passed = await writers.until(
        job.kind,
        [(model, asked)] * ATTEMPTS,
        (seed, item.id, job.response_id),
        partial(_fault, job),
    )
    return item.id, job.version(passed.text, model)


def _with(item: BonSet, versions: Sequence[Response]) -> BonSet:
    if not versions:
        return item
    return item.changed(perturbed=(*item.perturbed, *versions))


def _jobs(
    dataset: Dataset, kinds: Sequence[Perturbation], languages: Sequence[str]
) -> tuple[list[_Job], Counter[str]]:
    jobs: list[_Job] = []
    skipped: Counter[str] = Counter()
    for item in dataset:
        spoken = item.chosen.language
        versions = [one for one in item.perturbed if one.original == item.chosen.id]
        present = {(one.perturbation, one.language) for one in versions}
        for kind in kinds:
            wanted = languages if kind is Perturbation.CL else (spoken,)
            for language in wanted:
                if kind is Perturbation.RC and not names_culture(item.chosen.text, item.culture):
                    skipped["RC: the answer does not name the culture"] += 1
                elif kind is Perturbation.CL and same_language(language, spoken):
                    skipped["CL: the set is in that language"] += 1
                elif (kind, language) in present:
                    skipped[f"{kind}: there already"] += 1
                else:
                    jobs.append(_Job(item, kind, language))
    return jobs, skipped


def _fault(job: _Job, text: str) -> str | None:
    """The reason why a text is not the version, or null."""
    item = job.item
    original = job.item.chosen.text
    if normalise(text) == normalise(original):
        return "the same text as its original"
    beside = None
    if job.kind is not Perturbation.CL:  # a length says nothing across languages
        beside = original
    reason = plain_fault(text, job.language, beside=beside, ratio=LENGTH_RATIO)
    if reason is not None:
        return reason
    names = names_culture(text, item.culture)
    if job.kind is Perturbation.RC and names:
        return "still names the culture"
    named = names_culture(original, item.culture) and is_known(item.culture, job.language)
    if job.kind is not Perturbation.RC and named and not names:
        return "no longer names the culture"
    if any(normalise(text) == normalise(wrong.text) for wrong in item.rejected):
        return "the same text as a rejected answer"
    share = unchanged_share(original, text)
    if job.kind is Perturbation.RP and share > MOST_UNCHANGED:
        return f"changed in one place only: {share:.0%} begins and ends as its original"
    if job.kind not in WORDING:
        return None
    low, high = WORDING[job.kind]
    near = similarity(original, text)
    if low <= near <= high:
        return None
    return f"similarity {near:.3f} outside {low} to {high}"


def unchanged_share(original: str, version: str) -> float:
    """Length of the common beginning and the common end, as a share of the longer text: near 1 for
    one small change."""
    one = normalise(original)
    other = normalise(version)
    longest = max(len(one), len(other), 1)
    start = _shared_start(one, other)
    rests = [text[start:][::-1] for text in (one, other)]
    return (start + _shared_start(*rests)) / longest


def _shared_start(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
