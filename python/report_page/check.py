"""Checks an HTML report in a headless Chromium: it sorts, filters, says values, and asks the network for nothing.

    expctl report experiments/quickstart.yaml --format html --output scratch/quickstart.html
    python python/report_page/check.py scratch/quickstart.html --screenshots scratch

Needs chromium and chromedriver on the path (Debian: `apt install chromium chromium-driver`), and no Python package.
Exit code 1 and a line for each check that fails. Used with Chromium 150.
"""

import argparse
import pathlib
import re
import sys

from webdriver import browser

UNITS = {
    "": 1, "%": 1, "×": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 1e3, "MB": 1e6, "GB": 1e9,
    "µs": 1e-6, "ms": 1e-3, "s": 1,
}  # fmt: skip
AMOUNT = re.compile(r"([-−+]?[\d,]+(?:\.\d+)?(?:e[-+]?\d+)?)(?: ± [\d.,]+)?\s?(\D\S*)?")
EMPTY = ("", "—")
WIDTHS = {"narrow": 390, "wide": 1400}
RIGHT, END, TAB = "\ue014", "\ue010", "\ue004"

failures = []


def expect(holds, message):
    if not holds:
        failures.append(message)
        print(f"failed: {message}")


def amount(text):
    """A cell's number in its smallest unit; None if it is not plainly a number."""
    found = AMOUNT.fullmatch(text)
    if not found or (found[2] or "") not in UNITS:
        return None
    return float(found[1].replace(",", "").replace("−", "-")) * UNITS[found[2] or ""]


def rows(page, table, visible=False):
    script = "return [...arguments[0].tBodies[0].rows].filter(r => !arguments[1] || !r.hidden)" \
        ".map(r => [...r.cells].map(c => c.textContent.trim()))"
    return page.run(script, page.reference(table), visible)


def check_sorting(page):
    columns = 0
    for number, table in enumerate(page.find(".table > table")):
        before = rows(page, table)
        for button in page.find(".table > table thead th button"):
            inside = page.run("return arguments[0].contains(arguments[1])", page.reference(table), page.reference(button))
            if not inside:
                continue
            column = page.run("return arguments[0].closest('th').cellIndex", page.reference(button))
            name = f"table {number + 1}, column {column + 1}"
            page.run("arguments[0].click()", page.reference(button))
            rising = [row[column] for row in rows(page, table)]
            page.run("arguments[0].click()", page.reference(button))
            falling = [row[column] for row in rows(page, table)]
            page.run("arguments[0].click()", page.reference(button))
            expect(rows(page, table) == before, f"{name}: the third click does not restore the order")
            expect(sorted(rising) == sorted(row[column] for row in before), f"{name}: sorting loses rows")
            for order in (rising, falling):
                filled = [text not in EMPTY for text in order]
                expect(filled == sorted(filled, reverse=True), f"{name}: empty cells are not last: {order}")
            numbers = [[amount(text) for text in order if text not in EMPTY] for order in (rising, falling)]
            if None not in numbers[0] and numbers[0]:
                columns += 1
                expect(numbers[0] == sorted(numbers[0]), f"{name}: does not rise: {rising}")
                expect(numbers[1] == sorted(numbers[1], reverse=True), f"{name}: does not fall: {falling}")
    expect(columns > 0, "no column of numbers was sorted")
    return columns


def check_filters(page):
    boxes = page.find(".filter input")
    for number, box in enumerate(boxes):
        script = "return arguments[0].closest('.filter').nextElementSibling.querySelector('table')"
        table = list(page.run(script, page.reference(box)).values())[0]
        everything = rows(page, table)
        word = everything[-1][-1] or everything[-1][0]
        page.type(box, word)
        shown = rows(page, table, visible=True)
        expect(shown == [row for row in everything if all(w in " ".join(row).lower() for w in word.lower().split())],
               f"filter {number + 1}: `{word}` shows {shown}")
        said = page.run("return arguments[0].nextElementSibling.textContent", page.reference(box))
        expect(said == f"{len(shown)} of {len(everything)} rows", f"filter {number + 1}: says `{said}`")
        page.clear(box)
        page.type(box, "no row has this")
        expect(rows(page, table, visible=True) == [], f"filter {number + 1}: does not hide all rows")
        page.clear(box)
        page.run("arguments[0].dispatchEvent(new Event('input'))", page.reference(box))
        expect(rows(page, table, visible=True) == everything, f"filter {number + 1}: does not show all rows again")
    return len(boxes)


def said(page):
    """What a chart says at this moment, if that is inside the window."""
    return page.run("""
        const says = document.getElementById("says"), box = says.getBoundingClientRect();
        const inside = box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
        return says.hidden || !inside ? "" : says.textContent;
    """)


def check_values(page):
    charts = page.find(".chart svg")
    for number, chart in enumerate(charts):
        places = page.run("return [...arguments[0].querySelectorAll('.value')]", page.reference(chart))
        places = [list(place.values())[0] for place in places]
        expect(places, f"chart {number + 1} has no values")
        for place in {places[0], places[len(places) // 2], places[-1]} if places else ():
            page.point_at(place)
            text = page.run("return arguments[0].dataset.says", page.reference(place))
            expect(re.search(r"\d", text), f"chart {number + 1}: `{text}` has no value")
            # Another place may lie above the middle of this one.
            expect(said(page), f"chart {number + 1}: says nothing at the pointer")
        # As the keys scroll the page, the pointer would come upon other places.
        page.point_away()
        if len(places) > 1:
            page.run("arguments[0].focus()", page.reference(places[0]))
            first = page.run("return arguments[0].dataset.says", page.reference(places[0]))
            expect(said(page) == first, f"chart {number + 1}: says `{said(page)}` with the focus, not `{first}`")
            page.press(RIGHT)
            second = page.run("return arguments[0].dataset.says", page.reference(places[1]))
            expect(said(page) == second, f"chart {number + 1}: says `{said(page)}` after an arrow, not `{second}`")
            page.press(END)
            last = page.run("return arguments[0].dataset.says", page.reference(places[-1]))
            expect(said(page) == last, f"chart {number + 1}: says `{said(page)}` at the end, not `{last}`")
        page.run("document.activeElement.blur()")
    return len(charts)


def check_looks(page, screenshots):
    for size, width in WIDTHS.items():
        for scheme in ("light", "dark"):
            page.look(width, scheme)
            wider = page.run("return document.documentElement.scrollWidth - innerWidth")
            expect(wider <= 0, f"the page is {wider} pixels wider than a {size} window")
            ground = page.run("return getComputedStyle(document.body).backgroundColor")
            expect((ground == "rgb(255, 255, 255)") == (scheme == "light"), f"the {scheme} page is {ground}")
            cut = page.run("""
                return [...document.querySelectorAll(".chart svg text")].filter(text => {
                    const box = text.getBBox(), sheet = text.closest("svg").viewBox.baseVal;
                    return !text.hasAttribute("transform")
                        && (box.x < 0 || box.x + box.width > sheet.width || box.y < 0 || box.y + box.height > sheet.height);
                }).map(text => text.textContent.trim());
            """)
            expect(not cut, f"texts are cut: {cut}")
            if screenshots:
                page.screenshot(screenshots / f"{size}-{scheme}.png")
    if screenshots:
        page.print(screenshots / "print.pdf")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("page", type=pathlib.Path, help="the HTML report")
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="DIR", help="write screenshots and a print here")
    args = parser.parse_args()
    if args.screenshots:
        args.screenshots.mkdir(parents=True, exist_ok=True)
    url = args.page.resolve(strict=True).as_uri()
    with browser() as page:
        page.open("about:blank")
        page.requests()  # those of the browser's own first page
        page.open(url)
        page.look(WIDTHS["wide"], "light")
        columns = check_sorting(page)
        boxes = check_filters(page)
        charts = check_values(page)
        check_looks(page, args.screenshots)
        asked = page.requests()
        others = [address for address in asked if address != url and not address.startswith("data:")]
        expect(url in asked, "the log of requests lacks the page itself")
        expect(not others, f"the page asks for {others}")
        # Even an address that a script would ask for is refused.
        refused = page.run("return fetch('https://example.org/').then(() => false, () => true)")
        expect(refused, "the page can reach the network")
        errors = [entry["message"] for entry in page.log("browser") if "example.org" not in entry["message"]]
        expect(not errors, f"the console says {errors}")
    print(f"{args.page}: {columns} columns of numbers, {boxes} filters, {charts} charts, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
