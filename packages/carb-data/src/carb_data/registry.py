"""The registry of cultures, and the culture of each country. Both are data files."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from carb_data.errors import CarbError, UnknownNameError
from carb_data.language import language_tag, same_language
from carb_data.models import BonSet, Culture
from carb_data.packaged import resource
from carb_data.validation import closest, read_file, repeated

CULTURES_VARIABLE = "CARB_CULTURES"
"""Environment variable with further culture files, separated as in PATH."""


def read_cultures(path: str | Path) -> tuple[Culture, ...]:
    """Read a culture file: a JSON list of ``Culture`` objects, the form of the shipped
    ``cultures.json``.

    Raises:
        CarbError: the file is missing, does not have that form, or has two cultures with one id.
    """
    hint = f"It must be a JSON list of objects with the fields {', '.join(Culture.model_fields)}."
    read = read_file(tuple[Culture, ...], Path(path), "culture file", hint)
    if twice := repeated(culture.id for culture in read):
        raise CarbError(f"{path}: two cultures have the id '{twice[0]}'; remove or rename one.")
    return read


class Registry:
    """Cultures by id.

    Iteration and ``len`` go over the benchmark's cultures and those that a user added.
    Country-level cultures are found by id and are not iterated: those that narrow one of these down
    (``spanish-mx``; ``varieties`` lists them) roll up to it, the others (``turkish``) say where an
    answer of another culture's set would be right.

    ``registry["spanish"]`` gives a culture, and raises ``UnknownCultureError`` where there is none.
    """

    def __init__(
        self,
        listed: Iterable[Culture] = (),
        varieties: Iterable[Culture] = (),
        files: Callable[[], Iterable[str | Path]] = tuple,
    ) -> None:
        """Make a registry.

        Args:
            listed: Cultures over which iteration goes.
            varieties: The cultures of countries, each with a parent.
            files: Names the culture files of the user, as for ``add``, when the registry is first
                used: a mistake in one is an error of the command that needs cultures, and not of
                ``import carb_data``.

        Raises:
            CarbError: a parent is missing, or a culture is its own ancestor.
        """
        shown = list(listed)
        self.listed = [culture.id for culture in shown]
        """Ids of the cultures over which iteration goes."""
        self._known = {culture.id: culture for culture in (*shown, *varieties)}
        self._files: Callable[[], Iterable[str | Path]] | None = files
        self._check_parents()

    @property
    def _all(self) -> dict[str, Culture]:
        files = self._files
        self._files = None
        try:
            if files is not None:
                self.add(*files())
        except CarbError:
            self._files = files  # say it again, instead of going on without these cultures
            raise
        return self._known

    def __iter__(self) -> Iterator[Culture]:
        known = self._all
        return iter([known[name] for name in self.listed])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, culture: object) -> bool:
        return getattr(culture, "id", culture) in self._all

    def __getitem__(self, culture_id: str) -> Culture:
        try:
            return self._all[culture_id]
        except KeyError:
            raise self.unknown(culture_id) from None

    def unknown(self, culture_id: str) -> "UnknownCultureError":
        """The error for an id that is not registered; it names what can be meant, or else the most
        similar name."""
        meant = self.meant(culture_id)
        for culture, names in resource("labels").items():
            if not meant and re.search("|".join(names), culture_id):
                meant = [culture]
        near = " Leave it empty where there is none."
        if meant:
            either = "' or '".join(meant)
            near = f" Did you mean '{either}'?"
        elif _key(culture_id):
            countries = [country.name.casefold() for country in _countries().values()]
            near = closest(culture_id.casefold(), [*self._all, *countries])
        return UnknownCultureError(culture_id, [culture.id for culture in self], near)

    def meant(self, text: str) -> list[str]:
        """The ids of the cultures that a text names by a name, a country, or the tag of a language.

        Several where it is not clear: ``ar`` is the tag of Arabic, and in capitals the code of
        Argentina.
        """
        known = self._all.values()
        asked = text.strip()
        named = [culture.id for culture in known if self.is_called(culture.id, asked)]
        if named:
            return named
        matches = _in_country(known, asked)
        broadest = [culture for culture in known if culture.parent is None]
        if not any(culture.language == asked for culture in matches):
            matches += [culture for culture in broadest if culture.language == asked]
        if not matches:
            tag = language_tag(asked)
            matches = [culture for culture in broadest if culture.language == tag]
        broader = {culture.parent for culture in matches}
        narrowest = [culture.id for culture in matches if culture.id not in broader]
        return sorted(narrowest)

    def is_called(self, culture_id: str, text: str) -> bool:
        """Whether a text is the id or the name of a culture, in letters of any case.

        Raises:
            UnknownCultureError: no culture has the id.
        """
        name = self[culture_id].name
        return text.strip().casefold() in (culture_id, name.casefold())

    def add(self, *new: Culture | str | Path) -> None:
        """Add cultures, or all cultures of a file. An id that is there already is replaced.

        Raises:
            CarbError: a file cannot be read or a parent is missing; the registry is then as it was.
        """
        added = []
        for entry in new:
            if isinstance(entry, Culture):
                added.append(entry)
            else:
                added += read_cultures(entry)
        before = dict(self._all), list(self.listed)
        self._known |= {culture.id: culture for culture in added}
        self.listed += [culture.id for culture in added if culture.id not in self.listed]
        try:
            self._check_parents()
        except CarbError:
            self._known, self.listed = before
            raise

    def varieties(self, culture_id: str) -> tuple[Culture, ...]:
        """All cultures whose parent is ``culture_id``.

        Raises:
            UnknownCultureError: no culture has the id.
        """
        parent = self[culture_id].id
        known = self._all.values()
        return tuple(culture for culture in known if culture.parent == parent)

    def root(self, culture_id: str) -> Culture:
        """The culture into which results of ``culture_id`` roll up: itself, or its topmost parent.

        Raises:
            UnknownCultureError: no culture has the id.
        """
        culture = self[culture_id]
        if culture.parent is None:
            return culture
        return self.root(culture.parent)

    def root_id(self, culture_id: str) -> str:
        """The id of ``root``; a culture that is not registered is its own."""
        if culture_id in self:
            return self.root(culture_id).id
        return culture_id

    def name(self, culture_id: str, region: str = "") -> str:
        """The name of a culture; of one that is not registered its id. With the code of a region,
        that of its country where the culture is no country's own, as Thai."""
        known = self._all.get(culture_id)
        if known is None:
            return culture_id
        country = _countries().get(_key(region[:2]))
        if country is not None and known.parent is None:
            return country.name
        return known.name

    def of_country(self, text: str) -> str | None:
        """The id of the most specific culture that names the country among its regions; ``None`` if
        there is none.

        Most specific is the one with the fewest regions: ``spanish-mx`` before ``spanish`` for
        Mexico. A culture that a user adds with the region of a country therefore gets that
        country's items from every source.
        """
        known = [*self]
        for culture in self:
            known += self.varieties(culture.id)
        matches = _in_country(known, text)
        sizes = [(len(culture.regions), culture.id) for culture in matches]
        _, name = min(sizes, default=(0, None))
        return name

    def _check_parents(self) -> None:
        for culture in self._known.values():
            seen = {culture.id}
            parent = culture.parent
            while parent is not None:
                if parent in seen:
                    raise CarbError(
                        f"Culture '{culture.id}' is its own ancestor; correct 'parent' in "
                        "the culture file."
                    )
                if parent not in self._known:
                    raise CarbError(
                        f"Culture '{culture.id}' names the parent '{parent}', which no file "
                        "defines."
                    )
                seen.add(parent)
                parent = self._known[parent].parent


@dataclass(frozen=True)
class Country:
    """A country by its ISO 3166-1 codes and its English name."""

    alpha2: str
    alpha3: str
    name: str


@cache
def _countries() -> dict[str, Country]:
    """Each country by its codes and names."""
    countries = {}
    for row in resource("countries"):
        country = Country(row["alpha2"], row["alpha3"], row["names"][0])
        for name in (country.alpha2, country.alpha3, *row["names"]):
            countries[_key(name)] = country
    return countries


def _key(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def find_country(text: str) -> Country | None:
    """The country of a name ("Hong Kong SAR", "hong_kong") or of a two- or three-letter code."""
    return _countries().get(_key(text))


def _in_country(known: Iterable[Culture], text: str) -> list[Culture]:
    """The cultures with a country among their regions; none where the text names no country."""
    country = find_country(text)
    if country is None:
        return []
    return [culture for culture in known if country.alpha2 in culture.regions]


class UnknownCultureError(UnknownNameError):
    """No culture of that id is registered."""

    def __init__(
        self,
        culture_id: str,
        known: Iterable[str],
        near: str,
    ) -> None:
        super().__init__(
            f"unknown culture '{culture_id}'.{near} Known: {', '.join(sorted(known))}, and those "
            "of single countries (such as german-at). To add one, describe it in a culture file "
            f"and name that file in {CULTURES_VARIABLE} or with --culture-file"
        )


def _users_files() -> list[str]:
    paths = os.environ.get(CULTURES_VARIABLE, "").split(os.pathsep)
    return [*filter(None, paths)]


cultures = Registry(
    map(Culture.model_validate, resource("cultures")),
    map(Culture.model_validate, resource("country_cultures")),
    _users_files,
)
"""The registry: the ten cultures of the benchmark, the country-level ones, and the user's own."""


def is_main(culture: str, language: str) -> bool:
    """Whether a set about ``culture`` in ``language`` counts for a culture of the benchmark, or is
    a mirror.

    Main is a set whose culture is, or rolls up to, the listed culture that speaks the set's
    language.
    """
    if culture not in cultures:
        return False
    root = cultures.root(culture)
    return root.id in cultures.listed and same_language(root.language, language)


def is_mirror(item: BonSet) -> bool:
    """Whether a set of a family is about a place where its language is not spoken (``is_main``)."""
    return item.family is not None and not is_main(item.culture, item.language)
