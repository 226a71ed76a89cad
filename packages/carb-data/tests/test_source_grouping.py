"""Wrong answers among which the length of the right one tells nothing."""

from __future__ import annotations

import random

from carb_data.sources.grouping import of_mixed_length


def test_lengths_are_mixed_as_far_as_there_are_enough():
    ranked = [3, 9, 4, 8, 2, 7]
    chosen = [of_mixed_length(5, ranked, lambda n: n, 3, random.Random(seed)) for seed in range(200)]
    assert {sum(n > 5 for n in three) for three in chosen} == {0, 1, 2, 3}
    assert all(len(set(three)) == 3 for three in chosen)
    assert of_mixed_length(5, [9, 8, 7], lambda n: n, 3, random.Random(1)) == [9, 8, 7]
    assert len(of_mixed_length(5, [9, 1], lambda n: n, 3, random.Random(1))) == 2
