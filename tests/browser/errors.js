// Checks the error pages whose status codes are in the query.

async function main() {
  for (const code of location.search.slice(1).split(",")) {
    for (const width of [1200, 320]) {
      const page = await render(`/errors/${code}.html`, width);
      const [heading] = page.querySelectorAll("h1");
      const [home] = page.querySelectorAll("a");
      if (!heading.textContent.startsWith(`${code} `) || page.scripts.length > 0 || home.pathname !== "/") {
        lines.push(`wrong: ${code}: ${page.documentElement.outerHTML}`);
      }
    }
  }
}

report(main);
