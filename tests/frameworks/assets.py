"""Write a tokenizer and a data set for torchtitan: python -m tests.frameworks.assets FOLDER."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path


def write(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    tokenizers = import_module("tokenizers")
    words = ["[UNK]", "<s>", "</s>", *(f"w{number}" for number in range(500))]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    text = " ".join(words[3:] * 4)
    (folder / "data" / "data.json").write_text(
        "\n".join(json.dumps({"text": text}) for _ in range(64))
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
