// Requests the files of the sample site in every way that a page can. The verdict lists the SHA-256 of each file in the format
// of sha256sum, to compare with the disk, or the failures.

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

/** Sends a request and reads the whole response. */
async function request(file, options) {
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
    const got = await request(file);
    check(file, got.status, 200);
    await sum(file, got.content);
  }
}

/** Conditional requests of the page and of the browser's cache. */
async function conditions() {
  for (const file of [...PLAIN, CODED]) {
    const known = await request(file, { method: "HEAD" });
    for (const [condition, validator] of [["If-None-Match", "ETag"], ["If-Modified-Since", "Last-Modified"]]) {
      const got = await request(file, { headers: { [condition]: known.field(validator) } });
      check(`${file}, ${condition}`, got.status, 304);
    }
    // The browser validates its cached copy: it transfers only a head, which counts as 300 bytes.
    performance.clearResourceTimings();
    const validated = await request(file, { cache: "no-cache" });
    await sum(file, validated.content);
    const [timing] = performance.getEntriesByName(validated.url);
    check(`${file}, validated`, `${validated.status} ${timing.transferSize}`, "200 300");
  }
}

/** Ranges of a file, and the file assembled from ranges. */
async function ranges() {
  const { content } = await request(LARGE);
  const length = content.byteLength;
  const etag = (await request(LARGE, { method: "HEAD" })).field("ETag");
  const cases = [
    ["bytes=100-199", etag, 206, `bytes 100-199/${length}`],
    ["bytes=-5", etag, 206, `bytes ${length - 5}-${length - 1}/${length}`],
    ["bytes=100-199", '"other"', 200, null],
    [`bytes=${length}-`, etag, 416, `bytes */${length}`],
  ];
  for (const [range, validator, status, part] of cases) {
    const got = await request(LARGE, { headers: { Range: range, "If-Range": validator } });
    check(`${range} if ${validator}`, `${got.status} ${got.field("Content-Range")}`, `${status} ${part}`);
  }
  const pieces = [];
  for (let start = 0; start < length; start += 4e6) {
    const end = Math.min(start + 4e6, length) - 1;
    pieces.push(request(LARGE, { headers: { Range: `bytes=${start}-${end}` } }));
  }
  const parts = (await Promise.all(pieces)).map((piece) => piece.content);
  await sum(LARGE, await new Blob(parts).arrayBuffer());
}

/** An audio player requests the ranges that it needs. */
async function player() {
  const audio = new Audio(`${LARGE}?player`);
  const event = (name) => new Promise((resolve) => audio.addEventListener(name, resolve, { once: true }));
  const loaded = event("loadedmetadata");
  audio.preload = "metadata";
  await loaded;
  check("the length of the sound", audio.duration, 60);
  check("the seekable range", audio.seekable.end(0), 60);
  const seeked = event("seeked");
  audio.currentTime = 50;
  await seeked;
  check("the position", audio.currentTime, 50);
}

/** A compressed file, a missing file and a redirect. */
async function others() {
  const coded = await request(CODED, { method: "HEAD" });
  check("the coding", ["br", "zstd", "gzip"].includes(coded.field("Content-Encoding")), true);
  check("a missing file", (await request("nothing")).status, 404);
  const redirected = await request("guide");
  check("a redirect", `${redirected.status} ${new URL(redirected.url).pathname}`, "200 /guide/");
}

try {
  for (const part of [subresources, files, conditions, ranges, player, others]) await part();
} catch (error) {
  wrong.push(`wrong: ${error.stack}`);
}
document.querySelector("#verdict").textContent = (wrong.length ? wrong : sums).join("\n");
