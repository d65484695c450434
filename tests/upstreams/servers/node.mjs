// Responds with node:http. README.md documents the responses.

import { createServer } from "node:http";

const waiting = [];
let released = 0;

/** Waits until a request for /app/next comes. */
function next() {
  if (released > 0) {
    released--;
    return Promise.resolve();
  }
  return new Promise((done) => waiting.push(done));
}

function release() {
  const done = waiting.shift();
  if (done) done();
  else released++;
}

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const content = Buffer.concat(parts);
  if (request.method === "POST" && request.url === "/app/next") {
    release();
    response.writeHead(204).end();
  } else if (request.method === "POST") {
    response.writeHead(200, { "Content-Length": content.length }).end(content);
  } else if (request.url === "/app/") {
    const hello = "hello from node\n";
    response.writeHead(200, { "Content-Length": hello.length }).end(hello);
  } else if (request.url === "/app/chunks") {
    response.writeHead(200, { "Content-Type": "text/plain" });
    for (let number = 0; number < 100; number++) response.write(`chunk ${number}\n`);
    response.end();
  } else if (request.url === "/app/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.flushHeaders();
    for (let number = 0; number < 3; number++) {
      await next();
      response.write(`data: ${number}\n\n`);
    }
    response.end();
  } else {
    response.writeHead(404, { "Content-Length": 8 }).end("nothing\n");
  }
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
// The test ends the program.
process.stdin.resume();
process.stdin.on("end", () => process.exit());
