"""CPU time of starting ``carb``, beside that of starting Python alone; the least of several starts.

With ``--first-score``: CPU and wall time of a whole run that scores one set with SmolLM2 135M from
the cache, and when its journal got the score; in turn with a script that does on transformers alone
what such a run cannot do without: load the model and its tokenizer, and one forward pass over as
many tokens as the judge read. With ``--kept``: CPU time and memory that a set of four costs in a
run with a surface baseline, between 1,000 and 20,000 sets.

Usage: python benchmarks/bench_cli.py [--first-score [PAIRS] | --kept]; all three without an option.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

STARTS = 10
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "carb --help": ["-m", "carb_cli", "--help"],
    "carb --version": ["-m", "carb_cli", "--version"],
    "carb run --help": ["-m", "carb_cli", "run", "--help"],
    "carb data list": ["-m", "carb_cli", "data", "list"],
}


BARE = """
import sys, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
with torch.inference_mode():
    model(**tokenizer("word " * int(sys.argv[2]), return_tensors="pt"), logits_to_keep=1)
"""


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Processor time (user and system) and wall time of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wall, after = time.time() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def first_score(pairs: int) -> None:
    """Print the seconds of both and their ratios, pair by pair."""
    from small_models import model_folder

    model = str(model_folder("smollm2-135m"))
    ratios: list[tuple[float, float]] = []
    tokens = 0
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as out:
            what = [
                "--data",
                "carb-seed",
                "--limit",
                "1",
                "--no-perturbed",
                "--quiet",
                "--out",
                out,
            ]
            start = time.time()
            run, wall = seconds(["-m", "carb_cli", "run", *what, "--scorer", f"judge:{model}"])
            (journal,) = Path(out, "journal").glob("*.jsonl")
            score = journal.stat().st_mtime - start
            record = json.loads(Path(out, "run.json").read_text())
            tokens = record["scorers"][0]["usage"]["input_tokens"]
        bare, bare_wall = seconds(["-c", BARE, model, str(tokens)])
        ratios.append((run / bare, score / bare_wall))
        print(
            f"processor time {run:.2f} s, transformers alone {bare:.2f} s: {ratios[-1][0]:.2f}; "
            f"wall time {wall:.2f} s, its score after {score:.2f} s, transformers alone "
            f"{bare_wall:.2f} s: "
            f"{ratios[-1][1]:.2f}",
            flush=True,
        )
    cpu, wall = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(
        f"median ratios of {pairs} pairs, {tokens} tokens: processor time {cpu:.2f}, wall "
        f"time to the score {wall:.2f}"
    )


def kept(few: int = 1_000, many: int = 20_000) -> None:
    """Print what a set costs: the difference between runs of many and of few, each in a process of
    its own."""
    from carb_data import Dataset, load

    seed = [item for item in load("carb-seed") if not item.perturbed]
    found = []
    for number in (few, many):
        sets = []
        for place in range(number):
            item, turn = seed[place % len(seed)], place // len(seed)
            responses = tuple(
                one.model_copy(update={"text": f"{one.text} {turn}"}) for one in item.responses
            )
            new = {
                "id": f"{item.id}-{turn}",
                "family": None,
                "responses": responses,
                "prompt": f"{item.prompt_text} {turn}",
            }
            sets.append(item.model_copy(update=new))
        with tempfile.TemporaryDirectory() as out:
            data = Path(out, "sets.parquet")
            Dataset(sets).save(data)
            what = [
                "--data",
                str(data),
                "--scorer",
                "baseline:length",
                "--out",
                f"{out}/run",
                "--quiet",
            ]
            code = (
                f"import re; from carb_cli.main import main; main({['run', *what]!r}); "
                f"print({PEAK})"
            )
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            said = subprocess.run(
                [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
            ).stdout
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found.append((cpu, int(said.split()[-1])))
    (first, least), (last, most) = found
    each = many - few
    print(
        f"a set of four: {1e3 * (last - first) / each:.2f} ms of CPU time, "
        f"{(most - least) / each:.1f} kB of memory"
    )


PEAK = r"re.search(r'VmHWM:\s+(\d+)', open('/proc/self/status').read()).group(1)"
"""The peak of a process in kB; ``ru_maxrss`` would be that of the larger process that started
it."""


def main() -> None:
    if sys.argv[1:2] == ["--first-score"]:
        first_score(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
        return
    if sys.argv[1:2] == ["--kept"]:
        kept()
        return
    python = None
    for name, arguments in COMMANDS.items():
        least = min(seconds(arguments)[0] for _ in range(STARTS))
        python = python or least
        print(f"{name:16} {least:.3f} s of CPU time, {least / python:.1f} x python")
    kept()
    first_score(5)


if __name__ == "__main__":
    main()
