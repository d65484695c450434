// Shows how this page arrived: one line in the footer of each page, and a table where there is one.
addEventListener("load", () => setTimeout(show)); // after the load event, so that its own end is known

function show() {
  const page = performance.getEntriesByType("navigation")[0];
  const entries = [page, ...performance.getEntriesByType("resource")];
  const bytes = entries.reduce((sum, entry) => sum + entry.decodedBodySize, 0);

  const arrival = document.getElementById("arrival");
  const protocol = page.nextHopProtocol ? ` over ${page.nextHopProtocol.toUpperCase()}` : "";
  arrival.textContent =
    `This page: ${entries.length} resources, ${bytes.toLocaleString("en")} bytes${protocol}, ` +
    `loaded in ${Math.round(page.loadEventEnd)} ms.`;
  arrival.hidden = false;

  const table = document.querySelector("#loaded tbody");
  table?.replaceChildren(...entries.map(row));
}

function row(entry) {
  const cells = [
    new URL(entry.name).pathname,
    entry.decodedBodySize.toLocaleString("en"),
    (entry.responseEnd - entry.startTime).toFixed(1),
  ];
  const line = document.createElement("tr");
  line.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return line;
}
