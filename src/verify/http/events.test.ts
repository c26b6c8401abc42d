// A stream that is told to wait speaks for the whole run: calls wait as well, and so do streams that are asked for anew.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { monotonicMs } from "./clock.js";
import { Contact } from "./contact.js";
import { HttpLab } from "./lab.js";

test("a stream that is refused with 429 silences calls and other streams", async () => {
  const askedAt: number[] = [];
  const server = createServer((_request, response) => {
    askedAt.push(monotonicMs());
    if (askedAt.length === 1) response.writeHead(429, { "retry-after": "1" }).end();
    else response.setHeader("content-type", "application/json").end('{"status":"free","fencing_token":0}');
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  const contact = new Contact();
  const over = new AbortController();
  const lab = new HttpLab({
    url: `http://127.0.0.1:${address.port}`,
    principals: [{ name: "a", bearer: "x" }],
    prefix: "verify-/",
    seed: 1,
    over: over.signal,
    contact,
  });
  const first = lab.watch("s1", "verify-/", over.signal);
  while (contact.rateLimited === 0) await lab.sleep(5);
  const second = lab.watch("s2", "verify-/", over.signal);
  const { kind } = await lab.caller("p", 0).call({ op: "read", name: "verify-/n" });
  over.abort();
  await Promise.all([first, second]);
  lab.close();
  server.close();
  assert.equal(kind, "state");
  const [refusedAt = 0, ...later] = askedAt;
  assert.ok(
    later.length > 0 && Math.min(...later) - refusedAt >= 990,
    `${later.map((at) => at - refusedAt)}`,
  );
});
