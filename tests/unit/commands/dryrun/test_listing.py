"""The list of cards."""

from __future__ import annotations

import json

from memreplay.commands.app import app
from memreplay.commands.dryrun.listing import listed_gpus
from memreplay.snapshot.cards import CARDS, OF_ANOTHER
from tests.commanding import command_runner
from tests.unit.render.schemas import check_against


def ask(*options: str) -> str:
    done = command_runner().invoke(
        app, ["dryrun", "--list-gpus", *options], env={"COLUMNS": "80"}, prog_name="memreplay"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_list_has_a_row_per_card() -> None:
    lines = ask().splitlines()
    assert lines[0].split("  ")[0] == "--gpu"
    rows = {line.split()[0]: line.split()[1:] for line in lines[1 : len(CARDS) + 1]}
    assert list(rows) == [card.key for card in CARDS]
    said = "139.8 GiB 526.8 MiB 766.8 MiB 688.0 MiB measured"
    assert rows["H200"] == said.split()
    assert rows["H100"] == said.replace("139.8", "79.2").replace("mea", "start mea").split()
    assert rows["L40"][-1] == "estimated"
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "Real programs were within 64.0 MiB of this" in text


def test_json_has_the_sources() -> None:
    found = json.loads(ask("--json"))
    check_against("dryrun-gpus-1.json", found)
    for one, card in zip(found["gpus"], CARDS, strict=True):
        assert (one["key"], one["name"], one["source"]) == (card.key, card.name, card.source)
        assert one["training_bytes"] == card.training_bytes
        assert one["compute_capability"] == f"{card.major}.{card.minor}"
        if one["known"] == "estimated":
            assert card.context_exact == OF_ANOTHER
        else:
            assert one["known"] == ("measured" if card.key == "H200" else "start_measured")


def test_result_prints_the_list() -> None:
    assert str(listed_gpus()).startswith("--gpu ")


def test_command_is_needed_otherwise() -> None:
    done = command_runner().invoke(app, ["dryrun"], prog_name="memreplay")
    assert done.exit_code == 2
    assert "missing argument '-- COMMAND...'" in done.stderr
