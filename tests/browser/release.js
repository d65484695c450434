// A page that asks for more of its release when another one has taken its place. {hash} stands for what its release has in its
// names, {other} for what the next one has, and {port} for where the test waits to be told that the page is there.

/** Asks for all of something, and returns the status. */
async function ask(target) {
  const response = await fetch(target);
  await response.text();
  return response.status;
}

async function tell() {
  // The test switches releases, and answers when that is done.
  await fetch("http://127.0.0.1:{port}/", { mode: "no-cors" });
  const part = await import("/assets/part-{hash}.js");
  const picture = new Image();
  picture.src = "/assets/picture-{hash}.png";
  await picture.decode();
  return [part.release, await ask("/assets/part-{other}.js"), picture.width, await ask("/plain.js")].join(", ");
}

document.querySelector("#verdict").textContent = await tell().catch(String);
