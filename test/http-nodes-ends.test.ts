// How claims end other than by their holder, and what everybody is told then: a force release, a type that the policy
// drops, a release after the end, another token than the live one; and who finds out what was done.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { call, ok } from "./http-api.js";
import { Graph, one, type Refusal, startGraphServer, testPolicy, two, viewer } from "./http-node-api.js";
import { adminToken, type Server } from "./server.js";

let server: Server;
const graph = new Graph(() => server);
before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

const force = (id: string, reason: string) =>
  ok(server, "forceReleaseLock", { token: adminToken, name: `node:${id}`, body: { reason } });

describe("a claim that was ended by force", () => {
  test("its holder learns by whom and why, also when another is on it", async () => {
    const id = await graph.create();
    await graph.claim(id);
    await force(id, "one is gone");
    const told = await graph.refused("renewNode", id, {}, 409, "lease_lost");
    assert.match(told.error.message, /Your claim \(token 1\) was ended by operator at .*: one is gone\./);
    const { how, by, reason, token } = told.error.details["previous"] as Record<string, unknown>;
    assert.deepEqual([how, by, reason, token], ["forced", "operator", "one is gone", 1]);
    await graph.claim(id, {}, two);
    const later = await graph.refused("extendNode", id, { ms: 5, token: 1 }, 409, "lease_lost");
    assert.match(later.error.message, /ended by operator.*one is gone.*claimed by runner-2/);
    const other = await graph.refused("renewNode", await graph.create(), {}, 409, "lease_lost", two);
    assert.equal(other.error.details["previous"], undefined);
  });

  test("by a terminal status: it is told that there is nothing left to do", async () => {
    const id = await graph.create();
    await graph.claim(id);
    await graph.do("setNodeStatus", id, { status: "done", reason: "not wanted" }, adminToken);
    const told = await graph.refused("renewNode", id, {}, 409, "lease_lost");
    assert.match(told.error.message, /ended by operator at .*: not wanted\./);
    assert.match(told.error.message, /is done: there is nothing left to do/);
    assert.doesNotMatch(told.error.message, /Claim it again/);
  });

  test("a repeated request id of it tells the same", async () => {
    const id = await graph.create();
    await graph.claim(id, { request_id: "ended" });
    await force(id, "stuck");
    const told = await graph.refused("claimNode", id, { request_id: "ended" }, 409, "lease_lost");
    assert.match(told.error.message, /ended by operator at .*: stuck/);
  });
});

describe("another token than the live one", () => {
  test("is lease_lost on every route, whoever holds it", async () => {
    const id = await graph.create();
    await graph.claim(id);
    for (const route of ["claimNode", "releaseNode", "renewNode", "reserveNode"] as const) {
      const told = await graph.refused(route, id, { token: 99 }, 409, "lease_lost", two);
      assert.equal(told.holder?.by, "runner-1", route);
    }
    for (const route of ["claimNode", "releaseNode"] as const)
      await graph.refused(route, id, { token: 1 }, 409, "already_claimed", two);
  });
});

describe("who is refused learns the way out", () => {
  test("an admin that it may end the work, others that an admin may, the holder that it can release", async () => {
    const id = await graph.create();
    await graph.claim(id);
    const admin = await graph.refused(
      "setNodeStatus",
      id,
      { status: "done" },
      409,
      "already_claimed",
      adminToken,
    );
    assert.match(admin.error.message, new RegExp(`with a reason, or free it with DELETE /locks/node:${id}`));
    const other = await graph.refused("claimNode", id, {}, 409, "already_claimed", two);
    assert.match(other.error.message, /Take other work, or try again then; .* an admin frees it with DELETE/);
    const edge = { type: "assigned", to: "runner-1" };
    const own = await graph.refused("removeEdge", id, edge, 409, "already_claimed");
    assert.match(own.error.message, new RegExp(`your own claim.*POST /v1/nodes/${id}/release`));
  });
});

describe("what an extend gave", () => {
  test("is there again after a reserve", async () => {
    const id = await graph.create();
    await graph.claim(id);
    const { lease } = await graph.do("extendNode", id, { ms: 3_600_000 });
    await graph.do("reserveNode", id);
    assert.equal((await graph.do("renewNode", id)).lease.expires, lease.expires);
  });
});

describe("a release after the end", () => {
  test("leaves the edge and the history as they are", async () => {
    const id = await graph.create();
    await graph.claim(id);
    await graph.do("setNodeStatus", id, { status: "done" });
    const { revision, edges } = await graph.look(id);
    assert.equal((await graph.do("releaseNode", id)).edge, "skipped");
    const node = await graph.look(id);
    assert.deepEqual([node.revision, node.edges], [revision, edges]);
    assert.equal(node.edges[0]?.to, "runner-1");
  });
});

describe("an edge by hand", () => {
  test("keeps the node for nobody, and makes nobody its carrier", async () => {
    const id = await graph.create();
    await ok(server, "addEdge", { token: one, name: id, body: { type: "assigned", to: "cleo" } });
    const { items } = await ok<{ items: { id: string; why: string[] }[] }>(server, "listQueue", {
      token: viewer,
      query: { limit: "500" },
    });
    assert.ok(items.find((item) => item.id === id)?.why.includes("assigned to cleo"));
    await graph.claim(id, {}, two);
    assert.equal((await graph.story(id)).at(-1), "runner-2 claimed 1");
  });
});

describe("a filter that nothing can match", () => {
  test("is refused, and says which words there are", async () => {
    for (const [route, query, says] of [
      ["listNodes", { type: "tsak" }, /no type tsak, did you mean task\?/],
      ["listNodes", { status: "opne" }, /no status opne here, did you mean open\?/],
      [
        "listNodes",
        { type: "issue", status: "abandoned" },
        /no status abandoned here.*open, active, resolved/,
      ],
      ["listQueue", { type: "tsak" }, /no type tsak/],
    ] as const) {
      const { status, body } = await call<Refusal>(server, route, { token: viewer, query });
      assert.deepEqual([status, body.error.code], [422, "invalid_node"], JSON.stringify(query));
      assert.match(body.error.message, says);
    }
    await ok(server, "listNodes", { token: viewer, query: { type: "note" } });
    await ok(server, "listNodes", { token: viewer, query: { prefix: "nobody-has-this" } });
  });
});

/** In a space of its own: it changes the rules. */
describe("a type that the policy drops", () => {
  const headers = { "holdfast-space": "policies" };
  const admin = { token: adminToken, headers };
  const create = (id: string, type: string) =>
    ok(server, "createNode", { ...admin, body: { id, type, title: id } });
  const on = <Reply = unknown>(route: Parameters<typeof ok>[1], name: string, body: object = {}) =>
    ok<Reply>(server, route, { ...admin, name, body });
  const setTypes = async (types: object) => {
    const { revision } = await ok<{ revision: number }>(server, "getPolicy", admin);
    await ok(server, "setPolicy", { ...admin, body: { revision, types } });
  };
  const next = (body: object = {}) =>
    ok<{ status: string; lease: { node_id: string } | null }>(server, "nextWork", { ...admin, body });

  test("its nodes are handed out, kept and ended; a policy's change is in the audit", async () => {
    await create("old-1", "issue");
    await create("old-2", "issue");
    await create("mid", "issue");
    await on("claimNode", "mid");
    const { issue: _, ...types } = testPolicy.types;
    await setTypes(types);
    await create("new-1", "task");
    await on("renewNode", "mid");
    await on("extendNode", "mid", { ms: 1000 });
    const bulk = await ok<{ results: { ok: boolean }[] }>(server, "renewNodes", { ...admin, body: {} });
    assert.ok(bulk.results.every((result) => result.ok));
    await on("setNodeStatus", "mid", { status: "resolved" });

    assert.equal((await next()).lease?.node_id, "old-1");
    assert.equal((await next({ type: "issue", wait_seconds: 5 })).lease?.node_id, "old-2");
    assert.equal((await next()).lease?.node_id, "new-1");
    const wrong = await call<Refusal>(server, "setNodeStatus", {
      ...admin,
      name: "old-1",
      body: { status: "solved" },
    });
    assert.equal(wrong.status, 422);
    assert.match(wrong.body.error.message, /The policy has no type issue any more/);
    await on("setNodeStatus", "old-1", { status: "done" });
    await on("setNodeStatus", "old-2", { status: "done" });
    const none = await call<Refusal>(server, "nextWork", {
      ...admin,
      body: { type: "issue", wait_seconds: 5 },
    });
    assert.match(none.body.error.message, /no type issue/);

    const { records } = await ok<{ records: { action: string; subject: string; principal: string }[] }>(
      server,
      "listAudit",
      admin,
    );
    assert.deepEqual(
      records.map(({ action, subject, principal }) => [action, subject, principal]),
      [["policy_set", "policy", "operator"]],
    );
  });

  test("so are those of a type that becomes a record", async () => {
    await setTypes(testPolicy.types);
    await create("once-work", "issue");
    await setTypes({ ...testPolicy.types, issue: { statuses: { closed: "terminal" } } });
    assert.equal((await next({ type: "issue" })).lease?.node_id, "once-work");
    await on("setNodeStatus", "once-work", { status: "closed" });
    const over = await call<Refusal>(server, "claimNode", { ...admin, name: "once-work" });
    assert.deepEqual([over.status, over.body.error.code], [422, "invalid_node"]);
  });
});
