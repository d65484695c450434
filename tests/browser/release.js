// A page that requests more files of its release after a switch to the next one. {hash} is the hash in the names of its
// release, {other} the hash of the next one; the test listens on {port} for a request that reports the loaded page.

/** Waits until the worker of this connection has switched: each worker process switches on its own. */
async function switched() {
  while (!(await (await fetch("/", { cache: "no-store" })).text()).includes("{other}"));
}

/** Requests a file and returns the status. */
async function status(target) {
  await switched();
  const response = await fetch(target);
  await response.text();
  return response.status;
}

async function report() {
  // The test switches releases before it responds.
  await fetch("http://127.0.0.1:{port}/", { mode: "no-cors" });
  await switched();
  const part = await import("/assets/part-{hash}.js");
  const picture = new Image();
  picture.src = "/assets/picture-{hash}.png";
  await picture.decode();
  return [part.release, await status("/assets/part-{other}.js"), picture.width, await status("/plain.js")].join(", ");
}

document.querySelector("#verdict").textContent = await report().catch(String);
