"""Speed and memory of carb-data: loading, streaming, contamination. Each case runs in a process of
its own.

Usage: python benchmarks/bench_data.py [CASE ...]

Texts are made from the words of carb-seed, drawn by their frequency: as many scripts, and about as
many shared n-grams, as real data has. The reference of a ratio is measured in the same process, on
the same texts.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from carb_data import BonSet, Dataset, check_contamination, load
from carb_data.collector import uncollected
from carb_data.files import SCHEMA, iter_file, to_json
from carb_data.overlap import NgramIndex

LOADED, STREAMED = 10_000, 100_000
PAIRS = 200_000
TRAIN, TEST = 100_000, 10_000
PLANTED = 400


def peak_mb() -> float:
    """Peak resident memory of this process; ``ru_maxrss`` may still be that of the process that
    started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return (
            int(
                next(
                    line for line in status.read_text().splitlines() if line.startswith("VmHWM")
                ).split()[1]
            )
            / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def many_sets(count: int) -> Iterator[BonSet]:
    seed = list(load("carb-seed"))
    for number in range(count):
        item = seed[number % len(seed)]
        yield item.model_copy(update={"id": f"{item.id}-{number}"})


def write(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(to_json(item) + "\n" for item in many_sets(count))


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def cpu_seconds(action: Callable[[], object]) -> float:
    """CPU time of all threads of this process."""
    start = time.process_time()
    action()
    return time.process_time() - start


def plain_json(path: Path) -> float:
    """Seconds of parsing the same file with json alone, without checking anything."""

    def parse() -> None:
        with path.open(encoding="utf-8") as file:
            for line in file:
                json.loads(line)

    return seconds(parse)


def case_load(folder: Path) -> None:
    path = folder / "sets.jsonl"
    write(path, LOADED)
    before = peak_mb()
    taken = min(seconds(lambda: Dataset.load(path)) for _ in range(3))
    peak = peak_mb()
    plain = min(plain_json(path) for _ in range(3))
    print(
        f"load and validate {LOADED:,} sets (JSONL, {path.stat().st_size / 1e6:.0f} MB): "
        f"{taken:.2f} s (least of 3), ",
        end="",
    )
    print(
        f"{taken / plain:.1f} x json.loads; peak {peak:.0f} MB, of which {before:.0f} MB "
        "before loading"
    )


def case_stream(folder: Path) -> None:
    path, packed = folder / "sets.jsonl", folder / "sets.parquet"
    write(path, STREAMED)
    for source in (path, packed):
        if source is packed:
            import polars as pl

            pl.scan_ndjson(path, schema=SCHEMA).sink_parquet(packed)
        command = [sys.executable, __file__, "--read", str(source)]
        count, taken, peak = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.split()
        assert int(count) == STREAMED
        print(
            f"stream and validate {STREAMED:,} sets ({source.suffix[1:]}): {float(taken):.1f} s, ",
            end="",
        )
        print(
            f"{float(taken) / plain_json(path):.1f} x json.loads of the JSONL; peak "
            f"{float(peak):.0f} MB"
        )


class Words:
    """Texts of random words of one culture of the seed, by their frequency."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words: list[list[str]] = []
        self.joiners: list[str] = []
        for culture in (
            "arabic",
            "chinese",
            "english",
            "german",
            "japanese",
            "korean",
            "russian",
            "spanish",
            "thai",
        ):
            texts = [
                r.text
                for item in load("carb-seed").filter(cultures=[culture])
                for r in item.responses
            ]
            spaced = culture not in ("chinese", "japanese", "thai")
            words = [
                w
                for t in texts
                for w in (t.split() if spaced else [t[i : i + 3] for i in range(0, len(t), 3)])
            ]
            self.words.append(words)
            self.joiners.append(" " if spaced else "")

    def text(self, count: int, language: int | None = None) -> str:
        language = self.random.randrange(len(self.words)) if language is None else language
        return self.joiners[language].join(self.random.choices(self.words[language], k=count))


def made_sets(count: int) -> list[BonSet]:
    words, pattern = Words(1), load("carb-seed")[0]
    sets = []
    for number in range(count):
        language = number % len(words.words)
        responses = tuple(
            r.model_copy(update={"text": words.text(20, language)}) for r in pattern.responses
        )
        provenance = pattern.provenance.model_copy(update={"source_id": f"made-{number}"})
        sets.append(
            pattern.model_copy(
                update={
                    "id": f"made-{number}",
                    "prompt": words.text(18, language),
                    "responses": responses,
                    "perturbed": (),
                    "provenance": provenance,
                }
            )
        )
    return sets


def case_pairs(folder: Path) -> None:
    """A large table of pairs, with all that ``carb data show`` asks of it."""
    path = folder / "pairs.jsonl"
    words, english = Words(3), 2
    with path.open("w", encoding="utf-8") as file:
        for number in range(PAIRS):
            texts = [words.text(count, english) for count in (12, 18, 18)]
            row = dict(zip(("prompt", "chosen", "rejected"), texts, strict=True))
            row |= {"prompt": f"{row['prompt']} {number}?", "language": "en"}
            file.write(json.dumps(row) + "\n")
    datasets: list[Dataset] = []
    with uncollected():
        parsing = cpu_seconds(lambda: plain_json(path))
        parts = {
            "load": cpu_seconds(lambda: datasets.append(Dataset.load(path))),
            "fingerprint": cpu_seconds(lambda: datasets[0].fingerprint),
            "origins": cpu_seconds(lambda: datasets[0].origins),
        }
    told = ", ".join(f"{name} {taken / PAIRS * 1e6:.1f}" for name, taken in parts.items())
    ratio = sum(parts.values()) / parsing
    print(f"a table of {PAIRS:,} pairs, microseconds of CPU time a set: {told}; ", end="")
    print(f"together {ratio:.1f} x json.loads; peak {peak_mb():.0f} MB")


def planted(test: list[BonSet], number: int, words: Words) -> str:
    """A training text that holds a test item: as it is, inside a document, or with one word
    changed."""
    prompt = test[number].prompt
    language = number % len(words.words)
    if number % 3 == 0:
        return prompt.upper() + " !"
    if number % 3 == 1:
        return f"{words.text(60, language)} {prompt} {words.text(60, language)}"
    parts = prompt.split()
    if len(parts) > 3:
        parts[len(parts) // 2] = "other"
        return " ".join(parts)
    return prompt[:20] + "X" + prompt[21:]


def training_texts(test: list[BonSet], count: int, plant: int) -> Iterator[str]:
    words = Words(2)
    every = count // plant
    for number in range(count):
        yield (
            planted(test, number // every, words)
            if number % every == 0 and number // every < plant
            else words.text(70)
        )


def case_contamination(_: Path) -> None:
    test = made_sets(TEST)
    making = cpu_seconds(lambda: [None for _ in training_texts(test, TRAIN // 20, 1)]) * 20
    report = None

    def run() -> None:
        nonlocal report
        report = check_contamination(training_texts(test, TRAIN, PLANTED), test)

    start = time.perf_counter()
    cpu = cpu_seconds(run)
    wall = time.perf_counter() - start
    assert report is not None
    expected = {test[n].id for n in range(PLANTED)}
    found = set(report.contaminated)
    texts = f"{TRAIN:,} texts against {TEST:,} sets"
    print(
        f"check_contamination, {texts}: {cpu - making:.0f} s of CPU time (and {making:.0f} "
        "s to make the texts), ",
        end="",
    )
    print(f"together {wall:.0f} s; peak {peak_mb():.0f} MB; ", end="")
    print(
        f"found {len(found & expected)} of {len(expected)} planted items, "
        f"{len(found - expected)} others"
    )


def case_minhash(_: Path) -> None:
    """Containment against MinHash LSH of datasketch on the same texts: time and what each finds."""
    from datasketch import MinHash, MinHashLSH

    count, plant, threshold = 10_000, 300, 0.7
    test = made_sets(2_000)
    prompts = [item.prompt_text for item in test]
    texts = list(training_texts(test, count, plant))
    found: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
    ours = seconds(
        lambda: [
            found[m.indexed % 3].add(m.indexed)
            for m in NgramIndex(prompts, threshold).matches(texts)
        ]
    )

    def shingles(text: str) -> list[bytes]:
        folded = " ".join(text.casefold().split())
        return list({folded[i : i + 8].encode() for i in range(max(1, len(folded) - 7))})

    sketched: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}

    def minhash() -> None:
        index = MinHashLSH(threshold=threshold, num_perm=128)
        for number, sketch in enumerate(MinHash.generator(map(shingles, prompts), num_perm=128)):
            index.insert(number, sketch)
        for sketch in MinHash.generator(map(shingles, texts), num_perm=128):
            for number in index.query(sketch):
                sketched[number % 3].add(number)

    theirs = seconds(minhash)
    print(
        f"{count:,} texts against {len(prompts):,} prompts, {plant} planted, threshold {threshold}:"
    )
    for name, taken, by_kind in (
        ("containment", ours, found),
        ("MinHash LSH (datasketch)", theirs, sketched),
    ):
        kinds = zip(
            ("copied", "inside a document", "one word changed"),
            (by_kind[k] for k in range(3)),
            strict=True,
        )
        what = ", ".join(
            f"{len({n for n in numbers if n < plant})}/{plant // 3} {kind}"
            for kind, numbers in kinds
        )
        print(f"  {name:25} {taken:5.1f} s ({taken / ours:4.1f} x); found {what}")


CASES = {
    "load": case_load,
    "stream": case_stream,
    "pairs": case_pairs,
    "contamination": case_contamination,
    "minhash": case_minhash,
}


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--case":
        with tempfile.TemporaryDirectory() as folder:
            CASES[sys.argv[2]](Path(folder))
        return
    if len(sys.argv) == 3 and sys.argv[1] == "--read":
        start = time.perf_counter()
        count = sum(1 for _ in iter_file(Path(sys.argv[2]), []))
        print(count, time.perf_counter() - start, peak_mb())
        return
    for name in sys.argv[1:] or CASES:
        subprocess.run([sys.executable, __file__, "--case", name], check=True)


if __name__ == "__main__":
    main()
