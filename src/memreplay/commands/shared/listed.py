"""The commands by heading, with their summaries. Used in the list of commands and at the start of
each help text.
"""

from __future__ import annotations

# In order of typical use.
SECTIONS = {
    "Start here": {
        "report": "Explain a snapshot on one page.",
        "view": "Write an interactive HTML page for a snapshot.",
        "explore": "Browse a snapshot in the terminal.",
    },
    "Look deeper": {
        "summary": "Show what a snapshot contains, and whether it's trustworthy.",
        "peak": "Show peak memory: how much, when, and what held it.",
        "at": "Show what was live at a given moment.",
        "timeline": "Draw memory over time.",
        "oom": "Explain why a request failed, and what would have helped.",
        "leaks": "Find code that holds more memory after every step.",
        "steps": "Show what each training step does to memory.",
        "diff": "Show what changed between two snapshots.",
        "fragmentation": "Show unused reserved memory, and what keeps it reserved.",
        "allocations": "Show what was allocated, how often, and for how long.",
        "modules": "Show what each module holds.",
    },
    "Plan": {
        "plan": "Find the cheapest change that makes it fit a card.",
        "simulate": "Try other allocator settings or another card.",
        "dryrun": "Measure a program's memory use without a GPU.",
    },
    "Record": {
        "record": "Record a GPU program without changing it.",
    },
    "CI and fleets": {
        "gate": "Fail if memory exceeds a budget.",
        "fleet": "Compare all ranks of a run: which is worst or odd, and why.",
        "watch": "Watch a run's snapshots, or with --live, the cards.",
    },
    "Export": {
        "export": "Convert a snapshot to tables, traces and more, or trim it.",
        "sql": "Query a snapshot's tables with SQL.",
        "mcp": "Serve snapshots to an AI agent (Model Context Protocol).",
    },
    "Help": {
        "help": "Print a page of the documentation.",
        "completion": "Print a shell completion script.",
    },
}
COMMANDS = {name: words for section in SECTIONS.values() for name, words in section.items()}
"""Each command's summary."""
