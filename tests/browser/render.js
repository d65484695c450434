// Renders pages at the width of a phone and of a wide screen; reports for each whether it fits and the colour of its text.

const lines = [];

async function render(url, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:600px;border:0`;
  frame.src = url;
  document.body.append(frame);
  await new Promise((done) => (frame.onload = done));
  const root = frame.contentDocument.documentElement;
  const style = frame.contentWindow.getComputedStyle(frame.contentDocument.querySelector("h1"));
  const fits = root.scrollWidth <= width ? "fits" : `wrong: ${root.scrollWidth} wide`;
  lines.push(`${url} at ${width}: ${fits}, ${style.color}`);
  return frame.contentDocument;
}

/** Runs the checks and writes the verdict. */
function report(checks) {
checks()
    .catch((error) => lines.push(`wrong: ${error}`))
    .then(() => (document.getElementById("verdict").textContent = lines.join("\n")));
}
