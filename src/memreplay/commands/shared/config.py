"""Find and read the configuration: `memreplay.toml`, or `[tool.memreplay]` in pyproject.toml."""

# The type annotations declare options and are read on every start, so they aren't stored as text.
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, field
from msgspec.structs import replace

from memreplay.commands.shared.errors import say
from memreplay.declared import Opt
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule

OWN = "memreplay.toml"
PROJECT = "pyproject.toml"
KEYS = ("category", "category_defaults", "gate", "project")
# Names of a ConfigChoice's options, for commands that don't use the configuration.
CHOICE = ("config_file", "folders")
NONE = "none"  # for --config none
MAX_BYTES = 1 << 20  # larger than any configuration written by hand


class Config(Struct, frozen=True):
    """A configuration. `name`: the file's name for messages, "" if there is no file."""

    table: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


def _parse_folder(text: str) -> str:
    if not text.strip("/\\"):
        raise UsageError("name a folder")
    return text


class ConfigChoice(Struct, frozen=True):
    """Option for which configuration to use: a file, none, or the one that is found."""

    config_file: Annotated[
        str | None,
        Opt(
            "Configuration file in TOML (default: memreplay.toml, or pyproject.toml with"
            " [tool.memreplay], in this folder or a parent; gate has no default). none ignores it.",
            "FILE",
            flag="--config",
            path="file",
            rare=True,
        ),
    ] = None
    folders: Annotated[
        tuple[str, ...],
        Opt(
            "Treat only the code in this folder (such as src/gpt) or package (such as transformers)"
            " as yours; may be repeated. Default: all code outside installed packages.",
            "DIR",
            flag="--project",
            parse=_parse_folder,
            rare=True,
        ),
    ] = ()
    _read: list[Config] = field(default_factory=list)

    def load(self) -> Config:
        """Read the configuration once. Raises UsageError if it's unreadable or has an unknown
        key.
        """
        if not self._read:
            self._read.append(self._load())
            if self.config_file is None and self._read[0].name:
                say(f"configuration: {self._read[0].name} (--config none ignores it)")
        return self._read[0]

    def only_named(self) -> "ConfigChoice":
        """Return the choice without a configuration that is merely found, because the folder may be
        a stranger's. Prints a note if there is one.
        """
        if self.config_file is not None:
            return self
        with suppress(UsageError):  # an invalid one isn't used either
            if name := _found(os.getcwd()).name:
                say(f"not using {name}: a gate needs --config {os.path.relpath(name)} for that")
        return replace(self, config_file=NONE)

    def _load(self) -> Config:
        if self.config_file == NONE:
            return Config()
        if self.config_file is None:
            return _found(os.getcwd())
        project = os.path.basename(self.config_file) == PROJECT
        config = _in(self.config_file, project=project)
        if config is None:
            raise UsageError(f"{self.config_file}: it has no [tool.memreplay] table")
        return config

    def rules_for(self, by: str | None) -> "tuple[Rule, ...] | None":
        """Return `rules` if `by` involves categories. Otherwise return None without reading the
        configuration.
        """
        return self.rules() if by is not None and "category" in by.split(",") else None

    def rules(self) -> "tuple[Rule, ...]":
        """Return the category rules: those of the configuration, then the default ones."""
        from memreplay.analysis.categories.rules import rules_of

        config = self.load()
        return rules_of(config.table, config.name)

    def project(self) -> tuple[str, ...]:
        """The folders of user code, from --project or else from the configuration; empty if neither
        has any. Raises UsageError if `project` isn't a list of names.
        """
        if self.folders:
            return tuple(_folder(one, os.getcwd()) for one in self.folders)
        config = self.load()
        given = config.table.get("project", [])
        if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
            raise UsageError(f'{config.name}: project must be a list of folders, such as ["src"]')
        return tuple(_folder(one, os.path.dirname(os.path.abspath(config.name))) for one in given)


def _folder(name: str, here: str) -> str:
    """Return a folder as frames spell it. A folder that starts with a dot is relative to `here`."""
    dotted = name.replace("\\", "/").split("/")[0] in (".", "..")
    return os.path.normpath(os.path.join(here, name)) if dotted else name


def _found(folder: str) -> Config:
    """Return the configuration in `folder` or the nearest folder above it."""
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
    """Read a configuration file. Return None for a pyproject.toml that doesn't configure
    memreplay.
    """
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
            raise UsageError(f"{path}: unknown key {key!r}; known keys: {', '.join(KEYS)}")
    return Config(table, path)


def _read(path: str, mentioned: bytes = b"") -> dict[str, Any]:
    """Return a file's TOML table; empty if the file doesn't contain `mentioned`."""
    hint = "; --config none ignores it"
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path}: too long for a configuration{hint}")
        if mentioned not in data:
            return {}  # skip parsing, because most projects' files don't mention memreplay
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8-sig"))
        return table
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: can't read the configuration: {reason}{hint}") from None
    except (ValueError, RecursionError) as error:  # invalid TOML, invalid UTF-8, or too many digits
        raise UsageError(f"{path}: not valid TOML: {error}{hint}") from None
