// The lease API that the contract follows, sentence by sentence, over real HTTP: two people, and three sessions of the
// first. Each step is one sentence's meaning, named in our own words, and builds on those before.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { call, ok } from "./http-api.js";
import {
  type Done,
  Graph,
  type Lease,
  one,
  type Refusal,
  startGraphServer,
  two,
  viewer,
} from "./http-node-api.js";
import type { Server } from "./server.js";

const id = "task-api-rate-limits";
const [first, second, third] = ["session-1", "session-2", "session-3"];
let server: Server;
const graph = new Graph(() => server);
let lease: Lease;

before(async () => {
  server = await startGraphServer();
  await graph.create({ id, title: "Rate limits for the API", priority: "p1" });
});
after(() => server.stop());

const edges = async (): Promise<string[]> =>
  (await graph.look(id)).edges.map(({ type, to }) => `${type} ${to}`);

test("a claim is a durable edge, visible in the graph, and a lease", async () => {
  const claimed = await graph.claim(id);
  assert.deepEqual(await edges(), ["assigned runner-1"]);
  assert.equal((await graph.look(id)).lease?.token, claimed.lease.token);
  ({ lease } = claimed);
});

test("the reply says ok, status, the lease with all its fields, and whether the edge was written", async () => {
  const other = await graph.create();
  const reply = await graph.claim(other, { session: first });
  assert.deepEqual(Object.keys(reply).toSorted(), ["edge", "lease", "ok", "status"]);
  for (const field of ["node_id", "by", "expires", "expires_at", "session", "claimed_at"])
    assert.ok(field in reply.lease, field);
  assert.deepEqual(
    [reply.ok, reply.status, reply.edge, reply.lease.by],
    [true, "claimed", "added", "runner-1"],
  );
});

test("the lease expires if the claimer goes quiet, and the edge stays", async () => {
  const quiet = await graph.create({ type: "brief" });
  await graph.claim(quiet);
  const lapsed = await graph.lapsed(quiet);
  assert.deepEqual([lapsed.lease, lapsed.edges[0]?.to], [undefined, "runner-1"]);
});

test("the lease prevents two workers from picking up the same item of the queue", async () => {
  assert.ok(!(await graph.queue({}, two)).items.some((item) => item.id === id));
  const picked = await Promise.all([
    graph.next({}, one),
    graph.next({}, two),
    graph.next({}, one),
    graph.next({}, two),
  ]);
  const ids = picked.filter(({ status }) => status === "claimed").map(({ node }) => node.id);
  assert.ok(ids.length > 0 && !ids.includes(id));
  assert.equal(new Set(ids).size, ids.length);
});

test("the edge records who carried it, also when the work is over", async () => {
  const carried = await graph.create();
  await graph.claim(carried, {}, two);
  await graph.do("setNodeStatus", carried, { status: "done" }, two);
  const { edges: kept, lease: over } = await graph.look(carried);
  assert.deepEqual([kept[0]?.to, over], ["runner-2", undefined]);
});

test("an in-progress status claims with the same lease", async () => {
  const work = await graph.create();
  const set = await graph.do<{ status: string; lease: Lease }>("setNodeStatus", work, { status: "active" });
  const again = await graph.claim(work);
  assert.deepEqual([set.status, again.status, again.lease.token], ["updated", "renewed", set.lease.token]);
  assert.equal(set.lease.claimed_at, again.lease.claimed_at);
});

test("the claimer is who is authenticated, never an argument", async () => {
  const work = await graph.create();
  await graph.refused("claimNode", work, { by: "runner-2" }, 400, "invalid_input");
  assert.equal((await graph.claim(work, {}, two)).lease.by, "runner-2");
});

test("a body is optional: {} or nothing", async () => {
  const work = await graph.create();
  assert.equal((await ok<Done>(server, "claimNode", { token: one, name: work, body: {} })).status, "claimed");
  assert.equal((await ok<Done>(server, "claimNode", { token: one, name: work })).status, "renewed");
});

test("the edge is written once", async () => {
  const { revision } = await graph.look(id);
  assert.equal((await graph.claim(id)).edge, "kept");
  assert.deepEqual([await edges(), (await graph.look(id)).revision], [["assigned runner-1"], revision]);
});

test("another person's claim of a live lease is 409, naming holder and expiry", async () => {
  const live = (await graph.look(id)).lease;
  const { error, holder } = await graph.refused("claimNode", id, {}, 409, "already_claimed", two);
  assert.ok(
    error.message.includes("runner-1") && error.message.includes(live?.expires_at ?? "?"),
    error.message,
  );
  assert.deepEqual([holder?.by, holder?.expires_at], ["runner-1", live?.expires_at]);
});

test("claiming one's own live claim again just renews it", async () => {
  const again = await graph.claim(id);
  assert.deepEqual(
    [again.status, again.lease.token, again.lease.claimed_at],
    ["renewed", lease.token, lease.claimed_at],
  );
  assert.ok(again.lease.expires >= lease.expires);
});

test("without a session the lease is the person's: any of its sessions may renew", async () => {
  assert.equal((await graph.look(id)).lease?.session, null);
  assert.equal((await graph.do("renewNode", id)).status, "renewed");
  const work = await graph.create();
  await graph.claim(work);
  // One that does not know its own name yet, and one that does.
  await graph.do("renewNode", work);
  assert.equal((await graph.do("renewNode", work, { session: second })).lease.session, second);
});

test("a session scopes the heartbeat to one run", async () => {
  const work = await graph.create();
  await graph.claim(work, { session: first });
  assert.equal((await graph.do("renewNode", work, { session: first })).lease.session, first);
  for (const other of [second, third])
    await graph.refused("renewNode", work, { session: other }, 409, "lease_lost");
  await graph.refused("claimNode", work, { session: second }, 409, "already_claimed");
});

test("a renew bumps the expiry only: no change of the graph", async () => {
  const before_ = await graph.look(id);
  const { lease: bumped } = await graph.do("renewNode", id);
  const { lease: _, ...after_ } = await graph.look(id);
  const { lease: was, ...same } = before_;
  assert.deepEqual(after_, same);
  assert.ok(was !== undefined && bumped.expires >= was.expires);
  assert.equal((await graph.history(id)).filter(({ what }) => what !== "created").length, 1);
});

test("a lapsed or stolen lease is 409 at the heartbeat, naming the current holder", async () => {
  const work = await graph.create({ type: "brief" });
  await graph.claim(work);
  await graph.lapsed(work);
  const lapsed = await graph.refused("renewNode", work, {}, 409, "lease_lost");
  assert.match(lapsed.error.message, /nobody is on it now/);
  await graph.do("setNodeStatus", work, { status: "active" }, two);
  await graph.do("extendNode", work, { ms: 30_000 }, two);
  const stolen = await graph.refused("renewNode", work, {}, 409, "lease_lost");
  assert.ok(stolen.holder?.by === "runner-2" && stolen.error.message.includes(stolen.holder.expires_at));
});

test("a heartbeat with a session binds the lease to that run", async () => {
  assert.equal((await graph.do("renewNode", id, { session: third })).lease.session, third);
  await graph.refused("renewNode", id, { session: first }, 409, "lease_lost");
  await graph.do("renewNode", id, { session: third });
});

test("an extend stretches the live lease by ms, for a known idle gap", async () => {
  const { lease: was } = await graph.do("renewNode", id);
  const reply = await graph.do("extendNode", id, { ms: 7_200_000, session: third });
  assert.deepEqual([reply.ok, reply.status, reply.capped_to_max], [true, "extended", undefined]);
  assert.equal(reply.lease.expires, was.expires + 7_200_000);
});

test("past the ceiling it caps and says so, with the ceiling", async () => {
  const reply = await graph.do("extendNode", id, { ms: 100 * 3_600_000 });
  assert.deepEqual([reply.capped_to_max, reply.claim_ttl_max_ms], [true, 28_800_000]);
  assert.equal(reply.lease.expires_in_ms, 28_800_000);
});

test("it never shortens a lease", async () => {
  const { lease: was } = await graph.do("extendNode", id, { ms: 28_800_000 });
  const { lease: now } = await graph.do("extendNode", id, { ms: 1 });
  assert.ok(now.expires >= was.expires);
});

test("ms must be a positive number", async () => {
  for (const ms of [0, -5, "7200000", null, undefined])
    await graph.refused("extendNode", id, { ms }, 422, "invalid_node");
});

test("an extend of a lapsed or stolen lease is 409 lease_lost, naming the holder", async () => {
  const told = await graph.refused("extendNode", id, { ms: 1000 }, 409, "lease_lost", two);
  assert.equal(told.holder?.by, "runner-1");
});

test("releasing a claim that someone else holds is 409, naming the holder", async () => {
  const told = await graph.refused("releaseNode", id, {}, 409, "already_claimed", two);
  assert.ok(told.holder?.by === "runner-1" && told.error.message.includes("runner-1"));
});

test("a release drops the lease and retires the edge: the node is back in the pool", async () => {
  const reply = await graph.do("releaseNode", id);
  assert.deepEqual([reply.status, reply.edge, await edges()], ["released", "removed", []]);
  const { items } = await graph.queue({}, two);
  assert.equal(items[0]?.id, id);
});

test("a release is idempotent, and clears a lingering edge of one's own", async () => {
  assert.equal((await graph.do("releaseNode", id)).edge, "skipped");
  const work = await graph.create({ type: "brief" });
  await graph.claim(work, {}, two);
  await graph.lapsed(work);
  assert.equal((await graph.do("releaseNode", work, {}, two)).edge, "removed");
  assert.deepEqual((await graph.look(work)).edges, []);
});

test("every call needs the bearer token", async () => {
  for (const action of ["claimNode", "renewNode", "extendNode", "releaseNode", "setNodeStatus"] as const) {
    const { status, body } = await call<Refusal>(server, action, { name: id, body: {} });
    assert.deepEqual([status, body.error.code], [401, "unauthorized"]);
    assert.equal((await call(server, action, { name: id, body: {}, token: viewer })).status, 403);
  }
});
