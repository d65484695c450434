// A page that requests the script of the next release after its own. {other} is the hash in the names of the next release;
// the test listens on {port} for a request that reports the loaded page.

const [own, next] = ["/assets/app-{hash}.js", "/assets/app-{other}.js"];

/**
* Requests the next script until the browser has stored its own script as a dictionary, which takes a moment. A response without
* a dictionary would become the dictionary of the next attempt, so each attempt first requests the own script again.
*/
async function load(attempts) {
  const response = await fetch(next, { cache: "no-store" });
  const content = await response.arrayBuffer();
  const [coding, size] = ["Content-Encoding", "Content-Length"].map((name) => response.headers.get(name));
  if (!coding.startsWith("dc") && attempts > 0) {
    await (await fetch(own, { cache: "reload" })).arrayBuffer();
    await new Promise((done) => setTimeout(done, 100));
    return load(attempts - 1);
  }
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return [coding, size, [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("")];
}

async function report() {
  // The test switches releases before it responds.
  await fetch("http://127.0.0.1:{port}/", { mode: "no-cors" });
  // Each worker process switches on its own: wait for the worker of this connection.
  while (!(await (await fetch("/", { cache: "no-store" })).text()).includes(`src="${next}"`));
  const [coding, size, digest] = await load(100);
  const { release } = await import(next);
  return `${release}, ${coding}, ${size}\n${digest}  .${next}`;
}

document.querySelector("#verdict").textContent = await report().catch(String);
