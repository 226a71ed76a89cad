"""``carb run`` against rewardbench, the reference tool for reward models, as whole processes that a
user starts.

Both score the same best-of-4 sets of carb-seed with the same classifier of 135M parameters
(Llama, random weights: speed does not depend on them) in float32, with their defaults otherwise,
and start from nothing each time. Two paths of the reference tool are timed: its command
``rewardbench --dataset``, which scores pairs of a chosen and a rejected text, and its best-of-N
script ``scripts/run_v2.py``, whose limit of 2,048 tokens truncates none of these texts. The runs
take turns; each turn prints the ratio of processor time, which a busy machine troubles little, and
that of wall time.

Usage: ``nox -s rewardbench``, or python benchmarks/against_rewardbench.py PYTHON, with the Python
of an environment that holds rewardbench.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import transformers
from bench_scorers import CHAT, make_classifier

from carb_data import BonSet, Dataset, load

ON_CPU = """
import runpy, sys, transformers
# It puts its input on a GPU, and has no option against that.
transformers.BatchEncoding.to = lambda self, *_: self
runpy.run_module(sys.argv.pop(1), run_name="__main__")
"""


def classifier(folder: Path) -> Path:
    """The model, with a tokenizer that an older transformers reads too."""
    make_classifier(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHAT}
    settings["model_input_names"] = ["input_ids", "attention_mask"]
    settings.pop("extra_special_tokens", None)
    path.write_text(json.dumps(settings))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    transformers.AutoTokenizer.from_pretrained(folder)
    return folder


def write(folder: Path, sets: Sequence[BonSet]) -> None:
    """The sets as ``carb`` reads them, as pairs, and as the best-of-N script reads them."""
    Dataset(sets).save(folder / "sets.jsonl")
    pairs, whole = [], []
    for item in sets:
        chosen = [r.text for r in item.responses if r.role == "chosen"]
        rejected = [r.text for r in item.responses if r.role != "chosen"]
        asked = {"role": "user", "content": item.prompt_text}
        talks = [[asked, {"role": "assistant", "content": text}] for text in (*chosen, *rejected)]
        pairs += [
            {"prompt": item.prompt_text, "chosen": talks[0], "rejected": talk} for talk in talks[1:]
        ]
        row = {"id": item.id, "prompt": item.prompt_text, "chosen": chosen, "rejected": rejected}
        whole.append(
            {
                **row,
                "subset": str(item.domain),
                "num_correct": 1,
                "total_completions": len(item.responses),
            }
        )
    for name, rows in (("pairs", pairs), ("whole", whole)):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        )


def seconds(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Processor and wall time of one process from its start to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    own = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / "cache"),
        "WANDB_MODE": "disabled",
    }
    ended = subprocess.run(
        command, cwd=folder, env=own, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr[-3000:]}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return processor, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "python", type=Path, help="Python of the environment that holds rewardbench"
    )
    parser.add_argument("--sets", type=int, default=120, help="best-of-4 sets (default 120)")
    parser.add_argument(
        "--turns", type=int, default=3, help="how often each program runs (default 3)"
    )
    parser.add_argument(
        "--short", action="store_true", help="only sets of short answers (default: of every length)"
    )
    given = parser.parse_args()
    python, count, turns = str(given.python.absolute()), given.sets, given.turns
    items = [
        item.model_copy(update={"perturbed": ()})
        for item in load("carb-seed")
        if len(item.responses) == 4
    ]
    items = [item for item in items if item.form == "short"] if given.short else items
    sets = items[:: max(1, len(items) // count)][:count]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = str(classifier(folder / "model"))
        write(folder, sets)
        asked = f"--model {model} --torch_dtype float32"
        pairs = f"rewardbench.rewardbench {asked} --dataset pairs.jsonl --load_json --not_quantized"
        whole = f"scripts.run_v2 {asked} --dataset whole.jsonl --do_not_save"
        reference = {
            "rewardbench": ["-c", ON_CPU, *pairs.split()],
            "run_v2": ["-c", ON_CPU, *whole.split()],
        }
        scorer = f"classifier:{model}"
        ours = (
            f"-m carb_cli run --data sets.jsonl --scorer {scorer} --fresh --quiet --out run".split()
        )
        ratios: dict[str, list[float]] = {key: [] for key in reference}
        for _ in range(turns):
            mine, wall = seconds([sys.executable, *ours], folder)
            for key, command in reference.items():
                theirs, their_wall = seconds([python, *command], folder)
                ratios[key].append(theirs / mine)
                print(
                    f"{key}: {theirs:.1f} s of processor time, carb {mine:.1f}: "
                    f"{theirs / mine:.2f}; "
                    f"wall {their_wall:.1f} and {wall:.1f} s: {their_wall / wall:.2f}",
                    flush=True,
                )
    for key, found in ratios.items():
        print(
            f"{key}: {len(sets)} sets, median ratio of {turns} turns "
            f"{statistics.median(found):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
