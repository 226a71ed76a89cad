"""``study.toml``: which scorers, benchmarks, policies and tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from carb_data.validation import parse_file, validate


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
"""A name that can be part of a file's name."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class BenchmarkConfig(_Table):
    """``[[benchmark]]``: what might predict. One of ``data``, ``run`` and ``file``."""

    name: Name
    data: Names = ()
    """Data sets; the study scores them."""
    run: Path | None = None
    """A run folder that holds all scorers already, under their specs."""
    file: Path | None = None
    """A CSV with the columns ``scorer`` (names as here) and ``score``: results of another benchmark."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Score only this many sets, spread evenly over cultures and domains."""
    max_chars: Annotated[int, Field(ge=1)] | None = None
    """The largest number of characters that prompt and responses may have together; longer sets are left out."""
    ties: Literal["strict", "shared"] = "strict"
    """How ties count, as in ``bon_accuracy``. ``shared`` treats a tie as Best-of-N does: as a pick at random among the
    tied."""
    source: Name | None = None
    """Where its items come from, for example ``blend``: a task of the same source shares its mistakes, and the result
    says so."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum((bool(self.data), self.run is not None, self.file is not None)) != 1:
            raise ValueError(f"benchmark '{self.name}' needs exactly one of data, run and file")
        return self


class ScorerConfig(_Table):
    """``[[scorer]]``: a reward model."""

    name: Name
    spec: str
    base: Name | None = None
    """The model that it was made from: scorers of one base are not independent. By default each is its own."""


class StudyPolicyConfig(_Table):
    """``[[policy]]``: what answers, for Best-of-N. One of ``spec`` and ``samples``."""

    name: Name
    spec: str | None = None
    samples: Path | None = None
    """A pool that ``carb bon`` drew; only for a single task."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.spec is None) == (self.samples is None):
            raise ValueError(f"policy '{self.name}' needs either spec or samples")
        return self


class TaskConfig(_Table):
    """``[[task]]``: what is asked, and how answers are graded."""

    name: Name
    spec: str
    judge: str | None = None
    """Spec of the scorer that compares answers, for tasks that need one."""
    source: Name | None = None
    """Where its questions come from, as for a benchmark."""


class OptimisedConfig(_Table):
    """``[[optimised]]``: a policy that was optimised against one of the scorers. One of ``run`` and ``policy``."""

    name: Name = "optimised"
    """Name of the way of optimising (``grpo``, ``dpo``): policies of the same name make one figure."""
    scorer: Name
    run: Path | None = None
    """A folder that ``carb train-policy`` wrote. Its policy answers greedily. Prompts that share a source item with
    the training of a policy of this name do not count for any of them."""
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    """Longest answer of a ``run``'s policy; as in its training by default. What the policies of a name started from
    answers as the first of them."""
    policy: str | None = None
    """Spec of an optimised policy, answering greedily (``temperature=0``) or as it says, on every prompt."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.run is None) == (self.policy is None):
            raise ValueError(f"optimised '{self.name}' of '{self.scorer}' needs either run or policy")
        if self.policy is not None and self.max_new_tokens is not None:
            raise ValueError(
                f"optimised '{self.name}' of '{self.scorer}': max_new_tokens goes with run; write it into the spec of "
                f"policy, as ?max_new_tokens={self.max_new_tokens}"
            )
        return self


class StudyConfig(_Table):
    """A study."""

    out: Path
    """Folder of the study; relative to the file."""
    seed: int = 0
    n: Annotated[int, Field(ge=1)] = 16
    """Number of samples for each prompt."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    primary: Name | None = None
    """The benchmark whose validity is asked for; the first by default. The others are compared with it."""
    covariate: Name | None = None
    """The benchmark that measures culture-agnostic ability, taken out in the partial correlation."""
    shots: bool = True
    """Show each task's examples to the policies."""
    benchmark: Annotated[tuple[BenchmarkConfig, ...], Field(min_length=1)]
    scorer: Annotated[tuple[ScorerConfig, ...], Field(min_length=2)]
    policy: tuple[StudyPolicyConfig, ...] = ()
    task: Annotated[tuple[TaskConfig, ...], Field(min_length=1)]
    optimised: tuple[OptimisedConfig, ...] = ()

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        for what in ("benchmark", "scorer", "policy", "task"):
            names = [entry.name for entry in getattr(self, what)]
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise ValueError(f"several [[{what}]] are named {', '.join(repeated)}")
        benchmarks = {entry.name for entry in self.benchmark}
        for what in ("primary", "covariate"):
            name = getattr(self, what)
            if name is not None and name not in benchmarks:
                raise ValueError(f"{what} = '{name}' is not the name of a [[benchmark]]")
        if self.covariate is not None and self.covariate == self.main:
            raise ValueError("covariate and primary are the same benchmark")
        scorers = {entry.name for entry in self.scorer}
        unknown = sorted({entry.scorer for entry in self.optimised} - scorers)
        if unknown:
            raise ValueError(f"[[optimised]] names scorers that are not there: {', '.join(unknown)}")
        pairs = [(entry.name, entry.scorer) for entry in self.optimised]
        twice = sorted({f"{name} of {scorer}" for name, scorer in pairs if pairs.count((name, scorer)) > 1})
        if twice:
            raise ValueError(f"several [[optimised]] are {', '.join(twice)}")
        if not self.policy and not self.optimised:
            raise ValueError("a study needs at least one [[policy]] or [[optimised]]")
        if len(self.task) > 1 and any(entry.samples for entry in self.policy):
            raise ValueError("samples of a [[policy]] fit a single [[task]]")
        return self

    @property
    def main(self) -> str:
        """Name of the benchmark whose validity is asked for."""
        return self.primary or self.benchmark[0].name


def read_study(path: Path) -> StudyConfig:
    """Read a study; paths in it are relative to its folder.

    Raises:
        CarbError: it cannot be read, or something in it is unknown, missing or wrong.
    """
    tables = (StudyConfig, BenchmarkConfig, ScorerConfig, StudyPolicyConfig, TaskConfig, OptimisedConfig)
    known = {name for table in tables for name in table.model_fields}
    study = validate(StudyConfig, parse_file(path, "study"), f"{path} is not a study", known=sorted(known))
    return _placed(study, path.parent)


def _placed(study: StudyConfig, folder: Path) -> StudyConfig:
    def place(path: Path | None) -> Path | None:
        return None if path is None else folder / path.expanduser()

    benchmarks = tuple(
        b.model_copy(
            update={"run": place(b.run), "file": place(b.file), "data": tuple(_data(folder, d) for d in b.data)}
        )
        for b in study.benchmark
    )
    policies = tuple(p.model_copy(update={"samples": place(p.samples)}) for p in study.policy)
    optimised = tuple(o.model_copy(update={"run": place(o.run)}) for o in study.optimised)
    placed = {"out": folder / study.out, "benchmark": benchmarks, "policy": policies, "optimised": optimised}
    return study.model_copy(update=placed)


def _data(folder: Path, name: str) -> str:
    """A data set's name, or its path from the study's folder where there is such a file."""
    return str(folder / name) if (folder / name).exists() else name
