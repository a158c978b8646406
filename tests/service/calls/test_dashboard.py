"""The page `/` in a real browser: more than a hundred models, behind a key."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.browser import Browser, missing
from tests.service.running import Local
from tests.service.stream import rows

KEY = "key-of-the-test-" + "k" * 24
MODELS = 130


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(tmp_path / "profile")
    yield opened
    opened.close()


@pytest.mark.skipif(missing() != "", reason=missing())
def test_the_dashboard(data_dir: Path, browser: Browser) -> None:
    local = Local(data_dir, admin_key=KEY, durability="os")
    local.http.headers["Authorization"] = f"Bearer {KEY}"
    for number in range(MODELS):
        assert local.create(f"m-{number:03}", evaluation={"window": 500}).status_code == 201
    local.post("m-007", "learn-many", rows(400))

    browser.open(f"http://127.0.0.1:{local.port}/")
    browser.wait("!document.getElementById('login').hidden")
    assert "m-007" not in browser.run("return document.body.innerText")
    enter = "document.getElementById('key').value = arguments[0]; document.getElementById('enter').click()"
    browser.run(enter, "wrong")
    browser.wait("document.getElementById('refused').textContent.includes('known')")
    refusals = browser.log()
    assert refusals
    assert all("401" in message for message in refusals), refusals
    browser.run(enter, KEY)
    browser.wait("document.querySelectorAll('#models tbody tr').length === 25")
    assert browser.run("return [document.getElementById('count').textContent, sessionStorage.getItem('key')]") == [
        str(MODELS),
        KEY,
    ]
    browser.wait("document.getElementById('page').textContent === 'page 1 of 6'")
    assert browser.run("return document.getElementById('durability').textContent") == "os"

    stop = threading.Event()

    def learn() -> None:
        for body in rows(100_000, seed=1):
            if stop.is_set():
                return
            local.post("m-007", "learn-one", body)

    producer = threading.Thread(target=learn)
    producer.start()
    try:
        filter_ = "const box = document.getElementById('filter'); box.value = arguments[0]; box.dispatchEvent(new Event('input'))"
        browser.run(filter_, "m-00")
        browser.wait("document.querySelectorAll('#models tbody tr').length === 10")
        browser.run("[...document.querySelectorAll('#models button')].find(b => b.textContent === 'm-007').click()")
        browser.wait("document.getElementById('name').textContent === 'm-007'")
        browser.wait("(document.querySelector('.auc')?.getAttribute('points') ?? '').split(' ').length >= 3")
        browser.wait("document.querySelector('.band').getAttribute('points').split(' ').length >= 6")
        browser.wait("parseFloat(document.getElementById('rate').textContent) > 0")
    finally:
        stop.set()
        producer.join()
    row = "[...document.querySelectorAll('#models tr')].find(row => row.className === 'chosen').innerText"
    browser.wait(f"/0\\.\\d{{4}} . 0\\.\\d{{4}}/.test({row})")
    notice = browser.run("return document.getElementById('told').textContent")
    assert notice.startswith("AUC 0.")
    assert "over the last 500 rows" in notice
    assert browser.log() == []  # no error, nothing that the content security policy refused
    if "AUCSTREAM_PICTURES" in os.environ:
        browser.picture(Path(os.environ["AUCSTREAM_PICTURES"]) / "dashboard.png")
    local.stop()
