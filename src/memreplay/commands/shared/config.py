"""Finds and reads the configuration: `memreplay.toml`, or `[tool.memreplay]` of pyproject.toml."""

# Annotations declare options here, which each start reads: they are no text to be evaluated.
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, field

from memreplay.declared import Opt
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule

OWN = "memreplay.toml"
PROJECT = "pyproject.toml"
KEYS = ("category", "category_defaults", "gate", "project")
# The options of a ConfigChoice, for commands whose answer no configuration changes.
CHOICE = ("config_file", "no_config", "folders")
MAX_BYTES = 1 << 20  # no configuration that a person wrote is longer


class Config(Struct, frozen=True):
    """What a configuration says; `name` is what to call it in messages, empty for none."""

    table: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


def _parse_folder(text: str) -> str:
    if not text.strip("/\\"):
        raise UsageError("name a folder")
    return text


class ConfigChoice(Struct, frozen=True):
    """Which configuration was asked for: a file, none, or the one that is found."""

    config_file: Annotated[
        str | None,
        Opt(
            "The configuration, a TOML file (default: memreplay.toml, or pyproject.toml with"
            " [tool.memreplay], in this folder or one above).",
            "FILE",
            flag="--config",
            path="file",
            rare=True,
        ),
    ] = None
    no_config: Annotated[bool, Opt("Ignore any configuration file.", rare=True)] = False
    folders: Annotated[
        tuple[str, ...],
        Opt(
            "Take only the code in this folder (src/gpt) or package (transformers) as yours;"
            " may be repeated. Default: all code that is not installed.",
            "DIR",
            flag="--project",
            parse=_parse_folder,
            rare=True,
        ),
    ] = ()
    _read: list[Config] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.no_config and self.config_file is not None:
            raise UsageError("--config and --no-config contradict each other: give one of them")

    def load(self) -> Config:
        """The configuration, read once. Raises UsageError where it cannot be read or has an unknown
        key."""
        if not self._read:
            self._read.append(self._load())
        return self._read[0]

    def _load(self) -> Config:
        if self.no_config:
            return Config()
        if self.config_file is None:
            return _found(os.getcwd())
        project = os.path.basename(self.config_file) == PROJECT
        config = _in(self.config_file, project=project)
        if config is None:
            raise UsageError(f"{self.config_file}: there is no [tool.memreplay] in it")
        return config

    def rules_for(self, by: str | None) -> "tuple[Rule, ...] | None":
        """As `rules`, where `by` has to do with categories, else None; nothing is read for that."""
        return self.rules() if by is not None and "category" in by.split(",") else None

    def rules(self) -> "tuple[Rule, ...]":
        """The rules of categories: those of the configuration, then the defaults."""
        from memreplay.analysis.categories.rules import rules_of

        config = self.load()
        return rules_of(config.table, config.name)

    def project(self) -> tuple[str, ...]:
        """The folders of the user's code: those of --project, else those of the configuration.

        Empty where neither names any. Raises UsageError for a `project` that is no list of names.
        """
        if self.folders:
            return tuple(_folder(one, os.getcwd()) for one in self.folders)
        config = self.load()
        given = config.table.get("project", [])
        if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
            raise UsageError(
                f'{config.name}: project must be a list of folders, as project = ["src"]'
            )
        return tuple(_folder(one, os.path.dirname(os.path.abspath(config.name))) for one in given)


def _folder(name: str, here: str) -> str:
    """A folder as frames may have it: one that begins with a dot is seen from `here`."""
    dotted = name.replace("\\", "/").split("/")[0] in (".", "..")
    return os.path.normpath(os.path.join(here, name)) if dotted else name


def _found(folder: str) -> Config:
    """The configuration of the nearest folder, from `folder` upwards, that has one."""
    while True:
        for name in (OWN, PROJECT):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                config = _in(path, project=name == PROJECT)
                if config is not None:
                    return config
        above = os.path.dirname(folder)
        if above == folder:
            return Config()
        folder = above


def _in(path: str, *, project: bool) -> Config | None:
    """What a file says; None for a pyproject.toml that does not speak of memreplay."""
    table = _read(path, mentioned=b"memreplay" if project else b"")
    if project:
        tool = table.get("tool", {})
        if not isinstance(tool, dict) or "memreplay" not in tool:
            return None
        table = tool["memreplay"]
        if not isinstance(table, dict):
            raise UsageError(f"{path}: tool.memreplay must be a table")
    for key in table:
        if key not in KEYS:
            raise UsageError(f"{path}: unknown key {key!r}; there are: {', '.join(KEYS)}")
    return Config(table, path)


def _read(path: str, mentioned: bytes = b"") -> dict[str, Any]:
    """The table in a file; an empty one where it does not have `mentioned` anywhere."""
    hint = "; --no-config ignores it"
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path}: too long for a configuration{hint}")
        if mentioned not in data:
            return {}  # most projects' files are not about memreplay: none is parsed for nothing
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8-sig"))
        return table
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: cannot read the configuration: {reason}{hint}") from None
    except (ValueError, RecursionError) as error:  # one of TOML, of UTF-8, of a number's length
        raise UsageError(f"{path}: not valid TOML: {error}{hint}") from None
