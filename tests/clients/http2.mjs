// Loads files with Node's http2 on one session, and sends a content, while the server stops. README.md documents the output.
//
//     http2.mjs ORIGIN COUNT

import assert from "node:assert";
import { once } from "node:events";
import http2 from "node:http2";

const [origin, count] = [process.argv[2], Number(process.argv[3])];
const session = http2.connect(origin);
session.on("error", (error) => assert.fail(error));

/** Returns the content of a file: see tests/upstreams/http2.rs. */
const contentOf = (number) => `${number},`.repeat(5000);

/** Begins a request. Its response stays paused, so it takes no more than the windows. */
async function begin(path, options = {}, content = null) {
  const stream = session.request({ ":path": path, ...options }, { endStream: content === null });
  if (content !== null) stream.write(content);
  const response = once(stream, "response").then(([headers]) => headers);
  return { path, stream, response };
}

async function finish({ path, stream, response }, want) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  assert.equal((await response)[":status"], 200, path);
  assert.ok(Buffer.concat(parts).equals(Buffer.from(want)), path);
}

const numbers = Array.from({ length: count }, (_, number) => number);
const [before, during] = [numbers.slice(0, count / 2), numbers.slice(count / 2)];
const beginAll = (numbers) => Promise.all(numbers.map((number) => begin(`/many/${number}`)));
const finishAll = (files, numbers) => Promise.all(files.map((file, at) => finish(file, contentOf(numbers[at]))));

await finishAll(await beginAll(before), before);
const half = "content ".repeat(5000);
const upload = await begin("/app/echo", { ":method": "POST" }, half);
const files = await beginAll(during);
await Promise.all(files.map((file) => file.response));

const goaway = once(session, "goaway");
console.log("stop");
const [code] = await goaway;
assert.equal(code, http2.constants.NGHTTP2_NO_ERROR);
assert.ok(files.some((file) => !file.stream.readableEnded));
const closed = once(session, "close");
upload.stream.end(half);
await Promise.all([finish(upload, half + half), finishAll(files, during)]);
await closed;
console.log("done");
