// Looks at a list, and at a page for an error; follows the links of the list.

async function main() {
  const list = await shown("/odd/", 1200);
  await shown("/odd/", 320);
  await shown("/missing", 1200);
  await shown("/missing", 320);
  const links = [...list.querySelectorAll("td a")];
  for (const link of links) {
    const text = link.textContent;
    const answer = await fetch(link.href);
    const content = (await answer.text()).replace(/[\n\u202e]/g, "\ufffd");
    const is_dir = text.endsWith("/");
    if (answer.status !== 200 || (!is_dir && content !== text)) {
      lines.push(`wrong: ${link.href}: ${answer.status}, ${content}, not ${text}`);
    }
  }
  const up = [...list.querySelectorAll("h1 a")].map((link) => link.pathname);
  lines.push(`links: ${links.length}, up: ${up}, scripts: ${list.scripts.length}`);
}

tell(main);
