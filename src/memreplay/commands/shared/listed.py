"""The commands by their headings, each with its summary: the list of commands shows it, and the
command's own help begins with it."""

from __future__ import annotations

# In the order in which one needs them.
SECTIONS = {
    "Start here": {
        "report": "One page about a snapshot, in words.",
        "view": "A snapshot as an interactive page.",
        "explore": "A snapshot in the terminal, by keys.",
    },
    "Look deeper": {
        "summary": "What is in a snapshot, and whether it can be trusted.",
        "peak": "How high memory went, when, and who held it.",
        "at": "What was held at a moment.",
        "timeline": "Memory over time, as a picture.",
        "oom": "Why a request failed, and what would have helped.",
        "leaks": "Which code holds more and more from step to step.",
        "steps": "What each step of a program does to memory.",
        "diff": "What changed between two snapshots.",
        "fragmentation": "What is reserved and not in use, and what blocks it.",
        "allocations": "What was allocated over the recording, and for how long.",
        "modules": "What each module holds.",
    },
    "Plan": {
        "simulate": "The same run with other settings, or on another card.",
        "dryrun": "The exact memory of a program, on a machine without a GPU.",
    },
    "Record": {
        "record": "Record a program that runs on a GPU, without changing it.",
    },
    "CI and fleets": {
        "gate": "Whether memory is within its budgets.",
        "fleet": "All ranks of a run: which is worst, which is odd, and why.",
        "watch": "The peak of each snapshot of a run, as it is written.",
    },
    "Export": {
        "export": "A snapshot for other programs: a part, tables, traces.",
        "sql": "SQL over the tables of a snapshot.",
        "mcp": "Snapshots for an AI agent, over the Model Context Protocol.",
    },
    "Help": {
        "help": "Print a page of the documentation.",
        "completion": "Print the script that completes commands.",
    },
}
COMMANDS = {name: words for section in SECTIONS.values() for name, words in section.items()}
"""What each command is for."""
