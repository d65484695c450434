// Looks at a list as somebody with a phone does, and with a wide screen; follows its links; looks at a page for an error.

const lines = [];

async function shown(url, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:600px;border:0`;
  frame.src = url;
  document.body.append(frame);
  await new Promise((done) => (frame.onload = done));
  const root = frame.contentDocument.documentElement;
  const look = frame.contentWindow.getComputedStyle(frame.contentDocument.querySelector("h1"));
  const fits = root.scrollWidth <= width ? "fits" : `wrong: ${root.scrollWidth} wide`;
  lines.push(`${url} at ${width}: ${fits}, ${look.color}`);
  return frame.contentDocument;
}

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

main()
  .catch((error) => lines.push(`wrong: ${error}`))
  .then(() => (document.getElementById("verdict").textContent = lines.join("\n")));
