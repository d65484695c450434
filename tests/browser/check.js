// Asks for what is there in every way that a page can. The verdict: a line for each file, as sha256sum writes it, so that
// it can be compared with the disk; or what was wrong.

const LARGE = "sound.wav";
const PLAIN = ["index.html", "style.css", "script.js", "picture.png", "empty.txt", LARGE];
const CODED = "guide/text.html";

const wrong = [];
const sums = [];

function check(what, got, want) {
  if (got !== want) wrong.push(`wrong: ${what}: ${got} instead of ${want}`);
}

async function sum(file, content) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  sums.push(`${Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")}  ${file}`);
}

/** Asks, and takes all of the answer. */
async function ask(file, options) {
  const response = await fetch(file, options);
  const content = await response.arrayBuffer();
  return { status: response.status, url: response.url, content, field: (name) => response.headers.get(name) };
}

async function subresources() {
  check("the style sheet", getComputedStyle(document.body).color, "rgb(1, 2, 3)");
  check("the script", globalThis.scripted, true);
  await document.images[0].decode();
  check("the picture", document.images[0].naturalWidth, 1);
}

async function files() {
  for (const file of [...PLAIN, CODED]) {
    const got = await ask(file);
    check(file, got.status, 200);
    await sum(file, got.content);
  }
}

/** What the page knows already, and what the browser does. */
async function conditions() {
  for (const file of [...PLAIN, CODED]) {
    const known = await ask(file, { method: "HEAD" });
    for (const [condition, validator] of [["If-None-Match", "ETag"], ["If-Modified-Since", "Last-Modified"]]) {
      const got = await ask(file, { headers: { [condition]: known.field(validator) } });
      check(`${file}, ${condition}`, got.status, 304);
    }
    // Has it in its cache, and asks whether it still holds: then only a head is transferred, which counts as 300 bytes.
    performance.clearResourceTimings();
    const validated = await ask(file, { cache: "no-cache" });
    await sum(file, validated.content);
    const [timing] = performance.getEntriesByName(validated.url);
    check(`${file}, validated`, `${validated.status} ${timing.transferSize}`, "200 300");
  }
}

/** Parts of a file, and the file out of its parts. */
async function ranges() {
  const { content } = await ask(LARGE);
  const length = content.byteLength;
  const etag = (await ask(LARGE, { method: "HEAD" })).field("ETag");
  const cases = [
    ["bytes=100-199", etag, 206, `bytes 100-199/${length}`],
    ["bytes=-5", etag, 206, `bytes ${length - 5}-${length - 1}/${length}`],
    ["bytes=100-199", '"other"', 200, null],
    [`bytes=${length}-`, etag, 416, `bytes */${length}`],
  ];
  for (const [range, validator, status, part] of cases) {
    const got = await ask(LARGE, { headers: { Range: range, "If-Range": validator } });
    check(`${range} if ${validator}`, `${got.status} ${got.field("Content-Range")}`, `${status} ${part}`);
  }
  const pieces = [];
  for (let start = 0; start < length; start += 4e6) {
    const end = Math.min(start + 4e6, length) - 1;
    pieces.push(ask(LARGE, { headers: { Range: `bytes=${start}-${end}` } }));
  }
  const parts = (await Promise.all(pieces)).map((piece) => piece.content);
  await sum(LARGE, await new Blob(parts).arrayBuffer());
}

/** A player asks for the parts that it needs, by itself. */
async function player() {
  const audio = new Audio(`${LARGE}?player`);
  const happens = (name) => new Promise((resolve) => audio.addEventListener(name, resolve, { once: true }));
  const begun = happens("loadedmetadata");
  audio.preload = "metadata";
  await begun;
  check("the length of the sound", audio.duration, 60);
  check("where it can be searched", audio.seekable.end(0), 60);
  const found = happens("seeked");
  audio.currentTime = 50;
  await found;
  check("what was searched", audio.currentTime, 50);
}

/** What is compressed on its way, and what is no file. */
async function others() {
  const coded = await ask(CODED, { method: "HEAD" });
  check("the coding", ["br", "zstd", "gzip"].includes(coded.field("Content-Encoding")), true);
  check("what is not there", (await ask("nothing")).status, 404);
  const redirected = await ask("guide");
  check("a redirect", `${redirected.status} ${new URL(redirected.url).pathname}`, "200 /guide/");
}

try {
  for (const part of [subresources, files, conditions, ranges, player, others]) await part();
} catch (error) {
  wrong.push(`wrong: ${error.stack}`);
}
document.querySelector("#verdict").textContent = (wrong.length ? wrong : sums).join("\n");
