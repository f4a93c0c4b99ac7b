"""The lines that install PyTorch's CUDA build fit the Python."""

from __future__ import annotations

import pytest

from memreplay.dryrun.installing import INSTALL_IMPORTED, INSTALL_TORCH, Installer

PIP = Installer("/my venv/bin/python")
REST = INSTALL_IMPORTED.removeprefix("pip install ")


def test_pip_of_that_python_is_used() -> None:
    assert PIP.line(INSTALL_TORCH) == "'/my venv/bin/python' -m pip install --no-deps torch"
    assert Installer("py").install() == (
        f"`py -m pip install --no-deps torch`, then `py -m pip install {REST}`"
    )


@pytest.mark.parametrize("pip", [False, True])
def test_uv_is_used_for_its_environments(pip: bool) -> None:
    made = Installer("py", pip=pip, uv=True)
    assert made.install() == (
        f"`uv pip install --python py --no-deps torch`, then `uv pip install --python py {REST}`"
    )
    assert made.replace("2.5.1+cpu") == (
        "uv pip install --python py --force-reinstall --no-deps torch==2.5.1"
    )


def test_pip_is_installed_first() -> None:
    made = Installer("py", pip=False).install()
    assert made.startswith("`py -m ensurepip`, then `py -m pip install --no-deps torch`, then `py")


def test_python_of_the_system_gets_an_environment() -> None:
    assert Installer("/usr/bin/python3", managed=True).install() == (
        "`/usr/bin/python3 -m venv dryrun-env`, then"
        " `dryrun-env/bin/python -m pip install --no-deps torch`, then"
        f" `dryrun-env/bin/python -m pip install {REST}`"
    )


@pytest.mark.parametrize(
    "version, asked",
    [
        ("2.5.1+cpu", "torch==2.5.1"),
        ("2.11.0", "torch==2.11.0"),
        ("2.12.0.dev20261101+cpu", "torch"),
        ("2.12.0a0+git1234", "torch"),
        ("", "torch"),
    ],
)
def test_replacement_has_the_same_version(version: str, asked: str) -> None:
    assert Installer("py").replace(version) == (
        f"py -m pip install --force-reinstall --no-deps {asked}"
    )


def test_old_cards_need_cuda_12() -> None:
    assert Installer("py").for_old_cards() == (
        "py -m pip install --force-reinstall --no-deps torch"
        " --index-url https://download.pytorch.org/whl/cu126"
    )


@pytest.mark.parametrize(
    "version, cuda", [((3, 9), "cu126"), ((3, 10), "cu130"), ((3, 14), "cu130")]
)
def test_arm_needs_pytorchs_own_index(version: tuple[int, int], cuda: str) -> None:
    made = Installer("py", version=version, machine="aarch64")
    index = f" --index-url https://download.pytorch.org/whl/{cuda}"
    assert made.line(INSTALL_TORCH) == f"py -m pip install --no-deps torch{index}"
    assert made.line(INSTALL_IMPORTED) == f"py -m {INSTALL_IMPORTED}"
    assert made.replace("2.11.0").endswith(f" torch==2.11.0{index}")
