// The queue as tokens see it that cover some nodes only, or all of them by other words than `*`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { call, fresh, ok, type TokenBody } from "./http-api.js";
import { Graph, type Refusal, startGraphServer } from "./http-node-api.js";
import { adminToken, type Server } from "./server.js";

let server: Server;
before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

const tokenOf = (space: string, name: string, scopes: readonly string[]): Promise<TokenBody> =>
  ok<TokenBody>(server, "createToken", { token: adminToken, body: { name, space, scopes } });

test("what a request id was granted is not shown to a token of the same name that covers less", async () => {
  const space = fresh("space");
  const wide = await tokenOf(space, "zed", ["*"]);
  const graph = new Graph(() => server, wide.token, wide.token);
  await graph.create({ id: "b-top", title: "secret" });
  const headers = { "idempotency-key": "z" };
  assert.equal((await graph.next({}, wide.token, { headers })).node.id, "b-top");
  await ok(server, "revokeToken", { token: adminToken, name: wide.id, headers: { "holdfast-space": space } });
  const narrow = await tokenOf(space, "zed", ["node:a-*"]);
  const told = await call<Refusal>(server, "nextWork", { token: narrow.token, body: {}, headers });
  assert.deepEqual([told.status, told.body.error.code], [403, "forbidden"]);
  assert.doesNotMatch(told.text, /b-top|secret/);
});

test("a scope of some nodes finds them behind others; one that covers all nodes is as good as *", async () => {
  const space = fresh("space");
  const [all, some] = [await tokenOf(space, "all", ["node:*"]), await tokenOf(space, "some", ["node:z-*"])];
  const graph = new Graph(() => server, all.token, all.token);
  for (let i = 0; i < 20; i++) await graph.create({ id: `a-${i}`, priority: "p1" });
  await graph.create({ id: "z-1" });
  const waiting = graph.next({ wait_seconds: 20 }, some.token);
  assert.equal((await waiting).node.id, "z-1");
  const next = graph.next({ wait_seconds: 20 }, some.token);
  assert.equal((await graph.next({}, all.token)).node.id, "a-0");
  await graph.create({ id: "z-2" });
  assert.equal((await next).node.id, "z-2");
});

test("what is hidden is counted up to a bound where nothing is free", async () => {
  const space = fresh("space");
  const [ann, bob] = [await tokenOf(space, "ann", ["*"]), await tokenOf(space, "bob", ["*"])];
  const graph = new Graph(() => server, ann.token, ann.token);
  const ids = Array.from({ length: 130 }, (_, i) => `n-${String(i).padStart(3, "0")}`);
  for (const id of ids) await graph.create({ id });
  await ok(server, "claimNodes", { token: ann.token, body: { ids } });
  const empty = await ok<{ hidden: number; hidden_at_least?: true }>(server, "nextWork", {
    token: bob.token,
    body: {},
  });
  assert.deepEqual([empty.hidden, empty.hidden_at_least], [128, true]);
  assert.equal((await graph.queue({}, bob.token)).hidden, 130, "who reads the queue learns how many");
  await ok(server, "releaseNodes", { token: ann.token, body: { ids: ids.slice(0, 2) } });
  await ok(server, "claimNodes", { token: bob.token, body: { ids: ids.slice(0, 2) } });
  const mine = await graph.next({}, bob.token);
  assert.equal(mine.hidden, 126, "of so many leases two are its own");
});
