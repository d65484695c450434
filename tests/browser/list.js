// Checks a listing and an error page, and follows the links of the listing.

async function main() {
  const list = await render("/odd/", 1200);
  await render("/odd/", 320);
  await render("/missing", 1200);
  await render("/missing", 320);
  await sort(list, 1200);
  await sort(await render("/odd/", 320), 320);
  const links = [...list.querySelectorAll("td a")];
  for (const link of links) {
    const text = link.textContent;
    const response = await fetch(link.href);
    const content = (await response.text()).replace(/[\n\u202e]/g, "\ufffd");
    const is_dir = text.endsWith("/");
    if (response.status !== 200 || (!is_dir && content !== text)) {
      lines.push(`wrong: ${link.href}: ${response.status}, ${content}, not ${text}`);
    }
  }
  const up = [...list.querySelectorAll("h1 a")].map((link) => link.pathname);
  lines.push(`links: ${links.length}, up: ${up}, scripts: ${list.scripts.length}`);
}

/** Reports the names in each order, from the top of the page, and whether the columns stay where they are. */
async function sort(list, width) {
  const lefts = () => [...list.querySelectorAll("tr:last-child td")].map((cell) => Math.round(cell.getBoundingClientRect().left));
  const before = lefts();
  for (const order of ["size", "date", "name"]) {
    list.querySelector(`input[value=${order}]`).click();
    const rows = [...list.querySelectorAll("tbody tr")];
    const top = (row) => row.getBoundingClientRect().top;
    const names = rows.sort((one, other) => top(one) - top(other)).map((row) => row.querySelector("a").textContent);
    const shown = names.map((name) => (name.length > 3 ? name[0] : name)).join(" ");
    lines.push(`by ${order} at ${width}: ${shown}`);
    if (lefts().join() !== before.join()) {
      lines.push(`wrong: columns at ${lefts()} by ${order}, not at ${before}`);
    }
  }
}

report(main);
