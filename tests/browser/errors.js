// Looks at the pages for errors, whose numbers stand behind the question mark.

async function main() {
  for (const code of location.search.slice(1).split(",")) {
    for (const width of [1200, 320]) {
      const page = await shown(`/errors/${code}.html`, width);
      const [heading] = page.querySelectorAll("h1");
      if (!heading.textContent.startsWith(`${code} `) || page.scripts.length > 0) {
        lines.push(`wrong: ${code}: ${page.documentElement.outerHTML}`);
      }
    }
  }
}

tell(main);
