"""Ask the driver about all cards of this machine, without PyTorch."""

from __future__ import annotations

from typing import NamedTuple

from memreplay.errors import install_command
from memreplay.recording.processes import CannotListError, Nvml, Process


class Card(NamedTuple):
    """A card, as the driver describes it."""

    number: int
    name: str
    uuid: str
    total: int
    free: int
    processes: list[Process]
    missing: str
    """Why processes aren't listed; "" if they are."""


class AllCards(Nvml):
    """NVIDIA's management library, with its own numbers of devices."""

    def __init__(self) -> None:
        super().__init__(None)

    def find(self, device: int) -> object:
        return self.call(self.nvml.nvmlDeviceGetHandleByIndex, device)

    def cards(self) -> list[Card]:
        """Return all cards. Raises CannotListError."""
        return [self.card(i) for i in range(self.call(self.nvml.nvmlDeviceGetCount))]

    def card(self, index: int) -> Card:
        handle, missing = self.handle(index), ""
        processes: list[Process] = []
        try:
            processes = self.processes(index)
        except CannotListError as error:
            missing = str(error)
        memory = self.call(self.nvml.nvmlDeviceGetMemoryInfo, handle)
        return Card(
            index,
            text(self.call(self.nvml.nvmlDeviceGetName, handle)),
            text(self.call(self.nvml.nvmlDeviceGetUUID, handle)),
            memory.total,
            memory.free,
            processes,
            missing,
        )


class Driver:
    """The driver's cards. If it can't list them, `missing` says why."""

    def __init__(self) -> None:
        self.missing = ""
        self.all: AllCards | None = None
        try:
            self.all = AllCards()
        except CannotListError as error:
            self.missing = str(error)
            if not isinstance(error.__context__, ImportError):
                return
            self.missing = f"NVIDIA's cards need {install_command('nvml')}"

    def cards(self) -> list[Card]:
        if self.all is None:
            return []
        try:
            found = self.all.cards()
        except CannotListError as error:  # e.g. a card that was lost
            self.missing = str(error)
            return []
        self.missing = ""
        return found


def text(name: object) -> str:
    """Return a name as text; older versions of the package return bytes."""
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
