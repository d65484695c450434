// Sends requests with Node's fetch (undici). README.md documents the input and output.

import diagnostics from "node:diagnostics_channel";
import readline from "node:readline";

let connections = 0;
diagnostics.subscribe("undici:client:connected", () => connections++);

const origin = process.argv[2];
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [method, target, ...fields] = line.split("\t");
  const headers = fields.map((field) => field.split(/: (.*)/, 2));
  const response = await fetch(`${origin}${target}`, { method, headers });
  const content = Buffer.from(await response.arrayBuffer());
  const form = response.headers.has("content-encoding") ? "decoded" : "as-sent";
  const head = [`${response.status} ${connections} ${form} ${content.length}`];
  for (const [name, value] of response.headers) head.push(`${name}: ${value}`);
  process.stdout.write(Buffer.concat([Buffer.from(head.join("\n") + "\n\n"), content]));
}
