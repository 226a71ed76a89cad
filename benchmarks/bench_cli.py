"""CPU time of starting ``carb``, beside that of starting Python alone; the least of several starts.

With ``--first-score``: of a whole run that scores one set with SmolLM2 135M from the cache, in turn with a script that
does on transformers alone what such a run cannot do without: load the model and its tokenizer, and one forward pass.

Usage: python benchmarks/bench_cli.py [--first-score [PAIRS]]
"""

import resource
import statistics
import subprocess
import sys
import tempfile
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
    model(**tokenizer("word " * 100, return_tensors="pt"), logits_to_keep=1)
"""


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_score(pairs: int) -> None:
    """Print the seconds of both and their ratio, pair by pair."""
    from small_models import model_folder

    model = str(model_folder("smollm2-135m"))
    ratios = []
    for _ in range(pairs):
        bare = cpu_seconds(["-c", BARE, model])
        with tempfile.TemporaryDirectory() as out:
            what = ["--data", "carb-seed@1", "--limit", "1", "--no-perturbed", "--quiet", "--out", out]
            run = cpu_seconds(["-m", "carb_cli", "run", *what, "--scorer", f"judge:{model}"])
        ratios.append(run / bare)
        print(f"first score {run:.2f} s, transformers alone {bare:.2f} s: {ratios[-1]:.2f}", flush=True)
    print(f"median ratio of {pairs} pairs: {statistics.median(ratios):.2f}")


def main() -> None:
    if sys.argv[1:2] == ["--first-score"]:
        first_score(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
        return
    python = None
    for name, arguments in COMMANDS.items():
        least = min(cpu_seconds(arguments) for _ in range(STARTS))
        python = python or least
        print(f"{name:16} {least:.3f} s of CPU time, {least / python:.1f} x python")


if __name__ == "__main__":
    main()
