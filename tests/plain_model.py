"""What a tiny model says, one text at a time, and what each cell of ``parity.py`` makes of it, in
plain arithmetic.

Prompts come from the forms themselves. The models are small and random, but for their heads, which
are solved for so that they write a verdict to each of these prompts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import anyio
import torch
import transformers

from carb_scorers import ScoreResult, open_scorer
from carb_scorers.judge.form import read_form
from carb_scorers.judge.order_and_prompt import Asker
from parity import Cell
from tal_rlvr import render_prompt
from tiny_models import folder, request
from tiny_server import greedy, row, words

SIZES = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 32}
"""The least that vLLM computes."""
ECHOED = {"openai": "<s>", "vllm-server": ""}
"""Servers, and what they put before a plain text."""

ASKED = request("Noodles at dawn.", "Nudeln, 10 davon", "a")
TEXTS = [candidate.text for candidate in ASKED.candidates]
QUESTION = str(ASKED.prompt)


class Plain:
    """What a model says, one text at a time, behind what ``tiny_models.CHAT`` writes."""

    def __init__(self, model: Any, tokenizer: Any, *, spaced: bool) -> None:
        self.model, self.tokenizer, self.spaced = model, tokenizer, spaced

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def probability(self, text: str, word: str) -> float:
        """Of a word as the next token; on a server with or without a space before it."""
        p = row(self.model, self.ids(text))[-1].softmax(-1)
        (token,) = self.ids(word)
        alike = (
            [t for t, other in enumerate(words(self.tokenizer)) if other.strip() == word]
            if self.spaced
            else []
        )
        tokens = alike or [token]
        return float(p[tokens].sum())

    def asked(self, mode: Any, texts: Sequence[str], *, reads: bool, falling: bool = False) -> str:
        asker = Asker(read_form("plain"), mode)
        prompt = asker.ask(ASKED, texts, reads=reads, falling=falling)
        return f"<|user|>\n{prompt.messages[0].content}<|end|>\n<|assistant|>\n"

    def asked_local(self, first: str, second: str) -> str:
        (message,) = render_prompt(QUESTION, (first, second), ASKED.culture, "en", direct=True)
        return f"<|user|>\n{message['content']}<|end|>\n<|assistant|>\n"

    def written(self, text: str) -> str:
        ids = greedy(self.model, self.ids(text), 12, self.tokenizer.eos_token_id)
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def answer(self, after: str, start: str = "") -> list[float]:
        before = self.ids(start)
        whole = [*before, *self.ids(after)]
        logprobs = row(self.model, whole).log_softmax(-1)
        return [float(logprobs[i - 1, whole[i]]) for i in range(len(before), len(whole))]


def listwise(plain: Plain, orders: list[list[int]]) -> list[float]:
    found = [[0.0] * len(orders) for _ in TEXTS]
    for n, order in enumerate(orders):
        text = plain.asked("listwise", [TEXTS[i] for i in order], reads=True)
        p = [plain.probability(text, letter) for letter in "ABC"]
        for place, i in enumerate(order):
            found[i][n] = math.log(p[place] / sum(p))
    return [sum(values) / len(values) for values in found]


def pairwise(share: Callable[[int, int], float], *, both: bool) -> list[float]:
    """Scores of the texts from the share with which the first of two, by their places, wins."""
    shares: list[list[float]] = [[] for _ in TEXTS]
    for i, j in combinations(range(3), 2):
        for a, b in ((i, j), (j, i)) if both else ((i, j),):
            won = share(a, b)
            shares[a].append(won)
            shares[b].append(1 - won)
    return [sum(won) / len(won) for won in shares]


def pointwise(plain: Plain, *, both: bool) -> list[float]:
    found = []
    for text in TEXTS:
        ratings = []
        for falling in (False, True) if both else (False,):
            asked = plain.asked("pointwise", [text], reads=True, falling=falling)
            p = {rating: plain.probability(asked, str(rating)) for rating in range(1, 10)}
            behind = row(plain.model, plain.ids(f"{asked}1"))[-1].softmax(-1)
            p[10] = p[1] * float(behind[plain.ids("0")[0]])
            p[1] -= p[10]
            ratings.append(sum(r * weight for r, weight in p.items()) / sum(p.values()))
        found.append(sum(ratings) / len(ratings))
    return found


def expected(cell: Cell, backend: str, found: dict[str, Any]) -> list[float]:
    tokenizer = found["tokenizer"]
    plain = Plain(found["language"], tokenizer, spaced=backend in ECHOED)
    start = f"<|user|>\n{QUESTION}<|end|>\n<|assistant|>\n"
    if cell.kind == "classifier":
        return [
            float(row(found["classifier"], plain.ids(f"{start}{text}<|end|>\n"))[0])
            for text in TEXTS
        ]
    if cell.kind == "implicit":
        if backend in ECHOED:  # plain text: a server echoes no chat
            values = [plain.answer(text, f"{ECHOED[backend]}{QUESTION}\n") for text in TEXTS]
        else:
            values = [plain.answer(f"{text}<|end|>", start) for text in TEXTS]
        if "reference" in cell.options:
            other = Plain(found["reference"], tokenizer, spaced=False)
            return [
                sum(v) - sum(other.answer(f"{t}<|end|>", start))
                for v, t in zip(values, TEXTS, strict=True)
            ]
        return [sum(v) / (len(v) if "mean" in cell.options else 1) for v in values]
    if "listwise" in cell.options:
        one = [0, 1, 2]
        rotated = [one, [1, 2, 0], [2, 0, 1]]
        orders = (
            rotated
            if "rotated" in cell.options
            else [one, one[::-1]]
            if "both" in cell.options
            else [one]
        )
        return listwise(plain, orders)
    if "pairwise" in cell.options:

        def share(i: int, j: int) -> float:
            text = plain.asked("pairwise", [TEXTS[i], TEXTS[j]], reads=True)
            p, q = plain.probability(text, "A"), plain.probability(text, "B")
            return p / (p + q)

        return pairwise(share, both="orders=one" not in cell.options)
    return pointwise(plain, both="both" in cell.options)


def models(base: Path) -> dict[str, Any]:
    """The folders of the models by name, each opened in transformers, and the tokenizer of all."""
    made = {
        "language": judge(base),
        "think": local(base),
        "reference": folder(base, "llama", "CausalLM", chat=True, seed=1, **SIZES),
        "classifier": folder(
            base, "llama", "SequenceClassification", chat=True, pad="<pad>", **SIZES
        ),
    }
    found: dict[str, Any] = {
        "folders": made,
        "tokenizer": transformers.AutoTokenizer.from_pretrained(made["language"]),
    }
    for name, place in made.items():
        head = "SequenceClassification" if name == "classifier" else "CausalLM"
        found[name] = (
            getattr(transformers, f"AutoModelFor{head}")
            .from_pretrained(place, dtype=torch.float32)
            .eval()
        )
    return found


def judge(base: Path) -> Path:
    """A tiny model that writes a verdict to each of the judge's prompts of this file."""

    def lessons(plain: Plain) -> Iterator[tuple[str, str]]:
        yield plain.asked("listwise", TEXTS, reads=False), "[[B]]"
        for text, rating in zip(TEXTS, "792", strict=True):
            yield plain.asked("pointwise", [text], reads=False), f"[[{rating}]]"
        for first, second in permutations(TEXTS, 2):
            yield (
                plain.asked("pairwise", [first, second], reads=False),
                f"[[{longer(first, second)}]]",
            )

    return writer(base, "judge", lessons)


def local(base: Path) -> Path:
    """A tiny model that writes a verdict, without criteria, to each pair of this file in the form
    of ``think:``."""

    def lessons(plain: Plain) -> Iterator[tuple[str, str]]:
        for first, second in permutations(TEXTS, 2):
            yield plain.asked_local(first, second), f"Verdict: {longer(first, second)}"

    place = writer(base, "local", lessons)
    (place / "think.json").write_text('{"direct": true, "max_new_tokens": 12}')
    return place


def longer(first: str, second: str) -> str:
    return "A" if len(first) > len(second) else "B"


def writer(base: Path, name: str, lessons: Callable[[Plain], Iterable[tuple[str, str]]]) -> Path:
    """A tiny model that writes each answer to its prompt: the rows of its head for the answers'
    tokens are the least squares solution of "12 where this token comes next, else 0" over its own
    hidden states."""
    start = folder(base, "llama", "CausalLM", chat=True, **SIZES)
    place = base / name
    if place.is_dir():
        return place
    model = transformers.AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    plain = Plain(model, tokenizer, spaced=False)
    states, following = [], []
    with torch.inference_mode():
        for asked, said in lessons(plain):
            before, after = plain.ids(asked), [*plain.ids(said), tokenizer.eos_token_id]
            hidden = model.model(torch.tensor([[*before, *after[:-1]]])).last_hidden_state[0]
            states.append(hidden[-len(after) :].double())
            following += after
        state, wanted = torch.cat(states), torch.tensor(following)
        tokens = wanted.unique()
        target = 12.0 * (wanted[:, None] == tokens).double()
        kernel = state @ state.T + 0.1 * torch.eye(len(state), dtype=torch.float64)
        model.lm_head.weight[tokens] = (state.T @ torch.linalg.solve(kernel, target)).T.float()
        best = (state.float() @ model.lm_head.weight.T).topk(2)
        assert best.indices[:, 0].tolist() == following
        assert (
            best.values[:, 0] - best.values[:, 1]
        ).min() > 5  # far beyond the rounding of any backend
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def verdicts(cell: Cell, found: dict[str, Any]) -> list[float]:
    """What the verdicts that are written step by step amount to."""
    plain = Plain(found[cell.model], found["tokenizer"], spaced=False)

    def verdict(mode: str, *texts: str) -> str:
        (said,) = re.findall(r"\[\[(\w+)\]\]", plain.written(plain.asked(mode, texts, reads=False)))
        return str(said)

    def picked(i: int, j: int) -> float:
        if cell.kind == "think":
            return float(plain.written(plain.asked_local(TEXTS[i], TEXTS[j])) == "Verdict: A")
        return float(verdict("pairwise", TEXTS[i], TEXTS[j]) == "A")

    if "listwise" in cell.options:
        return [float(letter == verdict("listwise", *TEXTS)) for letter in "ABC"]
    if "pointwise" in cell.options:
        return [float(verdict("pointwise", text)) for text in TEXTS]
    return pairwise(picked, both="orders=one" not in cell.options)


def wanted(cell: Cell, backend: str, found: dict[str, Any]) -> list[float]:
    """The scores that a cell must have, for the three texts."""
    return verdicts(cell, found) if cell.written else expected(cell, backend, found)


def scored(cell: Cell, place: str, found: dict[str, Any], *more: str) -> ScoreResult:
    """What the scorer of a cell says.

    Args:
        cell: the combination.
        place: the model, as the spec names it.
        found: see ``models``.
        more: further options of the spec.
    """
    options = [cell.options.format(reference=found["folders"]["reference"]), *more]
    if cell.kind == "judge":
        options.append("least_mass=0")  # the letters of a random model hold next to nothing
    if any(option.startswith("url=") for option in more):
        options += {"implicit": ["api=completions"], "judge": ["top_logprobs=640"]}.get(
            cell.kind, []
        )
    (result,) = anyio.run(
        open_scorer(f"{cell.kind}:{place}?{'&'.join(filter(None, options))}").score, [ASKED]
    )
    assert isinstance(result, ScoreResult)
    assert result.complete, result.error
    return result
