import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { after, before, test } from "node:test";
import { createClient } from "../../client/client.js";
import { smallFetch } from "./small-fetch.js";

let url = "";
let answer: (request: IncomingMessage, response: ServerResponse) => void = () => {};
const server = createServer((request, response) => answer(request, response));
before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  url = `http://127.0.0.1:${address.port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

test("sends what it is given and answers what the server said", async () => {
  answer = async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const { method, url: path, headers } = request;
    const seen = { method, path, body, type: headers["content-type"], length: headers["content-length"] };
    response.setHeader("X-Request-Id", "req_1").writeHead(201).end(JSON.stringify(seen));
  };
  const response = await smallFetch(`${url}/locks/a%2Fb?x=1`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"ü":1}',
  });
  assert.deepEqual(
    [response.ok, response.status, response.headers.get("x-request-id")],
    [true, 201, "req_1"],
  );
  assert.equal(response.headers.get("nothing"), null);
  assert.deepEqual(await response.json(), {
    method: "POST",
    path: "/locks/a%2Fb?x=1",
    body: '{"ü":1}',
    type: "application/json",
    length: "8",
  });
});

test("follows no redirect", async () => {
  answer = (_, response) => response.writeHead(307, { location: "http://127.0.0.1:1/" }).end();
  const response = await smallFetch(url, { redirect: "error" });
  assert.deepEqual([response.ok, response.status], [false, 307]);
});

test("reads a stream piece by piece, until it ends", async () => {
  answer = (_, response) => {
    response.write("one");
    setImmediate(() => response.end("two"));
  };
  const reader = (await smallFetch(url)).body?.getReader();
  let text = "";
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read())
    text += new TextDecoder().decode(read.value);
  assert.equal(text, "onetwo");
});

test("fails as fetch does: with the cause, or the reason of whoever called it off", async () => {
  await assert.rejects(smallFetch("http://127.0.0.1:1"), (error: Error) => {
    assert.equal((error.cause as NodeJS.ErrnoException).code, "ECONNREFUSED");
    return true;
  });
  answer = () => {};
  const early = new AbortController();
  const waiting = smallFetch(url, { signal: early.signal });
  early.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  const late = new AbortController();
  answer = (_, response) => response.write("half of it");
  const response = await smallFetch(url, { signal: late.signal });
  const reading = response.text();
  late.abort(new Error("no patience"));
  await assert.rejects(reading, /no patience/);
  answer = (_, reply) => {
    reply.setHeader("content-length", "100").write("cut", () => reply.destroy());
  };
  const cut = await smallFetch(url);
  await assert.rejects(cut.text(), /fetch failed/);
});

test("the client cannot tell it from fetch", async () => {
  answer = (request, response) => {
    response.setHeader("content-type", "application/json");
    if (request.url === "/whoami")
      response.end('{"principal":"me","space":"default","role":"worker","scopes":[],"expires_at":null}');
    else response.writeHead(404).end('{"code":"not_found","details":"there is none","error":"no"}');
  };
  const client = createClient({ url, token: "t", fetch: smallFetch, retries: 0 });
  assert.equal((await client.whoami()).principal, "me");
  await assert.rejects(client.locks.get("x"), { code: "not_found", message: "there is none" });
});
