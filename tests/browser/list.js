// Checks a listing and an error page, and follows the links of the listing.

async function main() {
  const list = await render("/odd/", 1200);
  await render("/odd/", 320);
  await render("/missing", 1200);
  await render("/missing", 320);
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

report(main);
