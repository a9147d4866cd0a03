"""The page of `talc show` in a real browser: driven by mouse and keyboard, what lights up is what `talc trace --json` says.

usage: test_show.py TALC ROOT [SCREENSHOTS]       Exit code 77, skipped, without Chromium. With a folder, pictures to look at.
"""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse

import browser

TALC, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
PLANNED = ["--gpu", "h200", "--cpu", "avx2"]
PROBLEMS = [
    "n1c1h4w5o2k3", "n1c2h4w4o2k3p1", "n1c1h6w7o2k3s2p1", "n1c1h6w6o1k3p1d2", "n1c4h3w4o4k3p1g2", "n1c3h3w3o4k1", "n1c4h4w4o4k3p1g4",
    "n1c1h5w6o2k2x3s2x1p1x0", "n2c1h3w4o2k3p1_dx", "n1c2h5w5o2k3s2p1_dx", "n1c1h4w4o3k3p1_dw", "n2c2h4w4o2k3s2p1g2_dw",
]
KEPT = "docs/convolution.html"  # tests/check_pages.py holds it to what `talc show` writes

# What is lit: elements of the arrays, places of the columns, how many cells of padding, and who computes it.
LIT = """(() => {
  const lit = [...document.querySelectorAll('[data-mark]')];
  return {ids: lit.map(n => n.id).filter(id => id && !id.startsWith('p-')).sort(), padding: lit.filter(n => n.id.startsWith('p-')).length,
    owners: lit.filter(n => n.classList.contains('leaf')).map(n => n.getAttribute('aria-label')).sort()};
})()"""
CENTRES = """Object.fromEntries([...document.querySelectorAll('.tensor [data-el]')].filter(n => !n.classList.contains('pad')).map(n => {
  const r = n.getBoundingClientRect(); return [n.id, [r.x + r.width / 2, r.y + r.height / 2, n.textContent]]; }))"""
SPREAD = """(() => {
  const wide = document.documentElement.scrollWidth, out = [];
  for (const n of document.querySelectorAll('body *')) {
    const r = n.getBoundingClientRect(), s = n.parentElement.closest('.scroll');
    if (r.width && !s && (r.left < -0.5 || r.right > innerWidth + 0.5) && !n.closest('noscript')) out.push(n.tagName + '#' + n.id + '.' + n.className);
  }
  const panels = [...document.querySelectorAll('.panel')].map(n => [n.id, n.getBoundingClientRect()]);
  for (const [a, p] of panels) for (const [b, q] of panels)
    if (a < b && p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom) out.push(a + ' over ' + b);
  return wide > innerWidth ? ['wider than the window: ' + wide, ...out] : out;
})()"""


def talc(*arguments):
    done = subprocess.run([TALC, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"talc {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def trace(text):
    return json.loads(talc("trace", text, "--all", "--json", *PLANNED))


def name(kind, at):
    return kind[-1] + "-" + "-".join(map(str, at))


class Expected:
    """What belongs to each element of the three arrays, from a trace."""

    def __init__(self, traced):
        self.result, self.first, self.second = (traced[part]["name"] for part in ("result", "first", "second"))
        self.all = [name(traced[part]["name"], at) for part in ("result", "first", "second")
                    for at in itertools.product(*map(range, traced[part]["dims"]))]
        self.owners, self.by, self.shown = {}, {}, None
        self.algorithm = next((a for a in traced["algorithms"] if a.get("owner_table")), None)
        product = traced["product"]
        for number, element in enumerate(traced["elements"]):
            target = name(self.result, element["at"])
            column = element["product"] * product["columns"] + element["column"]
            for term in element["terms"]:
                inside = term["second"]["element"] is not None
                second = name(self.second, term["second"]["at"])
                parts = (target, name(self.first, term["first"]["at"]), second if inside else None, f"b-{term['k']}-{column}")
                for part in parts[:3]:
                    self.by.setdefault(part, []).append((*parts, None if inside else second))
            if self.algorithm and not self.shown:
                self.shown = self.shown_levels(self.algorithm, product["inner"], traced)
            if self.algorithm:
                label = f"{self.result}[{','.join(map(str, element['at']))}]"
                self.owners[target] = [", ".join(f"{level['name']} {n}" for i, (level, n) in enumerate(zip(self.algorithm["levels"], owner)) if i in self.shown)
                                       + ": " + label for owner in self.algorithm["owner_table"][number]
                                       if all(level["kind"] != "split" or n in self.splits for level, n in zip(self.algorithm["levels"], owner))]

    def shown_levels(self, algorithm, inner, traced):
        """The levels that have more than one number, and the first; and which splits have terms."""
        (*_, KH, KW), = [traced[part]["dims"] for part in ("first", "second", "result") if traced[part]["name"][-1] == "w"]
        index = {"term": lambda k: k, "channel": lambda k: k // (KH * KW), "tap": lambda k: k % (KH * KW)}
        loop = next((loop for loop in algorithm["loops"] if loop["kind"] == "split"), None)
        if loop:
            self.splits = {index[loop["index"]](k) // loop["step"] % loop["extent"] for k in range(inner)}
        else:
            self.splits = set(range(1 << 16))
        return [i for i, level in enumerate(algorithm["levels"])
                if i == 0 or level["extent"] > 1 and not (level["kind"] == "split" and len(self.splits) == 1)]

    def lit(self, element):
        terms = self.by.get(element, [])
        ids = {element, *(part for term in terms for part in term[:4] if part)}
        targets = {term[0] for term in terms} | ({element} if element in self.owners else set())
        return {"ids": sorted(ids), "padding": len({term[4] for term in terms if term[4]}),
                "owners": sorted(owner for target in targets for owner in self.owners.get(target, []))}


def sums(traced, shown):
    """The result by the formula, from the numbers that the page shows of the operands."""
    shapes = {traced[part]["name"][-1]: traced[part]["dims"] for part in ("first", "second", "result")}
    problem = traced["problem"].split("_")[0]
    fields = {letter: [int(n) for n in digits.split("x")] for letter, digits in
              ((part[0], part[1:]) for part in "".join(f" {c}" if c.isalpha() and c != "x" else c for c in problem).split())}
    (sh, sw), (top, left, *_), (dh, dw), (groups,) = fields["s"], fields["p"], fields["d"], fields["g"]
    (N, C, H, W), (OC, CG, KH, KW), (_, _, OH, OW) = shapes["x"], shapes["w"], shapes["y"]
    result = traced["result"]["name"][-1]
    found = {f"{result}-" + "-".join(map(str, at)): 0 for at in itertools.product(*map(range, shapes[result]))}
    for n, oc, oh, ow, ic, kh, kw in itertools.product(*map(range, (N, OC, OH, OW, CG, KH, KW))):
        ih, iw = oh * sh - top + kh * dh, ow * sw - left + kw * dw
        if 0 <= ih < H and 0 <= iw < W:
            names = {"x": f"x-{n}-{oc // (OC // groups) * CG + ic}-{ih}-{iw}", "w": f"w-{oc}-{ic}-{kh}-{kw}", "y": f"y-{n}-{oc}-{oh}-{ow}"}
            a, b = (shown[names[kind]] for kind in "xwy" if kind != result)
            found[names[result]] += a * b
    return found


def complaints_of(page, count=4):
    """Requests and messages beside the page itself."""
    found = []
    for method, params in page.events:
        if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "about:")):
            found.append("request: " + params["request"]["url"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            found.append("message: " + json.dumps(params)[:300])
    return found[:count]


def hover_all(page, url, text):
    """What is wrong with the page of a problem when each element is pointed at."""
    traced, wrong = trace(text), []
    expected = Expected(traced)
    page.size(1400, 6000)
    algorithm = expected.algorithm
    tab = f"{algorithm['device']}.{algorithm['title']}{', TF32' * (algorithm['precision'] == 'TF32')}" if algorithm else ""
    page.open(url + ("#a=" + urllib.parse.quote(tab) if tab else ""))
    if not page.run("Boolean(window.talc && window.talc.ready)"):
        return ["the page is not ready", *complaints_of(page)]
    centres = page.run(CENTRES)
    shown = {element: float(text.replace("−", "-")) for element, (_, _, text) in centres.items()}
    for element, due in sums(traced, shown).items():
        if shown.get(element) != due:
            wrong.append(f"{element} shows {shown.get(element)}, not {due}")
    if set(centres) != set(expected.all):
        wrong.append(f"elements that are missing, or too many: {sorted(set(centres) ^ set(expected.all))[:4]}")
    for element, (x, y, _) in centres.items():
        page.mouse(x, y)
        lit, want = page.run(LIT), expected.lit(element)
        if lit != want:
            wrong.append(f"{element}: " + "; ".join(
                f"{key}: lit {lit[key]}, expected {want[key]}" if key == "padding" else
                f"{key}: too many {sorted(set(lit[key]) - set(want[key]))[:4]}, missing {sorted(set(want[key]) - set(lit[key]))[:4]}"
                for key in want if lit[key] != want[key]))
    return wrong + complaints_of(page)


def named(page):
    """Nodes for readers of the screen without a name, and ids that stand twice."""
    page.call("Accessibility.enable")
    wanted = ("gridcell", "grid", "button", "slider", "radio", "radiogroup", "tab", "tablist", "link", "textbox", "region", "group", "navigation")
    wrong = [f"a {n['role']['value']} has no name" for n in page.call("Accessibility.getFullAXTree")["nodes"]
             if not n["ignored"] and n["role"]["value"] in wanted and not n.get("name", {}).get("value")]
    page.call("Accessibility.disable")
    twice = page.run("(() => { const ids = [...document.querySelectorAll('[id]')].map(n => n.id); return ids.filter((id, i) => ids.indexOf(id) !== i); })()")
    return wrong[:4] + [f"id {i} stands twice" for i in twice[:4]]


def active(page):
    return page.run("(() => { const n = document.activeElement; return n.id || n.closest('[id]')?.id || n.tagName; })()")


def keyboard(page, url):
    """The keyboard alone reaches everything and does what the mouse does."""
    wrong, seen = [], set()
    page.size(1280, 900)
    page.open(url)

    def check(what, expression):
        if not page.run(expression):
            wrong.append(f"{what}: {page.run('JSON.stringify(window.talc.state())')}")
    for _ in range(120):
        page.key("Tab")
        seen.add(page.run("document.activeElement === document.body ? 'end' : (n => n.closest('[role=radiogroup],.tensor,.matrices,.panel,#bar')?.id || n.closest('.panel').id)(document.activeElement)"))
        seen.add(active(page))
        if "end" in seen:
            break
    missing = {"directions", "slider-stride", "slider-padding", "pin", "predict", "x-box", "w-box", "y-box", "sum-scroll", "play", "time", "product", "who", "say"} - seen
    if missing:
        wrong.append(f"Tab does not reach {sorted(missing)}")
    page.run("document.getElementById('y-0-0-0-0').focus()")
    page.key("ArrowRight"), page.key("ArrowDown")
    check("arrows", "window.talc.state().selected === 'y[0,0,1,1]'")
    page.key("PageDown")
    check("Page Down", "window.talc.state().selected === 'y[0,1,1,1]'")
    page.key("Enter"), page.key("Home")
    check("Enter pins", "window.talc.state().pinned && window.talc.state().selected === 'y[0,1,1,1]'")
    page.key("Escape"), page.key("End")
    check("Esc frees", "!window.talc.state().pinned && document.activeElement.id.startsWith('y-0-1-1-')")
    page.key(","), page.key(",")
    check("comma steps back", "window.talc.state().time === 16")
    page.key(".")
    check("point steps", "window.talc.state().time === 17")
    lit = page.run("document.querySelectorAll('.tensor [data-when=now]').length")
    if lit < 2:
        wrong.append(f"{lit} elements are of the moment")
    page.key("Home"), page.key(" ")
    time.sleep(1.2)
    check("Space plays", "window.talc.state().time > 0")
    page.key(" ")
    page.run("document.querySelector('#directions [aria-checked=true]').focus()")
    page.key("ArrowRight")
    check("direction", "window.talc.state().direction === 'dx' && document.activeElement.dataset.key === 'dx'")
    return wrong + complaints_of(page)


def sliders(page, url):
    """Each slider shows another convolution, and its windows are those of the trace."""
    wrong = []
    page.size(1400, 6000)
    for slider in ("stride", "padding", "dilation", "groups"):
        page.open(url)
        before = page.run("window.talc.state().text")
        page.run(f"document.getElementById('slider-{slider}').focus()")
        page.key("ArrowRight")
        after = page.run("window.talc.state().text")
        if after == before:
            wrong.append(f"{slider}: nothing happens")
            continue
        expected, centres = Expected(trace(after)), page.run(CENTRES)
        for element in ("y-0-0-0-0", "w-0-0-1-1", "x-0-0-1-1"):
            page.mouse(*centres[element][:2])
            if page.run(LIT)["ids"] != expected.lit(element)["ids"]:
                wrong.append(f"{slider}: {after}: {element} lights up what does not belong to it")
    return wrong + complaints_of(page)


def address(page, url):
    """A state goes into the address and comes back from it."""
    wrong = []
    for part in ("#o=0,1,0,2&s=2&p=1&l=1&g=1&d=forward&t=5&pin", "#x=0,0,1,1&s=1&p=0&l=1&g=2&d=dx&pin", "#w=1,0,2,0&s=1&p=1&l=2&g=1&d=dw"):
        page.open(url + part)
        one = page.run("window.talc.state()")
        page.open(url + one["hash"])
        two = page.run("window.talc.state()")
        if one != two or any(piece not in one["hash"] for piece in part[1:].split("&")):
            wrong.append(f"{part} became {one['hash']}, then {two['hash']}")
    page.open(url)
    page.run("location.hash = 'o=0,0,0,0&pin'")
    time.sleep(0.1)
    if page.run("window.talc.state().selected") != "y[0,0,0,0]":
        wrong.append("a link within the page does not set its state")
    return wrong + complaints_of(page)


def predicting(page, url):
    """The page hides, and says of a click whether it is right."""
    wrong = []
    page.size(1400, 6000)
    page.open(url)
    page.run("document.getElementById('predict').click()")
    for _ in range(3):
        text = page.run("document.getElementById('question').textContent")
        if "What is" in text:
            seen = page.run("[document.querySelector('.total').textContent, document.querySelector(`#y-box [data-el=\"y:${window.talc.state().index}\"]`).textContent]")
            if seen != ["?", "?"]:
                wrong.append(f"the value is seen: {seen}")
            products = page.run("[...document.querySelectorAll('#sum-table td:nth-child(6)')].map(n => n.textContent.replace('−', '-'))")
            for guess in ("123456", str(sum(map(int, products)))):
                page.run("document.getElementById('guess').value = ''; document.getElementById('guess').focus()")
                for letter in guess:
                    page.key(letter)
                page.key("Enter")
                verdict = page.run("document.getElementById('verdict').textContent")
                if ("Right" in verdict) != (guess != "123456"):
                    wrong.append(f"{text} {guess}: {verdict}")
        else:
            scope = ".leaf" if "Who computes" in text else "#y-box "
            for offset in (1, 0):
                index = page.run("window.talc.state().index")
                box = page.run(f"(() => {{ const r = document.querySelector('{scope}[data-el=\"y:{index + offset if index + offset < 60 else index - offset}\"]').getBoundingClientRect();"
                               " return [r.x + r.width / 2, r.y + r.height / 2]; })()")
                page.mouse(*box, click=True)
                verdict = page.run("document.getElementById('verdict').textContent")
                if ("Right" in verdict) != (offset == 0):
                    wrong.append(f"{text} {verdict}")
        page.run("document.getElementById('next-question').click()")
    page.key("Escape")
    if page.run("!document.getElementById('question').hidden"):
        wrong.append("Esc does not end the questions")
    return wrong + complaints_of(page)


def looks(page, url, shots):
    """Nothing is outside of the window or over another panel, at any width, in the dark, with reduced motion; a lecture's one panel."""
    wrong = []
    for width, scheme in ((360, "light"), (1280, "light"), (1280, "dark"), (1920, "light")):
        page.size(width, 900)
        page.media(color_scheme=scheme)
        page.open(url + "#o=0,0,2,3&t=11&pin")
        wrong += [f"{width}, {scheme}: {found}" for found in page.run(SPREAD)[:4]]
        if page.run("(n => n.scrollWidth > n.clientWidth)(document.getElementById('sum-scroll'))"):
            wrong.append(f"{width}: the sum does not fit")
        background = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] < 128")
        if background != (scheme == "dark"):
            wrong.append(f"the page is not {scheme}")
        if shots:
            page.screenshot(shots / f"show-{width}-{scheme}.png")
    page.media(color_scheme="light", reduced_motion="reduce")
    page.open(url)
    page.key(" ")
    if not page.run("document.getElementById('play').disabled") or page.run("window.talc.state().time") is not None:
        wrong.append("it plays where motion is to be reduced")
    page.media()
    page.open(url + "?present#o=0,0,2,3")
    visible = "[...document.querySelectorAll('.panel')].filter(n => n.offsetWidth).map(n => n.id).join()"
    first = page.run(visible)
    page.key("]")
    if first != "tensors" or page.run(visible) in ("", first) or "," in page.run(visible):
        wrong.append(f"?present shows {first}, then {page.run(visible)}")
    if shots:
        page.screenshot(shots / "show-present.png", whole=False)
    return wrong + named(page) + complaints_of(page)


def planted(html, plant):
    """The page with a fault."""
    head, tail = html.split('<script type="application/json" id="talc">')
    text, rest = tail.split("</script>", 1)
    data = json.loads(text)
    way = data["variants"][data["start"]]["directions"]["forward"]
    if plant == "window":
        numbers = list(data["tables"][way["b"]])
        numbers[len(numbers) // 2] += 1
        way["b"] = len(data["tables"])
    elif plant == "owner":
        level = data["tables"][way["algorithms"][0]]["levels"][-1]
        numbers = list(data["tables"][level["of"]])
        numbers[3] += 1
        level["of"] = len(data["tables"])
    else:
        numbers, rest = [], rest.replace("start();", "start(); setTimeout(() => { throw new Error('planted'); });")
    data["tables"].append(numbers)
    return head + '<script type="application/json" id="talc">' + json.dumps(data) + "</script>" + rest


def main():
    path = browser.find()
    if not path:
        print("skipped: there is no Chromium; ./run browser installs it")
        sys.exit(77)
    failures = []

    def report(what, wrong):
        print(f"{'ok  ' if not wrong else 'FAIL'} {what}", *wrong[:6], sep="\n       " if wrong else "", flush=True)
        failures.extend(wrong)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        page = browser.Browser(path)
        try:
            for text in PROBLEMS:
                file = folder / (text + ".html")
                talc("show", text, "-o", str(file), *PLANNED)
                report(text, hover_all(page, file.as_uri(), text) + ([f"{file.stat().st_size} bytes"] if file.stat().st_size > 1 << 20 else []))
            url = (ROOT / KEPT).as_uri()
            report("keyboard", keyboard(page, url))
            report("sliders", sliders(page, url))
            report("address", address(page, url))
            report("predicting", predicting(page, url))
            report("looks", looks(page, url, SHOTS))
            small = "n1c2h4w4o2k3p1"
            html = (folder / (small + ".html")).read_text()
            for plant in ("window", "owner", "script"):
                file = folder / (plant + ".html")
                file.write_text(planted(html, plant))
                report(f"a planted fault is seen: {plant}", [] if hover_all(page, file.as_uri(), small) else ["it is not"])
        finally:
            page.close()
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
