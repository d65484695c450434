// Walks through a wiki in a frame: an empty page, its editor, the page with text, its revisions. Reports each page and what is wrong with it.

const TEXT = "====== Notes ======\n\nHello **world**, päper.\n\n  * one\n  * two\n";

const STEPS = [
  // action, and an element of the page that it leads to: selector, text
  [open("/doku.php?id=notes"), "h1", "This topic does not exist yet"],
  [open("/doku.php?id=notes&do=edit"), "button[name='do[save]']", "Save"],
  [save, "div.page h1", "Notes"],
  [open("/doku.php?id=notes"), "div.page strong", "world"],
  [open("/doku.php?id=notes"), "div.page li:nth-child(2) div.li", "two"],
  [open("/doku.php?id=notes&do=revisions"), "#page__revisions span.sum", "created"],
  [open("/doku.php/notes"), "div.page h1", "Notes"],
  [open("/doku.php?id=notes&do=index"), "#index__tree a.wikilink1", "notes"],
];

const frame = document.createElement("iframe");

async function main() {
  frame.style.cssText = "width:1200px;height:700px;border:0";
  frame.src = "about:blank";
  document.body.append(frame);
  for (const [action, selector, text] of STEPS) {
    const loaded = new Promise((done) => frame.addEventListener("load", done, { once: true }));
    action();
    await loaded;
    const { pathname, search } = frame.contentWindow.location;
    const wrong = wrongs(selector, text).map((what) => `, wrong: ${what}`);
    lines.push(`${pathname}${search}${wrong.join("")}`);
  }
  // The source of the page, with its length.
  const response = await fetch("/doku.php?id=notes&do=export_raw");
  const source = (await response.text()).replaceAll("\r", "").trim();
  lines.push(`source: ${response.status}, ${source === TEXT.trim() ? "equal" : source}`);
}

/** Returns what is wrong with the page in the frame. */
function wrongs(selector, text) {
  const { contentDocument: page, contentWindow: view } = frame;
  const sheets = [...page.styleSheets].filter(({ href }) => href?.includes("/lib/exe/css.php"));
  const logo = page.querySelector("h1.logo img, .headings img");
  const found = [...page.querySelectorAll(selector)].map((element) => element.textContent.trim());
  return [
    // found, wanted
    [sheets.length > 0 && sheets.every(({ cssRules }) => cssRules.length > 0), true],
    [view.getComputedStyle(page.body).getPropertyValue("margin-top"), "0px"],
    [logo?.naturalWidth > 0, true],
    // A script that the wiki makes of many files.
    [typeof view.jQuery, "function"],
    [found.some((found) => found.includes(text)) ? text : found.join(" | "), text],
  ]
    .map(([found, wanted], at) => (found === wanted ? null : `${at}: ${found}, not ${wanted}`))
    .filter((wrong) => wrong !== null);
}

/** Returns an action that opens a page. */
function open(url) {
  return () => (frame.src = url);
}

/** Writes the text and saves it. */
function save() {
  const page = frame.contentDocument;
  page.querySelector("textarea[name=wikitext]").value = TEXT;
  page.querySelector("input[name=summary]").value = "created";
  page.querySelector("button[name='do[save]']").click();
}

report(main);
