"""``carb data check``: faults of a data set, attacks without its questions, and its overlap with
other texts."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from carb_cli.commands.data_show import show_home
from carb_cli.display import advice, interval, percent, say, table
from carb_cli.json_output import print_json
from carb_cli.main import FAILED, OK, invoked
from carb_cli.options import DataName, Flag, Json, MaybeFile, Names
from carb_cli.selection import loaded
from carb_data import (
    BonSet,
    CarbError,
    ContaminationReport,
    DataError,
    Dataset,
    check_contamination,
    load,
)
from carb_data.audit import AuditReport
from carb_data.check import CheckReport, Finding
from carb_data.check import check as check_data

SHOWN = 30


def check(
    data: DataName,
    *,
    against: Names = (),
    form_only: Flag = False,
    write_hard: MaybeFile = None,
    json: Json = False,
) -> int:
    """Check a data set: its form, its sets, attacks from the answers alone, and copies in training
    data.

    Every defect of the form is reported with file, line and field. Then come copies and
    near-copies, and texts in another language than declared. Last are perturbations of the wrong
    kind, and families without the set of one of their answers. Each attack sees the answers of a
    set but not its culture, and picks one. If it works, repair the data.

    Exits with 1 on errors, and when a set is in the training data. It also exits with 1 when an
    attack on the whole data set has an interval ten points or more above chance.

    For example:

        carb data check my-sets.jsonl --against train.txt

    Parameters
    ----------
    against
        Training data: data sets, or .txt files with a text on each line; may be repeated.
    form_only
        Check the form, and with --against the training data, without findings and attacks.
    write_hard
        Write the sets that no working attack solves to this .jsonl or .parquet file.
    """
    if form_only and write_hard is not None:
        raise CarbError(
            "--write-hard needs the attacks, which --form-only leaves out; drop one of them."
        )
    try:
        dataset = loaded(data)
    except DataError as error:
        if json:
            print_json({"valid": False, "problems": error.problems})
        else:
            say(str(error))
        return FAILED
    if not json:
        say(f"{len(dataset):,} sets, all valid in form. Fingerprint {dataset.fingerprint}.")
    if form_only:
        return _form_only(dataset, against, json=json)
    report = check_data(dataset, against=_texts(against) if against else None)
    if write_hard is not None:
        Dataset(dataset[name] for name in report.audit.hard).save(write_hard)
    if json:
        print_json({"valid": report.passed, **report.model_dump(mode="json")})
    else:
        _show(report)
    if report.passed:
        return OK
    return FAILED


def _form_only(dataset: Dataset, against: tuple[str, ...], *, json: bool) -> int:
    """Look for the sets in the training data, where there is any, and for nothing else."""
    copies = None
    if against:
        copies = check_contamination(_texts(against), dataset)
    clean = copies is None or copies.clean
    if json:
        facts = {"valid": clean, "sets": len(dataset), "fingerprint": dataset.fingerprint}
        print_json(facts | {"contamination": copies})
    elif copies is not None:
        _show_contamination(copies)
    return OK if clean else FAILED


def _show(report: CheckReport) -> None:
    _show_findings(report)
    if report.undetected:
        named = ", ".join(f"{tag} {sets:,}" for tag, sets in report.undetected.items())
        say(f"The detector lacks these languages, and checked no text in them: {named}.")
    _show_audit(report.audit)
    show_home(report.home_line, report.home_by_language)
    say(f"{len(report.audit.hard):,} of {report.sets:,} sets are solved by no working attack.")
    if report.contamination is not None:
        _show_contamination(report.contamination)
    errors = len(report.errors)
    sentence = f"{errors} errors, {len(report.findings) - errors} warnings."
    leaks = ", ".join(dict.fromkeys(leak.attack for leak in report.leaks))
    if leaks:
        sentence += f" Leaks: {leaks}."
    say(sentence)


def _show_findings(report: CheckReport) -> None:
    if report.errors:
        errors = report.errors[:SHOWN]
        shown = [(one.check, one.item_id, one.field, one.message) for one in errors]
        table(f"{len(report.errors)} errors", ["check", "set", "field", "what"], shown)
        if len(report.errors) > SHOWN:
            say(f"... and {len(report.errors) - SHOWN:,} more; --json lists them all.")
    warned: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.severity == "warning":
            warned.setdefault(finding.check, []).append(finding)
    rows = [
        (name, len(some), f"{some[0].item_id} {some[0].field}: {some[0].message}")
        for name, some in warned.items()
    ]
    if rows:
        table("Warnings (--json lists them all)", ["check", "n", "the first"], rows, right=["n"])


def _show_audit(audit: AuditReport) -> None:
    """The strongest attacks over the whole, and those that work in a domain or culture."""
    whole = sorted(
        (attack for attack in audit.attacks if attack.level in ("all", "main")),
        key=lambda attack: (not attack.works, attack.shortfall),
    )
    shown = whole[: max(5, sum(attack.works for attack in whole))]
    shown += [attack for attack in audit.working if attack not in whole][:SHOWN]
    rows = [
        (
            one.attack,
            one.group or one.level,
            percent(one.accuracy),
            interval(one.low, one.high),
            percent(one.chance),
            "works" if one.works else "",
        )
        for one in shown
    ]
    columns = ["attack", "sets", "accuracy %", "95%", "chance %", ""]
    title = (
        f"From the answers alone: the strongest of {len(whole)} attacks, and where one works in "
        "a part"
    )
    table(title, columns, rows, right=columns[2:5])
    if audit.passed:
        reach = "they are too few to detect even an attack that is always right"
        if audit.detectable is not None:
            reach = f"one right in {percent(audit.detectable)}% or more would be detected"
        say(f"No attack works on these sets; {reach}.")


def _show_contamination(copies: ContaminationReport) -> None:
    say(f"Against {copies.train_texts:,} training texts:")
    if copies.clean:
        say(f"no set is in the training data (n-gram share below {copies.threshold:g}).")
        return
    rows = [
        (
            o.item_id,
            o.field,
            o.kind,
            f"{o.score:.2f}",
            o.train_id or f"line {o.train_position + 1}",
            o.test_text[:60],
        )
        for o in copies.overlaps[:SHOWN]
    ]
    table(
        "In the training data",
        ["set", "field", "how", "share", "training entry", "text"],
        rows,
        ["share"],
    )
    kinds = ", ".join(f"{kind} {number}" for kind, number in copies.counts.items() if number)
    say(
        f"{len(copies.contaminated):,} of {copies.test_items:,} sets are in the training "
        f"data: {kinds}."
    )


def _texts(names: Iterable[str]) -> Iterator[str | BonSet]:
    for name in names:
        if not name.endswith(".txt"):
            dataset = load(name, registry=None, skip_bad=invoked.skip_bad)
            for sentence in dataset.notes:
                advice(f"{name}: {sentence}")
            yield from dataset
            continue
        try:
            with Path(name).open(encoding="utf-8") as file:
                yield from (line.strip() for line in file if line.strip())
        except UnicodeDecodeError:
            raise CarbError(f"{name} is not text in UTF-8.") from None
