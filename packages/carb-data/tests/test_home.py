"""How far one gets by always taking the answer of home, without the question."""

from __future__ import annotations

import pytest

from carb_data import Dataset, HomeLine, home_line, load
from carb_data.home import home_lines
from small_sets import small_set


def asked(name: str, cultures: list[str | None], right: int = 0, **changes: object):
    """A set whose answers are right in these cultures."""
    item = small_set(name, [f"{name} {n}" for n in range(len(cultures))], right, **changes)
    responses = [
        response.model_copy(update={"culture": culture})
        for response, culture in zip(item.responses, cultures, strict=True)
    ]
    return item.model_copy(update={"responses": tuple(responses)})


ABROAD = ["japanese", "thai", "korean"]


def test_the_answer_of_home_is_taken_whether_it_is_right_or_not():
    right = asked("right", ["german-at", *ABROAD], language="de")
    wrong = asked("wrong", ["thai", "german", "korean", "japanese"], language="de")
    assert home_line([right]) == HomeLine(accuracy=1.0, n=1)
    assert home_line([wrong]) == HomeLine(accuracy=0.0, n=1)
    assert home_line([right, wrong]) == HomeLine(accuracy=0.5, n=2)


def test_answers_at_home_share_and_so_do_all_where_none_is_at_home():
    places = asked("towns", ["german-at", "german-ch", "german", "thai"], 1, language="de-AT")
    nowhere = asked("nowhere", ["german", *ABROAD], language="fi")
    assert home_line([places]).accuracy == pytest.approx(1 / 3)
    assert home_line([nowhere]).accuracy == pytest.approx(1 / 4)


def test_sets_of_which_an_answer_does_not_say_where_it_is_right_are_left_out():
    silent = asked("silent", ["german", None, None, None], language="de")
    unknown = asked("unknown", ["german", "atlantis", "thai", "korean"], language="de")
    assert home_line([silent, unknown]) == HomeLine(accuracy=None, n=0)
    assert home_line([]) == HomeLine(accuracy=None, n=0)


def test_mirrors_do_not_count():
    main = asked("main", ["german", *ABROAD], language="de", family="f")
    mirror = asked("mirror", ["german", *ABROAD], 1, language="de", family="f", culture="thai")
    assert home_line([main, mirror]) == HomeLine(accuracy=1.0, n=1)


def test_the_seed_has_a_home_line_in_each_language():
    seed = load("carb-seed")
    lines = home_lines(seed)
    assert {"ar", "de", "en", "es", "ja", "ko", "ru", "th", "vi", "zh"} <= set(lines)
    assert all(0.25 < line.accuracy < 1 for line in lines.values())
    whole = home_line(seed)
    assert whole.n == sum(line.n for line in lines.values())
    in_families = home_line(seed.filter(lambda item: item.family is not None))
    alone = home_line(seed.filter(lambda item: item.family is None))
    assert 0.5 < in_families.accuracy < whole.accuracy < alone.accuracy
    assert isinstance(seed, Dataset)
