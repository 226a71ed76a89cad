"""Tables as Markdown, and as LaTeX for papers."""

import re
from collections.abc import Sequence

__all__ = ["latex_table", "markdown_escape", "markdown_table"]

Rows = Sequence[Sequence[str]]

_ESCAPES = r"""
\ \textbackslash{}
& \&
% \%
$ \$
# \#
_ \_
{ \{
} \}
− $-$
~ \textasciitilde{}
^ \textasciicircum{}
< \textless{}
> \textgreater{}
– --
"""
"""Characters and what stands for them in LaTeX."""
_LATEX = str.maketrans(dict(map(str.split, _ESCAPES.strip().splitlines())))


def markdown_escape(text: str) -> str:
    """Plain text inside a Markdown table, on one line."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~])", r"\\\1", line)


def latex_escape(text: str) -> str:
    """Plain text inside a LaTeX table, on one line."""
    return " ".join(text.split()).translate(_LATEX)


def markdown_table(head: Sequence[str], rows: Rows) -> str:
    """A Markdown table of plain texts, which are escaped."""
    border = ["---"] * len(head)
    lines = [list(map(markdown_escape, cells)) for cells in (head, *rows)]
    lines.insert(1, border)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex_table(
    head: Sequence[str],
    rows: Rows,
    left: int = 1,
) -> str:
    """A ``tabular`` for booktabs of plain texts, which are escaped.

    Args:
        head: the titles of the columns.
        rows: the cells of each row.
        left: number of columns, from the first, that are aligned to the left; the others are
            aligned to the right.
    """

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(latex_escape, cells)) + r" \\"

    columns = "l" * left + "r" * (len(head) - left)
    begin = r"\begin{tabular}{" + columns + "}"
    body = [
        begin,
        r"\toprule",
        line(head),
        r"\midrule",
        *map(line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(body) + "\n"
