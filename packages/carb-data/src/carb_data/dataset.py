"""An immutable collection of sets, and how one is found by name."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Self, overload

from carb_data import files
from carb_data.declaration import order_key
from carb_data.errors import CarbError, UnknownNameError, require
from carb_data.family import load_families
from carb_data.joined import Joined
from carb_data.loading import load_path
from carb_data.models import BonSet, Domain, cited, html_table
from carb_data.origins import Origins, origins
from carb_data.overlap import sharing
from carb_data.registry import Registry
from carb_data.registry import cultures as registered
from carb_data.table_sets import Progress, silent
from carb_data.tables import TABLE_SUFFIXES
from carb_data.validation import closest, repeated

SEED = "carb-seed"
_SHOWN_SETS = 8
"""Sets that a notebook shows."""
_SEED_FOLDER = Path(str(resources.files("carb_data") / "seed"))


class Dataset:
    """An immutable collection of ``BonSet`` with unique ids: iterable, sized, indexable by id or
    position."""

    def __init__(self, sets: Iterable[BonSet] = (), notes: Iterable[str] = ()) -> None:
        """Make a data set.

        Args:
            sets: the sets.
            notes: sentences for the user about how they were read.

        Raises:
            CarbError: something is no BonSet, or two sets have one id.
        """
        self.notes = tuple(notes)
        self._sets = tuple(sets)
        for item in self._sets:
            if not isinstance(item, BonSet):
                kind = type(item).__name__
                raise CarbError(f"A Dataset is made of BonSet, not {kind}; use carb_data.load.")
        self._by_id = {item.id: item for item in self._sets}
        if len(self._by_id) != len(self._sets):
            twice = repeated(item.id for item in self._sets)
            raise CarbError(
                f"Set ids must be unique in a data set; repeated: {', '.join(twice[:10])}."
            )

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        registry: Registry | None = registered,
        prefix: bool = False,
        skip_bad: float = 0,
        progress: Progress = silent,
        **given: str,
    ) -> Self:
        """Load a data set by name, a file of sets, a table of which sets are made (``table_sets``),
        or a folder of both.

        Args:
            name_or_path: ``"carb-seed"`` or ``"carb-seed@3"``, which is the same. Or a path to a
                file or folder, or ``hf://owner/name``, with ``@`` and a branch, tag or commit where
                one is wanted.
            registry: cultures that may occur; ``None`` accepts any.
            prefix: whether ids in a table begin with its file's name.
            skip_bad: how many rows of a file, or which share below 1, may be left out because they
                make no set; ``notes`` names them.
            progress: called with how many rows of a table were read, of how many.
            given: ``culture``, ``domain`` and ``language`` for the rows that have none.

        Raises:
            DataError: some rows are no sets; all of them are reported.
            CarbError: there is no such data set, it cannot be read, or ``given`` is used with the
                seed, whose sets have their own.
            MissingExtraError: the data set is on the Hugging Face hub, and the extra ``hf`` is
                missing.
        """
        name = str(name_or_path)
        seeds = seed_folders()
        if given and name in seeds:
            raise CarbError(f"Every set of {name} has its own {' and '.join(given)}; give none.")
        if name in seeds:
            return cls(load_families(seeds[name]))
        path = Path(name)
        if name.startswith("hf://"):
            path = _hub_folder(name)
        if isinstance(name_or_path, str) and not path.exists():
            beside = map(str, islice(path.parent.glob("*"), 1000))
            raise CarbError(
                f"There is no data set '{name}'.{closest(name, [*seeds, *beside])} "
                f"Give '{SEED}', a path, or hf://owner/name."
            )
        rows = load_path(
            path,
            given,
            registry,
            prefix=prefix,
            skip_bad=skip_bad,
            progress=progress,
        )
        return cls(rows.sets, rows.notes)

    @staticmethod
    def checked(given: object) -> "Dataset":
        """The data set that was given.

        Raises:
            CarbError: something else was given, such as a name or a list.
        """
        if isinstance(given, Dataset):
            return given
        raise CarbError(
            f"Give the Dataset that was scored, not a {type(given).__name__}; carb_data.load reads "
            "one by its name, and carb_data.Dataset makes one of a list."
        )

    def save(self, path: str | Path) -> None:
        """Write all sets to a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file; the content is the
        same either way.

        Raises:
            CarbError: the name has another ending, or the file cannot be written.
        """
        files.write(Path(path), self._sets)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the canonical content; the order of sets, files, keys and responses does
        not matter."""
        digests = [hashlib.sha256(files.canonical(item)).digest() for item in self._sets]
        together = b"".join(sorted(digests))
        return hashlib.sha256(together).hexdigest()

    @cached_property
    def origins(self) -> Origins:
        """Set id to the name of its origin: sets that share a source item, family, near-copy or
        fact have one, and are not independent (``carb_data.origins``)."""
        return origins(self._sets)

    def filter(
        self,
        where: Callable[[BonSet], bool] | None = None,
        *,
        cultures: Collection[str] | None = None,
        domains: Collection[str] | None = None,
        languages: Collection[str] | None = None,
    ) -> "Dataset":
        """The sets for which every given condition holds, in the same order.

        Args:
            where: a condition that a set must meet as well; null means none.
            cultures: the ids of the cultures to keep; a culture stands for its varieties, too:
                ``spanish`` for ``spanish-mx``.
            domains: names of the domains to keep; null keeps all.
            languages: the BCP 47 tags of the languages to keep; a language stands for its forms,
                too: ``zh`` for ``zh-Hant``.

        Raises:
            CarbError: no culture, domain or language has a given name, neither a known one nor one
                of these sets.
        """
        cultures, domains, languages = map(_several, (cultures, domains, languages))
        here = {item.culture for item in self._sets}
        for name in cultures or ():
            if name not in here and name not in registered:
                raise registered.unknown(name)
        _refuse_unknown("domain", domains, set(Domain))
        _refuse_unknown("language", languages, _known_languages(self._sets))

        wanted = tuple(f"{language}-" for language in languages or ())

        def is_kept(item: BonSet) -> bool:
            if cultures is not None and _with_parents(item.culture).isdisjoint(cultures):
                return False
            if domains is not None and item.domain not in domains:
                return False
            if languages is not None and not f"{item.language}-".startswith(wanted):
                return False
            return where is None or where(item)

        return Dataset(filter(is_kept, self._sets))

    def without_perturbed(self) -> "Dataset":
        """The same sets without their perturbed texts."""
        if not any(item.perturbed for item in self._sets):
            return self
        return Dataset(item.changed(perturbed=()).compacted() for item in self._sets)

    def split(
        self,
        fractions: Mapping[str, float],
        *,
        seed: int = 0,
        apart: bool = False,
    ) -> "dict[str, Dataset]":
        """Divide by *origin*, so that no prompt, translation, mirror or fact crosses a border.

        An origin goes where the hash of ``seed`` and its name falls. It stays there when sets are
        added that are not tied to it.

        Args:
            fractions: the share of each part by its name, for example ``{"train": 0.8, "dev": 0.1,
                "test": 0.1}``; they sum to 1.
            seed: the seed of the split.
            apart: whether to keep sets together, too, where ``check_contamination`` says that one
                holds a text of the other: the parts then pass it. An origin with more than a tenth
                of all sets goes to the largest part.

        Raises:
            CarbError: the fractions are no shares of a whole.
        """
        shares = fractions.values()
        is_whole = abs(sum(shares) - 1) <= 1e-9
        if not fractions or not is_whole or min(shares) < 0:
            raise CarbError(
                f"Split fractions must be non-negative and sum to 1; got {dict(fractions)}."
            )
        origin = self.origins
        units = Joined()
        for item in self._sets:
            for fact in cited(item.answers):
                units.tie(origin[item.id], fact)
        if apart:
            for one, other in sharing(self._sets):
                units.join(origin[one.id], origin[other.id])
        unit_of = {item.id: units.name(origin[item.id]) for item in self._sets}
        sizes = Counter(unit_of.values())
        largest = max(fractions, key=fractions.__getitem__)
        parts: dict[str, list[BonSet]] = {name: [] for name in fractions}
        for item in self._sets:
            unit = unit_of[item.id]
            part = _drawn(order_key(seed, unit), fractions)
            is_large = sizes[unit] * 10 > len(self._sets)
            if apart and is_large and len(self._sets) >= 50:
                part = largest
            parts[part].append(item)
        return {name: Dataset(sets) for name, sets in parts.items()}

    def __iter__(self) -> Iterator[BonSet]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    @overload
    def __getitem__(self, key: str | int) -> BonSet: ...
    @overload
    def __getitem__(self, key: slice) -> "Dataset": ...
    def __getitem__(self, key: str | int | slice) -> "BonSet | Dataset":
        if isinstance(key, slice):
            return Dataset(self._sets[key])
        if not isinstance(key, str):
            return self._sets[key]
        if key not in self._by_id:
            of_family = [name for name in self._by_id if name.startswith(key)]
            near = closest(key, of_family or self._by_id)
            raise UnknownNameError(f"There is no set '{key}'.{near}")
        return self._by_id[key]

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return key in self._by_id
        return key in self._sets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dataset) and self._sets == other._sets

    def __hash__(self) -> int:
        return hash(self._sets)

    def __repr__(self) -> str:
        return f"Dataset({len(self)} sets, {self.fingerprint[:12]})"

    def _repr_html_(self) -> str:
        """The first sets as a notebook shows them."""
        rows = [
            (item.id, item.culture, item.prompt_text, item.chosen.text)
            for item in self._sets[:_SHOWN_SETS]
        ]
        return html_table([(repr(self), "culture", "prompt", "chosen"), *rows])


def _several(names: Collection[str] | None) -> Collection[str] | None:
    """The names; a text is one name, not a name for each of its letters."""
    if isinstance(names, str):
        return [names]
    return names


def _refuse_unknown(what: str, asked: Collection[str] | None, known: Collection[str]) -> None:
    names = sorted(known)
    for name in asked or ():
        if name in known:
            continue
        hint = closest(str(name), names)
        if not hint and what == "domain":
            hint = f" There are {', '.join(names)}."
        raise CarbError(f"There is no {what} '{name}'.{hint}")


def _drawn(key: bytes, fractions: Mapping[str, float]) -> str:
    """The part into which the hash of a name falls."""
    position = int.from_bytes(key[:8], "big") / 2**64
    for part, share in fractions.items():
        position -= share
        if position < 0:
            return part
    return part


def _known_languages(sets: Iterable[BonSet]) -> set[str]:
    tags = {culture.language for culture in registered}
    tags.update(item.language for item in sets)
    primary = {tag.partition("-")[0] for tag in tags}
    return tags | primary


def _with_parents(culture: str) -> set[str]:
    line = {culture}
    if culture in registered:
        parent = registered[culture].parent
        while parent is not None:
            line.add(parent)
            parent = registered[parent].parent
    return line


def content_hash(item: BonSet) -> str:
    """The SHA-256 hash of what a set asks and which answer is right, as 64 hex digits.

    It covers the id, culture, language, prompt, and responses with their roles. Votes, sources,
    notes and perturbed versions may change without changing it; the order of responses does not
    matter.
    """
    dumped = item.model_dump(mode="json", include={"prompt"})
    prompt = dumped["prompt"]
    answers = sorted((one.id, one.role.value, one.text) for one in item.responses)
    fields = [item.id, item.culture, item.language, prompt, answers]
    content = json.dumps(fields, ensure_ascii=False)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


load = Dataset.load


def seed_folders() -> dict[str, Path]:
    """The folder of the seed's fact bank by each of its names."""
    return {SEED: _SEED_FOLDER, f"{SEED}@3": _SEED_FOLDER}


def _hub_folder(name: str) -> Path:
    path, _, revision = name.removeprefix("hf://").strip("/").partition("@")
    owner, _, rest = path.partition("/")
    repository, _, within = rest.partition("/")
    if not repository or (not revision and "@" in name):
        raise CarbError(
            f"'{name}' does not name a data set repository; write hf://owner/name, "
            "hf://owner/name@revision, or hf://owner/name/folder for one of its folders."
        )
    hub = require("huggingface_hub", "carb-data[hf]")
    try:
        folder: str = hub.snapshot_download(
            f"{owner}/{repository}",
            repo_type="dataset",
            revision=revision or None,
            allow_patterns=[f"*{suffix}" for suffix in TABLE_SUFFIXES],
        )
    except (OSError, hub.errors.HfHubHTTPError, ValueError) as error:
        raise CarbError(f"Cannot fetch {name}: {error}") from None
    return Path(folder) / within
