"""The explorer's page in a browser: it asks for nothing, its panes follow each other, and keys and readers reach all of it.

Needs Debian's chromium, and `pip install 'nabla-mlir[browser]'`; runs in a stage of CI of its own.
"""

from __future__ import annotations

import html

import pytest
from chromium import complaints
from explorer import programs

import nabla_mlir as nm


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    params, data = programs.PARAMS, programs.DATA
    nm.explain(nm.hvp(programs.loss), params, params, *data, target="cpu", name="hvp").save(folder / "hvp.html")
    nm.explain(nm.hvp_module(programs.loss, params, *data, entry_points=("update", "apply"), max_residual_bytes=2600)).save(
        folder / "halves.html"
    )
    nm.explain(nm.grad(programs.distances), nm.spec((5, 3)), nm.spec(5)).save(folder / "axes.html")
    nm.explain(programs.chain, nm.spec(20), sparsity="hessian").save(folder / "pattern.html")
    nm.explain(programs.arrow, nm.spec(8), sparsity="jacobian").save(folder / "arrow.html")
    lowered = [
        nm.trace(f, *specs, name="f").lower()
        for f, specs in ((nm.grad(programs.chain), [nm.spec(6)]), (nm.hvp(programs.chain), [nm.spec(6)] * 2))
    ]
    for name, stage in zip("ab", lowered, strict=True):
        stage.save_mlir(folder / f"{name}.mlir")
    nm.explorer.compare(folder / "a.mlir", folder / "b.mlir").save(folder / "diff.html")
    nm.explain(nm.from_stablehlo((folder / "a.mlir").read_text()), nm.spec(6)).save(folder / "bare.html")
    nm.explain(nm.trace(nm.grad(programs.long), nm.spec(8), name="long").lower()).save(folder / "long.html")
    return folder


class Opened:
    """A page, and what it asked for and complained about."""

    def __init__(self, browser, path, **options):
        self.page = browser.new_page(**{"viewport": {"width": 1400, "height": 900}, **options})
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())

    def text(self, selector):
        return self.page.inner_text(selector)


@pytest.fixture
def opened(browser, pages):
    all_pages = []

    def open_page(name, **options):
        all_pages.append(Opened(browser, pages / f"{name}.html", **options))
        return all_pages[-1]

    yield open_page
    for one in all_pages:
        assert one.complaints == []
        assert [url for url in one.requests if not url.startswith("file:")] == []
        one.page.close()


def test_a_line_of_the_source_leads_to_its_derivatives(opened):
    one = opened("hvp")
    one.page.click("#source .code-line.live:has-text('tanh')")
    words = one.text("#origin")
    assert "what you wrote" in words
    assert "first derivative" in words
    assert "second derivative" in words
    assert one.page.locator("#ir .row.light").count() > 5
    second = one.page.locator("#origin .steps > li.is2 .link").first
    name = second.inner_text()
    second.click()
    assert one.page.locator("#ir .row.picked").first.inner_text().strip().startswith(name[:20])
    words = one.text("#origin")
    assert (
        words.index("You wrote")
        < words.index("reverse mode (vjp)")
        < words.index("forward mode (jvp)")
        < words.index("This operation")
    )
    assert "nnp.tanh" in words
    assert "Ends in the kernel" in words
    assert one.page.locator("#source .code-line.light").count() >= 1


def test_a_rule_is_shown_as_it_is_written(opened):
    one = opened("hvp")
    one.page.click("#ir .row:has-text('stablehlo.cosine'), #ir .row:has-text('subtract %cst')")
    one.page.click("#origin summary:has-text('rule: partials')")
    assert '"stablehlo.tanh"' in one.text("#origin details[open] pre")


def test_a_pass_shows_what_it_changed(opened):
    one = opened("hvp")
    one.page.click("#passes .pass:has-text('simplify')")
    one.page.keyboard.press("d")
    assert one.page.locator("#ir .row.removed").count() > 0
    assert one.page.locator("#ir .row.added").count() > 0
    assert "nabla-simplify" in one.text("#ir-title")
    assert "Derivatives leave zeros" in one.text("#about")
    before = one.page.locator("#passes .pass").count()
    one.page.uncheck("#changed")
    assert one.page.locator("#passes .pass").count() > before + 20


def test_operands_and_uses_are_marked(opened):
    one = opened("hvp")
    one.page.click("#ir .row:has-text('stablehlo.tanh')")
    assert one.page.locator("#ir .row.def").count() == 1
    assert one.page.locator("#ir .row.use").count() >= 1
    reader = one.page.locator("#origin h3:has-text('Read by') + ul .link").first
    words = reader.inner_text()
    reader.click()
    assert one.page.locator("#ir .row.picked").first.inner_text().strip().startswith(words[:15])


def test_kernels_and_back(opened):
    one = opened("hvp")
    one.page.click("#tab-kernels")
    assert "Roofline" in one.text("#kernels")
    assert one.page.locator("#kernels circle.dot").count() > 0
    one.page.locator("#kernels rect.block").first.click()
    assert one.page.locator("#kernels tr.picked").count() == 1
    one.page.locator("#kernels tr.picked td:last-child .link").first.click()
    assert one.page.locator("#program").is_visible()
    assert one.page.locator("#ir .row.picked").count() >= 1
    one.page.locator("#origin h3:has-text('Ends in the kernel') + ul .link").first.click()
    assert one.page.locator("#kernels").is_visible()
    one.page.click("#tab-program")
    one.page.select_option("#measure", "seconds")
    assert one.page.locator("#source .heat i").count() > 0


def test_halves(opened):
    one = opened("halves")
    one.page.click("#tab-halves")
    assert "Known half" in one.text("#halves")
    assert "recomputing it costs" in one.text("#halves")
    assert "recomputing it costs 480 flop; storing it would take 960 B more" in one.text("#halves")
    one.page.locator("#halves td .link").first.click()
    assert one.page.locator("#ir .row.picked").count() == 1


def test_axes_are_colored_and_the_rest_is_grey(opened):
    one = opened("axes")
    one.page.click("#pass--1")
    assert one.page.locator("#ir .axis").first.inner_text() == "i"
    assert one.page.locator("#ir .row.grey:has-text('constant')").count() > 0


def test_a_pattern_is_drawn(opened):
    one = opened("pattern")
    one.page.click("#tab-pattern")
    assert "3 products instead of 20" in one.text("#pattern")
    red = one.page.evaluate("""() => { const c = document.querySelector('#pattern canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n / (c.width * c.height) }""")
    assert red == pytest.approx((20 + 2 * 19) / 400)


def test_the_products_of_a_coloring_are_drawn(opened):
    one = opened("arrow")
    one.page.click("#tab-pattern")
    assert "3 products instead of 8" in one.text("#pattern")
    pictures = one.page.locator("#pattern figure")
    assert [words.split("\n")[0] for words in pictures.all_inner_texts()] == [
        "The entries, each in the color of its product",
        "The 2 products with sums of columns",
        "The product with a sum of rows",
    ]
    # The first row is full: what stands there is read from the product with rows, as its own picture is.
    colors = one.page.evaluate("""() => [...document.querySelectorAll('#pattern canvas')].map(c => { const s = c.height > c.width / 8 ? c.height / 8 : c.height;
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, at = (x, y) => [...d.slice(4 * ((y * s + 2) * c.width + x * s + 2), 4 * ((y * s + 2) * c.width + x * s + 3))].join();
        return [at(1, 0), at(1, 1)] })""")
    assert colors[0][0] == colors[2][0] != colors[0][1]


def test_phases_of_iree_lead_back_to_the_program(opened):
    one = opened("hvp")
    one.page.click("#passes .pass:has-text('iree-compile')")
    assert "CSEPass" in one.text("#about") or "CanonicalizerPass" in one.text("#about")
    one.page.click("#passes .pass:has-text('dispatch-creation')")
    one.page.locator("#ir .row:has-text('linalg.matmul')").first.click()
    words = one.text("#origin")
    assert "programs.py:10" in words
    assert "Ends in the kernel" in words
    one.page.locator("#origin h3:has-text('In the program that IREE compiles') + ul .link").first.click()
    assert "stablehlo.dot_general" in one.page.locator("#ir .row.picked").first.inner_text()
    one.page.click("#passes .pass:has-text('abi')")
    one.page.keyboard.press("d")
    assert one.page.locator("#ir .row.added").count() < one.page.locator("#ir .row").count() / 2


def test_two_files(opened):
    one = opened("diff")
    assert one.page.locator("#modes [aria-pressed=true]").inner_text() == "Difference"
    assert one.page.locator("#ir .row.added").count() > 0
    one.page.locator("#ir .row.added").nth(1).click()
    assert "b.mlir" in one.text("#origin")


def test_ir_without_source_says_so(opened):
    one = opened("bare")
    assert "came as IR, without the lines" in one.text("#source")
    one.page.click("#ir .row:has-text('stablehlo.slice') >> nth=0")
    assert "No line of yours" in one.text("#origin")


def test_search_and_folds(opened):
    one = opened("hvp")
    one.page.keyboard.press("/")
    one.page.keyboard.type("dot_general")
    count = int(one.text("#hits").split("/")[1])
    assert one.text("#hits").startswith("1/")
    assert count > 5
    one.page.keyboard.press("Enter")
    assert one.text("#hits") == f"2/{count}"
    one.page.keyboard.press("Escape")
    one.page.click("#pass--1")
    rows = one.page.locator("#ir .row").count()
    one.page.keyboard.press("f")
    assert one.page.locator("#ir .row").count() < rows
    assert "lines" in one.text("#ir")


def test_keys_alone(opened):
    one = opened("hvp")
    press = one.page.keyboard.press
    press("1")
    press("ArrowDown")
    assert one.page.locator("#passes [aria-selected=true]").inner_text().startswith("expand")
    press("2")
    for _ in range(4):
        press("ArrowDown")
    assert "This operation" in one.text("#origin")
    assert one.page.get_attribute("#ir", "aria-activedescendant") == "ir-4"
    press("3")
    press("ArrowDown")
    assert "became" in one.text("#origin")
    press("4")
    press("Tab")
    press("Enter")  # the first link of the story
    assert "This operation" in one.text("#origin")
    press("?")
    assert one.page.locator("#keys").is_visible()
    press("Escape")
    press("]")
    press("t")
    assert one.page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("hvp", "light"),
        ("hvp", "dark"),
        ("halves", "light"),
        ("axes", "dark"),
        ("pattern", "light"),
        ("diff", "dark"),
        ("bare", "light"),
    ],
)
def test_axe_has_nothing_to_say(opened, name, scheme):
    one = opened(name, color_scheme=scheme, bypass_csp=True)  # axe is a script of its own
    one.page.locator("#ir .row").nth(5).click()
    for tab in [None, *one.page.locator("#tabs button").all()]:
        if tab is not None and tab.is_visible():
            tab.click()
        assert complaints(one.page) == []


def test_a_narrow_screen(opened):
    one = opened("hvp", viewport={"width": 390, "height": 800})
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 390
    one.page.click("#source .code-line.live:has-text('tanh')")
    assert "became" in one.text("#origin")


def test_ten_thousand_operations_are_drawn_as_far_as_they_are_seen(opened):
    one = opened("long")
    assert one.page.evaluate("Math.max(...app.model.data.states.map(s => s.operations))") > 10_000
    one.page.evaluate("app.pickPass(app.passes.shown[1])")
    one.page.evaluate("document.getElementById('ir').scrollTop = 60000")
    one.page.wait_for_selector("#ir-3000")
    assert one.page.locator("#ir .row").count() < 120
    one.page.click("#ir-3005")
    assert "This operation" in one.text("#origin")
    # A click marks lines where they are, and makes links for those alone that a reader sees.
    is_in_place = one.page.evaluate("""() => { const rows = [...document.querySelectorAll('#ir .row')], lines = [...document.querySelectorAll('#source .code-line')];
        app.pickRow(3010); app.pickRow(3007); return [...rows, ...lines].every(node => node.isConnected) }""")
    assert is_in_place
    one.page.locator("#source .code-line.live").first.click()
    assert one.page.locator("#origin .link").count() <= 4 * 40
    measured = one.page.evaluate("""() => { const time = (f) => { const t = performance.now(); f(); document.body.offsetHeight; return performance.now() - t };
        return { load: performance.timing.loadEventEnd - performance.timing.navigationStart, operation: time(() => app.pickRow(4000)),
                 line: time(() => app.pickLine(0, app.model.data.files[0].first + 3)), difference: time(() => app.pickMode('difference')) } }""")
    print({key: f"{value:.0f} ms" for key, value in measured.items()})


def test_a_page_in_a_notebook_leaves_the_notebook_where_it_is(browser, pages):
    text = html.escape((pages / "hvp.html").read_text())
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.set_content(f'<div style="height: 3000px">cells</div><iframe srcdoc="{text}" width="100%" height="720"></iframe>')
    inside = page.frame_locator("iframe")
    inside.locator("#passes .pass[aria-selected=true]").wait_for(state="attached")
    assert page.evaluate("scrollY") == 0
    inside.locator("#passes .pass[aria-selected=true]").evaluate("node => node.click()")
    assert page.evaluate("scrollY") == 0
    page.close()


def test_tables_on_a_narrow_screen_have_rows_that_one_can_read(opened):
    one = opened("hvp", viewport={"width": 400, "height": 900})
    one.page.click("#tab-kernels")
    heights = one.page.locator("#kernels > table tbody tr").evaluate_all("rows => rows.map((row) => row.clientHeight)")
    assert len(heights) >= 5
    assert max(heights) < 120
