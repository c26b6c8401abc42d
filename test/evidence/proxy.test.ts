// The proxy does to requests what it says it does: evidence gathered through it is worth no more than that.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, createServer as createListener, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { Client, until } from "../system-client.js";
import { cutOff, type Fate, type Struck, TcpProxy } from "./proxy.js";

/** A server that answers the body that it was sent, behind a proxy that gives every request the same fate. */
async function scene(t: TestContext, fate: Fate) {
  const heard: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    heard.push(body);
    response.setHeader("content-type", "application/json").end(body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const struck: Struck[] = [];
  const proxy = await TcpProxy.start(address.port, () => performance.now());
  proxy.fateOf = () => fate;
  proxy.onStruck = (one) => struck.push(one);
  const client = new Client(proxy.url, "secret");
  t.after(async () => {
    client.close();
    await proxy[Symbol.asyncDispose]();
    server.close();
  });
  return { client, proxy, heard, struck, send: (n: number) => client.post("/thing", { n }) };
}

test("what passes arrives once, whole, and is answered", async (t) => {
  const { send, heard, struck } = await scene(t, { kind: "pass" });
  for (const n of [1, 2, 3]) assert.deepEqual((await send(n)).body, { n });
  assert.deepEqual(heard, ['{"n":1}', '{"n":2}', '{"n":3}']);
  assert.deepEqual(struck, []);
});

test("a lost reply is one that the server gave", async (t) => {
  const { send, heard, struck } = await scene(t, { kind: "lose-reply" });
  await assert.rejects(send(1));
  assert.deepEqual(heard, ['{"n":1}']);
  assert.deepEqual(struck[0]?.answer, { status: 200, body: '{"n":1}' });
  assert.deepEqual(struck[0]?.request, {
    method: "POST",
    path: "/thing",
    bearer: "secret",
    body: '{"n":1}',
  });
});

test("a cut request never arrives", async (t) => {
  const { send, proxy, heard, struck } = await scene(t, { kind: "cut" });
  await assert.rejects(send(1));
  proxy.fateOf = () => ({ kind: "pass" });
  await send(2);
  assert.deepEqual(heard, ['{"n":2}']);
  assert.equal(struck[0]?.answer, null);
});

test("a late request arrives after its caller was cut off", async (t) => {
  const { send, heard, struck } = await scene(t, { kind: "late", ms: 80 });
  const from = performance.now();
  await assert.rejects(send(1));
  assert.deepEqual(heard, []);
  const [told] = await until(() => (struck.length > 0 ? struck : undefined), "it arrived");
  assert.deepEqual(heard, ['{"n":1}']);
  assert.ok((told?.began ?? 0) - from >= 79, "not before its time");
  assert.ok((told?.heldMs ?? 0) >= 79, "and it is told how late it was");
  assert.deepEqual(told?.answer, { status: 200, body: '{"n":1}' });
});

test("a delayed request is answered late", async (t) => {
  const { send, struck } = await scene(t, { kind: "delay", ms: 80 });
  const from = performance.now();
  assert.equal((await send(1)).status, 200);
  assert.ok(performance.now() - from >= 79);
  assert.ok((struck[0]?.heldMs ?? 0) >= 79);
});

test("a duplicate arrives twice and is answered once", async (t) => {
  const { send, heard, struck } = await scene(t, { kind: "duplicate", ms: 20 });
  assert.equal((await send(1)).status, 200);
  await until(() => (struck.length > 0 ? true : undefined), "the second was answered");
  assert.deepEqual(heard, ['{"n":1}', '{"n":1}']);
  assert.equal(struck[0]?.answer?.status, 200);
});

test("while parted nothing passes, and what was sent arrives afterwards, also when its caller gave up", async (t) => {
  const { client, send, proxy, heard } = await scene(t, { kind: "pass" });
  await send(1);
  proxy.part();
  const waiting = send(2);
  await assert.rejects(client.post("/thing", { n: 3 }, { signal: AbortSignal.timeout(60) }));
  assert.deepEqual(heard, ['{"n":1}']);
  proxy.heal();
  assert.equal((await waiting).status, 200);
  await until(() => (heard.length === 3 ? true : undefined), "both arrived");
  assert.deepEqual(heard.sort(), ['{"n":1}', '{"n":2}', '{"n":3}']);
});

test("a proxy that is gone sends nothing more, and leaves no connection", async (t) => {
  const { proxy, client, heard, send } = await scene(t, { kind: "late", ms: 60_000 });
  await assert.rejects(send(1));
  const from = performance.now();
  await proxy[Symbol.asyncDispose]();
  assert.ok(performance.now() - from < 10_000, "nobody waits for what is held");
  await proxy.settled();
  client.close();
  assert.deepEqual(heard, []);
});

test("a caller that hangs up at the moment at which it is cut off leaves nothing open", async () => {
  const listener = createListener().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const caller = connect(address.port, "127.0.0.1").on("error", () => undefined);
  const [socket] = (await once(listener, "connection")) as [Socket];
  const closed = once(socket.resume(), "close");
  // After Node began to close its side, and before the connection hears of that.
  socket.once("end", () => queueMicrotask(() => cutOff(socket)));
  caller.end();
  await closed;
  caller.destroy();
  listener.close();
});
