// A page that asks for the script of the next release, when it has that of its own. {other} stands for what the next release has in
// its names, and {port} for where the test waits to be told that the page is there.

const [own, next] = ["/assets/app-{hash}.js", "/assets/app-{other}.js"];

/**
 * Asks until the browser has put away what it may use as a dictionary, which takes it a moment. What it got without one is
 * the newer dictionary of that name from then on, of itself: so it gets its own script anew before the next attempt.
 */
async function ask(times) {
  const response = await fetch(next, { cache: "no-store" });
  const content = await response.arrayBuffer();
  const [coding, size] = ["Content-Encoding", "Content-Length"].map((name) => response.headers.get(name));
  if (!coding.startsWith("dc") && times > 0) {
    await (await fetch(own, { cache: "reload" })).arrayBuffer();
    await new Promise((done) => setTimeout(done, 100));
    return ask(times - 1);
  }
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return [coding, size, [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("")];
}

async function tell() {
  // The test switches releases, and answers when that is done.
  await fetch("http://127.0.0.1:{port}/", { mode: "no-cors" });
  const [coding, size, digest] = await ask(100);
  const { release } = await import(next);
  return `${release}, ${coding}, ${size}\n${digest}  .${next}`;
}

document.querySelector("#verdict").textContent = await tell().catch(String);
