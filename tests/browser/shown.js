// Looks at pages as somebody with a phone does, and with a wide screen; tells of each whether it fits, and the colour of its text.

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

function tell(look) {
  look()
    .catch((error) => lines.push(`wrong: ${error}`))
    .then(() => (document.getElementById("verdict").textContent = lines.join("\n")));
}
