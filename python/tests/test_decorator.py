# SPDX-License-Identifier: Apache-2.0
"""@pawl.exclusive"""

from __future__ import annotations

import asyncio
from typing import Iterator, Optional

import pytest

import pawl
from conftest import elsewhere, is_free


def test_it_holds_while_it_runs(local: str) -> None:
    @pawl.exclusive("report")
    def report(day: int) -> bool:
        """Tell."""
        return not is_free(pawl.Lock("report"))

    assert report(1) is True and is_free(pawl.Lock("report"))
    assert (report.__name__, report.__doc__) == ("report", "Tell.")


@pytest.mark.parametrize("name", ["report-{0}-{kind}", "report-{day}-{1}", lambda day, kind="x": f"report-{day}-{kind}"])
def test_its_name_is_of_its_arguments(local: str, name: str) -> None:
    @pawl.exclusive(name)
    def report(day: int, kind: str = "x") -> bool:
        return not is_free(pawl.Lock(f"report-{day}-{kind}"))

    assert report(1) and report(day=2, kind="y") and report(3, kind="z")


def test_otherwise(local: str) -> None:
    @pawl.exclusive("a", blocking=False)
    def strict() -> str:
        return "ran"

    @pawl.exclusive("a", timeout=0.01, otherwise=None)
    def lenient() -> Optional[str]:
        return "ran"

    with pawl.Lock("a"):
        assert elsewhere(lenient) is None
        with pytest.raises(pawl.Timeout):
            elsewhere(strict)
    assert strict() == lenient() == "ran"


def test_what_the_body_raises_is_its_own(local: str) -> None:
    @pawl.exclusive("a", blocking=False, otherwise="busy")
    def fail() -> str:
        raise pawl.Timeout("mine")

    with pytest.raises(pawl.Timeout, match="mine"):
        fail()


def test_what_cannot_be_decorated(local: str) -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError):
        pawl.exclusive("a")(generator)
    with pytest.raises(ValueError):
        pawl.exclusive("a", blocking=False, timeout=1)


def test_a_coroutine(local: str) -> None:
    async def main() -> None:
        inside, go_on = asyncio.Event(), asyncio.Event()

        @pawl.exclusive("report-{day}", blocking=False, otherwise="busy")
        async def report(day: int) -> str:
            inside.set()
            if day == 1:
                await go_on.wait()
            return "free" if is_free(pawl.Lock(f"report-{day}")) else "held"

        first = asyncio.ensure_future(report(1))
        await inside.wait()
        assert await report(1) == "busy"
        assert await report(2) == "held"
        go_on.set()
        assert await first == "held"

    asyncio.run(main())
    assert is_free(pawl.Lock("report-1"))
