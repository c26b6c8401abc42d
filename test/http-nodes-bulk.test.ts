// Many nodes in one call: which lease of each is meant, what a request id covers, and what a renewal of all leaves alone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { RouteId } from "../src/wire/routes.js";
import { call, fresh, ok } from "./http-api.js";
import { type Crew, crew, type Refusal, type Result, startGraphServer } from "./http-node-api.js";
import { gauge } from "./security/soundness.js";
import type { Server } from "./server.js";

let server: Server;
before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

type Bulk = "claimNodes" | "renewNodes" | "releaseNodes";

async function bulk(route: Bulk, body: object, token: string, headers = {}): Promise<string[]> {
  const { results } = await ok<{ results: Result[] }>(server, route, { token, body, headers });
  return results.map(({ id, status, error }) => [id, status ?? error?.code].join(" "));
}

async function crewWith(...ids: string[]): Promise<Crew> {
  const made = await crew(server);
  for (const id of ids) await made.graph.create({ id });
  return made;
}

test("each may say which lease is meant; another than the live one is lease_lost", async () => {
  const { graph, ann } = await crewWith("a", "b", "c");
  for (const id of ["a", "b", "c"]) await graph.claim(id);
  const ids = [{ id: "a", token: 1 }, { id: "b", token: 9 }, "c", { id: "c" }];
  assert.deepEqual(await bulk("claimNodes", { ids }, ann), ["a renewed", "b lease_lost", "c renewed"]);
  assert.deepEqual(await bulk("renewNodes", { ids }, ann), ["a renewed", "b lease_lost", "c renewed"]);
  assert.deepEqual(await bulk("releaseNodes", { ids }, ann), ["a released", "b lease_lost", "c released"]);
  assert.equal((await graph.look("b")).lease?.token, 1);
  const rows = [
    [[{ id: "a", tokn: 1 }], /tokn.*did you mean token/],
    [[{ token: 1 }], /id is missing/],
    [[{ id: "a", token: "1" }], /ids\.0\.token must be a whole number/],
    [[5], /ids\.0 must be a string/],
  ] as const;
  for (const [wrong, message] of rows) {
    const told = await call<Refusal>(server, "renewNodes", { token: ann, body: { ids: wrong } });
    assert.deepEqual([told.status, told.body.error.code], [400, "invalid_input"]);
    assert.match(told.body.error.message, message);
  }
});

test("a request id is the whole call's: with other nodes, or on another route, it is refused", async () => {
  const { graph, ann } = await crewWith("a", "b", "c");
  const headers = { "idempotency-key": fresh("key") };
  assert.deepEqual(await bulk("claimNodes", { ids: ["a", "c"] }, ann, headers), ["a claimed", "c claimed"]);
  assert.deepEqual(await bulk("claimNodes", { ids: ["c", "a"] }, ann, headers), ["c claimed", "a claimed"]);
  const rows: readonly (readonly [RouteId, string, object])[] = [
    ["claimNodes", "", { ids: ["b"] }],
    ["claimNodes", "", { ids: ["a", "b", "c"] }],
    ["claimNodes", "", { ids: ["a", "c"], session: "s1" }],
    ["claimNode", "b", {}],
    ["claimNode", "a", {}],
    ["nextWork", "", {}],
  ];
  for (const [route, name, body] of rows) {
    const told = await call<Refusal>(server, route, { token: ann, name, body, headers });
    assert.deepEqual([told.status, told.body.error?.code], [422, "invalid_input"], told.text);
    assert.match(told.body.error.message, /used for another request/);
  }
  assert.equal((await graph.look("b")).lease, undefined);
  const single = { "idempotency-key": fresh("key") };
  await graph.do("claimNode", "b", {}, ann, { headers: single });
  const told = await call<Refusal>(server, "claimNodes", {
    token: ann,
    body: { ids: ["b"] },
    headers: single,
  });
  assert.equal(told.status, 422, told.text);
});

test("a renewal of all undoes no reservation, however they meet", async () => {
  const { graph, bob } = await crewWith();
  for (let round = 0; round < 40; round++) {
    const id = await graph.create();
    await graph.claim(id, {}, bob);
    await Promise.all([bulk("renewNodes", {}, bob), graph.do("reserveNode", id, {}, bob)]);
    assert.equal((await graph.look(id)).lease?.reserved, true, `round ${round}`);
    await graph.do("releaseNode", id, {}, bob);
  }
});

test("a node with as many links as it can have is claimed like any other", async () => {
  const { graph, ann, bob } = await crewWith("hub");
  await graph.do("updateNode", "hub", { revision: 1, priority: "p1" });
  const links = Array.from({ length: 100 }, (_, i) => `t-${i}`);
  for (const id of links) {
    await graph.create({ id, status: "done" });
    await graph.do("addEdge", "hub", { type: "relates-to", to: id });
  }
  assert.deepEqual(await bulk("claimNodes", { ids: ["hub"] }, bob), ["hub claimed"]);
  await graph.do("releaseNode", "hub", {}, bob);
  assert.equal((await graph.next({}, ann)).node.id, "hub");
});

test("the metrics count what was granted and ended, by whatever call", async () => {
  const { graph, ann } = await crewWith("a", "b");
  const figures = async () => [await gauge(server, "grants_total"), await gauge(server, "releases_total")];
  const before = await figures();
  await graph.do("setNodeStatus", "a", { status: "active" });
  await graph.do("setNodeStatus", "a", { status: "done" });
  await bulk("claimNodes", { ids: ["b"] }, ann);
  await bulk("releaseNodes", { ids: ["b"] }, ann);
  await graph.do("releaseNode", "b");
  const headers = { "idempotency-key": fresh("key") };
  for (const _ of [1, 2, 3]) await graph.do("claimNode", "b", {}, ann, { headers });
  const after = await figures();
  assert.deepEqual(
    after.map((value, nth) => value - (before[nth] ?? 0)),
    [3, 2],
  );
});
