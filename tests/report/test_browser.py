"""The pages in a real Chromium: sorting, filters, failures, dark mode, narrow screens, paper, and accessibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.report import class_page, html

from . import samples

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / samples.PICTURE).write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="9" height="9"/></svg>'
    )
    made = {
        "student": html.render(samples.view(samples.every_kind(), folder=folder)),
        "staff": html.render(samples.view(samples.every_kind(), staff=True, folder=folder)),
        "hostile": html.render(samples.view(samples.hostile())),
        "class": class_page.render("Triton kernels", samples.a_class(40)),
        "large": class_page.render("Triton kernels", samples.a_class(500)),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def open_page(browser: Any, pages: Path) -> Iterator[Open]:
    """Opens a page by name. Whatever the console says, any request but for the page, and any dialog fails the test."""
    problems: list[str] = []
    contexts = []

    def opened(name: str, fragment: str = "", **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: problems.append(request.url) if request.url[:5] not in ("file:", "data:") else None,
        )
        page.goto(f"{(pages / name).as_uri()}.html{fragment}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def names(page: Any) -> list[str]:
    """What is shown in the table's first column, in order."""
    return [text.split(" s")[0] for text in page.locator("#class tbody tr:not([hidden]) th").all_inner_texts()]


def test_the_table_is_sorted_by_its_headings(open_page):
    page = open_page("class")
    assert names(page)[:4] == ["Absent Abby", "Student Number 0", "Student Number 1", "Student Number 2"]
    points = page.locator("#class thead th").nth(1)
    points.get_by_role("button").click()
    assert points.get_attribute("aria-sort") == "descending"
    shown = page.locator("#class tbody tr td:nth-child(2)").all_inner_texts()
    assert shown[-1] == "–"
    assert [float(text) for text in shown[:-1]] == sorted((float(text) for text in shown[:-1]), reverse=True)
    points.get_by_role("button").press("Enter")
    assert points.get_attribute("aria-sort") == "ascending"
    shown = page.locator("#class tbody tr td:nth-child(2)").all_inner_texts()
    assert [float(text) for text in shown[:-1]] == sorted(float(text) for text in shown[:-1])
    assert shown[-1] == "–"


def test_filters_narrow_the_table_and_stand_in_the_address(open_page):
    page = open_page("class")
    page.get_by_label("Search").fill("number 1")
    assert page.locator("#count").inner_text() == "13 of 41 shown"
    page.get_by_label("Show").select_option("late")
    assert names(page) == ["Student Number 17"]
    address = page.url
    assert "q=number+1" in address
    assert "show=late" in address
    again = open_page("class", "#" + address.split("#")[1])
    assert names(again) == ["Student Number 17"]
    assert again.get_by_label("Search").input_value() == "number 1"
    flagged = ["Student Number 4", "Student Number 5", "Student Number 6"]
    for mark, who in (("flagged", flagged), ("fault", ["Student Number 3"]), ("none", ["Absent Abby"])):
        assert names(open_page("class", f"#show={mark}")) == who


def test_a_check_filters_who_failed_it(open_page):
    page = open_page("class")
    link = page.get_by_role("link", name="softmax ragged")
    failed = int(link.locator("xpath=ancestor::tr").locator("td").first.inner_text())
    link.click()
    assert page.get_by_label("Failed").input_value() == "softmax ragged"
    assert len(names(page)) == failed


def test_a_failure_opens_by_mouse_by_keyboard_and_by_link(open_page):
    page = open_page("student")
    reason = page.get_by_text("out[0, 0] = 0.161133")
    assert not reason.is_visible()
    page.get_by_role("link", name="wrong values").click()
    assert reason.is_visible()
    assert page.locator("img").evaluate("image => image.complete && image.naturalWidth") == 40
    summary = page.locator("details.entry summary").first
    summary.press("Enter")
    assert not reason.is_visible()
    assert open_page("student", "#softmax-ragged-float16").get_by_text("out[0, 0] = 0.161133").is_visible()


def test_everything_is_reached_by_the_keyboard(open_page):
    page = open_page("class", "#show=flagged")
    focused = []
    for _ in range(16):
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.innerText || document.activeElement.id"))
    assert focused[0] == "Skip to content"
    assert "q" in focused
    assert "points" in focused
    assert "Student Number 4" in focused


def test_dark_mode_changes_the_colours_and_paper_is_white(open_page):
    colours = "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    light = open_page("student", color_scheme="light").evaluate(colours)
    page = open_page("student", color_scheme="dark")
    dark = page.evaluate(colours)
    assert light[0] == "rgb(255, 255, 255)"
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(colours) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]


def test_on_paper_every_failure_is_open(open_page):
    page = open_page("student")
    assert page.locator("details[open]").count() == 0
    page.pdf()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


@pytest.mark.parametrize("name", ["student", "staff", "class", "hostile"])
def test_a_narrow_screen_never_scrolls_sideways_as_a_whole(open_page, name):
    page = open_page(name, viewport={"width": 340, "height": 700})
    page.evaluate("document.querySelectorAll('details').forEach(found => { found.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 340


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["student", "staff", "class", "hostile"])
def test_axe_finds_nothing(open_page, name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(name, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(found => { found.open = true; })")
    found = Axe().run(page).response
    assert [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found["violations"]] == []
    assert len(found["passes"]) > 15


def test_hostile_text_runs_nothing(open_page):
    page = open_page("hostile")
    page.evaluate("document.querySelectorAll('details').forEach(found => { found.open = true; })")
    assert page.locator("img, iframe, script:not(:last-child)").count() == 0
    assert page.get_by_text("<script>alert(1)</script>").first.is_visible()


def test_500_students_open_and_sort(open_page):
    page = open_page("large")
    assert page.locator("#count").inner_text() == "501 of 501 shown"
    page.get_by_label("Search").fill("number 499")
    assert names(page) == ["Student Number 499"]
