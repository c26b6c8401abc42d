// The lease routes of a node, row by row of the contract: claim, renew, extend, reserve, release, status; who may, with
// which label, dispatch and token; and what each refusal says.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { call, fresh, ok } from "./http-api.js";
import { type Done, Graph, one, startGraphServer, two } from "./http-node-api.js";
import { adminToken, type Server } from "./server.js";

const ttlMs = 2_700_000;
let server: Server;
const graph = new Graph(() => server);
before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

describe("claim", () => {
  test("takes the lease and writes the edge", async () => {
    const id = await graph.create();
    const asked = Date.now();
    const { ok: isOk, status, edge, lease } = await graph.claim(id);
    assert.deepEqual([isOk, status, edge], [true, "claimed", "added"]);
    const { expires, expires_at, claimed_at, ...rest } = lease;
    assert.deepEqual(rest, { node_id: id, by: "runner-1", session: null, token: 1, expires_in_ms: ttlMs });
    assert.equal(new Date(expires).toISOString(), expires_at);
    assert.equal(expires - Date.parse(claimed_at), ttlMs);
    assert.ok(Date.parse(claimed_at) > asked - 1000 && Date.parse(claimed_at) < Date.now() + 1000);
    const node = await graph.look(id);
    assert.deepEqual([node.lease?.token, node.status, node.revision], [1, "open", 2]);
    assert.deepEqual(
      node.edges.map(({ type, to, by, at }) => [type, to, by, at]),
      [["assigned", "runner-1", "runner-1", claimed_at]],
    );
  });

  test("the caller's own live claim is renewed, and keeps token, edge and history", async () => {
    const id = await graph.create();
    const first = await graph.claim(id);
    const again = await graph.claim(id);
    assert.deepEqual([again.status, again.edge, again.lease.token], ["renewed", "kept", 1]);
    assert.ok(again.lease.expires >= first.lease.expires);
    assert.deepEqual(await graph.story(id), ["runner-1 created", "runner-1 claimed 1"]);
  });

  test("another's is 409 already_claimed, naming holder and expiry", async () => {
    const id = await graph.create();
    const { lease } = await graph.claim(id, { session: "run-7" });
    const { error, holder } = await graph.refused("claimNode", id, {}, 409, "already_claimed", two);
    for (const part of [id, "runner-1", '"run-7"', lease.expires_at])
      assert.ok(error.message.includes(part), `${part}: ${error.message}`);
    assert.deepEqual({ ...holder, expires_in_ms: 0 }, { ...lease, expires_in_ms: 0 });
    assert.ok(Number(error.details["retry_after_ms"]) > 0);
  });

  test("what is over, blocked or no work is refused, and says why", async () => {
    const done = await graph.create({ status: "done" });
    const over = await graph.refused("claimNode", done, {}, 409, "not_ready");
    assert.match(over.error.message, /is done/);
    const [blocker, blocked] = [await graph.create(), await graph.create()];
    await graph.do("addEdge", blocker, { type: "blocks", to: blocked });
    const waits = await graph.refused("claimNode", blocked, {}, 409, "not_ready");
    assert.ok(waits.error.message.includes(`blocked by ${blocker}`), waits.error.message);
    assert.deepEqual(waits.error.details["blocked_by"], [blocker]);
    await graph.do("setNodeStatus", blocker, { status: "abandoned" });
    assert.equal((await graph.claim(blocked)).status, "claimed");
    const note = await graph.create({ type: "note" });
    const told = await graph.refused("claimNode", note, {}, 422, "invalid_node");
    assert.match(told.error.message, /is of type note, which is a record, not work/);
    assert.deepEqual((await graph.look(note)).edges, []);
  });

  test("who claims is who calls, never a field", async () => {
    const id = await graph.create();
    for (const field of ["by", "owner", "assignee", "principal"]) {
      const told = await graph.refused("claimNode", id, { [field]: "runner-2" }, 400, "invalid_input");
      assert.ok(told.error.message.includes(field), told.error.message);
    }
    assert.equal((await graph.look(id)).lease, undefined);
  });

  test("a lapsed claim's edge stays; a plain claim takes over, and history keeps both tokens", async () => {
    const id = await graph.create({ type: "brief" });
    await graph.claim(id);
    const lapsed = await graph.lapsed(id);
    assert.deepEqual([lapsed.edges[0]?.to, lapsed.reclaims], ["runner-1", 1]);
    const taken = await graph.claim(id, {}, two);
    assert.deepEqual([taken.status, taken.edge, taken.lease.token], ["claimed", "added", 2]);
    const node = await graph.look(id);
    assert.deepEqual(
      node.edges.map(({ to }) => to),
      ["runner-2"],
    );
    const entries = await graph.history(id);
    assert.deepEqual(
      entries.map(({ what, by, token }) => `${by} ${what} ${token}`),
      ["runner-1 created null", "runner-1 claimed 1", "runner-1 lapsed 1", "runner-2 taken_over 2"],
    );
    assert.deepEqual(entries[3]?.from, { by: "runner-1", token: 1 });
    const told = await graph.refused("renewNode", id, {}, 409, "lease_lost");
    assert.equal(told.holder?.by, "runner-2");
  });

  test("the same person after a lapse: a new token, the edge is kept", async () => {
    const id = await graph.create({ type: "brief" });
    await graph.claim(id);
    await graph.lapsed(id);
    const again = await graph.claim(id);
    assert.deepEqual([again.status, again.edge, again.lease.token], ["claimed", "kept", 2]);
  });
});

describe("labels, dispatches and tokens", () => {
  test("without a label the lease is the person's: any run renews, the first label binds it", async () => {
    const id = await graph.create();
    await graph.claim(id);
    assert.equal((await graph.do("renewNode", id)).lease.session, null);
    assert.equal((await graph.do("renewNode", id, { session: "s1" })).lease.session, "s1");
    assert.equal((await graph.do("renewNode", id, { session: "s1" })).lease.session, "s1");
    assert.equal((await graph.do("renewNode", id)).lease.session, "s1");
    const told = await graph.refused("renewNode", id, { session: "s2" }, 409, "lease_lost");
    assert.match(told.error.message, /bound to another run.*run "s1"/);
    assert.deepEqual([told.error.details["differs"], told.holder?.session], ["session", "s1"]);
  });

  test("a claim by another run of the same person is refused, unless it says rebind", async () => {
    const id = await graph.create();
    const { lease } = await graph.claim(id, { session: "s1" });
    const told = await graph.refused("claimNode", id, { session: "s2" }, 409, "already_claimed");
    assert.match(told.error.message, /your own claim.*rebind/);
    assert.equal(told.holder?.session, "s1");
    const moved = await graph.claim(id, { session: "s2", rebind: true });
    assert.deepEqual([moved.status, moved.lease.session, moved.lease.token], ["renewed", "s2", lease.token]);
    await graph.refused("renewNode", id, { session: "s1" }, 409, "lease_lost");
    assert.equal((await graph.claim(id)).lease.session, "s2");
    // Nobody moves another's.
    await graph.refused("claimNode", id, { session: "s3", rebind: true }, 409, "already_claimed", two);
  });

  test("extend, reserve and release by another run are refused, too", async () => {
    const id = await graph.create();
    await graph.claim(id, { session: "s1" });
    for (const [route, body] of [
      ["extendNode", { ms: 1000 }],
      ["reserveNode", {}],
      ["releaseNode", {}],
    ] as const)
      await graph.refused(route, id, { ...body, session: "s2" }, 409, "lease_lost");
    await graph.refused("setNodeStatus", id, { status: "done", session: "s2" }, 409, "already_claimed");
    assert.equal((await graph.look(id)).lease?.session, "s1");
    assert.equal((await graph.do("releaseNode", id, { session: "s1" })).edge, "removed");
  });

  test("a live lease with another dispatch is refused, also to the same person", async () => {
    const id = await graph.create();
    await graph.claim(id, { dispatch: "d1" });
    assert.equal((await graph.claim(id, { dispatch: "d1" })).status, "renewed");
    const told = await graph.refused("claimNode", id, { dispatch: "d2" }, 409, "already_claimed");
    assert.match(told.error.message, /another dispatch/);
    assert.equal(told.error.details["differs"], "dispatch");
    await graph.refused("claimNode", id, {}, 409, "already_claimed");
    await graph.refused("setNodeStatus", id, { status: "done", dispatch: "d2" }, 409, "already_claimed");
    assert.equal((await graph.look(id)).lease?.token, 1);
    assert.equal((await graph.claim(id, { token: 1 })).status, "renewed");
    const bare = await graph.create();
    await graph.claim(bare);
    await graph.refused("claimNode", bare, { dispatch: "d1" }, 409, "already_claimed");
  });

  test("every lease route takes a token; another than the live one is lease_lost", async () => {
    const rows = [
      ["claimNode", {}],
      ["renewNode", {}],
      ["extendNode", { ms: 1000 }],
      ["reserveNode", {}],
      ["setNodeStatus", { status: "active" }],
      ["releaseNode", {}],
    ] as const;
    const id = await graph.create();
    await graph.claim(id);
    for (const [route, body] of rows) {
      const told = await graph.refused(route, id, { ...body, token: 2 }, 409, "lease_lost");
      assert.equal(told.holder?.token, 1, route);
      assert.match(told.error.message, /token that you sent/);
      const before_ = await graph.look(id);
      assert.equal(before_.lease?.token, 1, `${route} changed nothing`);
      await graph.do(route, id, { ...body, token: 1 });
    }
    for (const [route, body] of rows)
      await graph.refused(route, id, { ...body, token: 1 }, 409, "lease_lost");
    assert.equal((await graph.look(id)).lease, undefined);
  });

  const badLabels = ["", "x".repeat(129), "tab\there", "é", 5, null];
  test("labels are 1 to 128 printable characters", async () => {
    const id = await graph.create();
    for (const field of ["session", "dispatch"])
      for (const value of badLabels)
        await graph.refused("claimNode", id, { [field]: value }, 400, "invalid_input");
    for (const token of [-1, 1.5, "1", null])
      await graph.refused("claimNode", id, { token }, 400, "invalid_input");
    const long = "x".repeat(128);
    assert.equal((await graph.claim(id, { session: long, dispatch: long })).lease.session, long);
  });
});

describe("renew and extend", () => {
  test("what is not held cannot be renewed, extended or reserved", async () => {
    const id = await graph.create();
    for (const [route, body] of [
      ["renewNode", {}],
      ["extendNode", { ms: 1 }],
      ["reserveNode", {}],
    ] as const) {
      const told = await graph.refused(route, id, body, 409, "lease_lost");
      assert.match(told.error.message, /nobody is on it/);
      assert.equal(told.holder, undefined);
    }
  });

  test("an extend stretches by ms, and a renew does not take that back", async () => {
    const id = await graph.create();
    const { lease } = await graph.claim(id);
    const extended = await graph.do("extendNode", id, { ms: 3_600_000 });
    assert.deepEqual([extended.status, "capped_to_max" in extended], ["extended", false]);
    assert.equal(extended.lease.expires, lease.expires + 3_600_000);
    assert.equal((await graph.do("renewNode", id)).lease.expires, extended.lease.expires);
    assert.equal((await graph.do("extendNode", id, { ms: 0.5 })).lease.expires, extended.lease.expires + 1);
  });

  test("past the ceiling it caps and says so; it never shortens", async () => {
    const id = await graph.create({ type: "brief" });
    await graph.claim(id);
    const capped = await graph.do("extendNode", id, { ms: 1e300 });
    assert.deepEqual([capped.capped_to_max, capped.claim_ttl_max_ms], [true, 60_000]);
    assert.equal(capped.lease.expires_in_ms, 60_000);
    // A reservation reaches further than the ceiling: extending it leaves its end as it is.
    const reserved = await graph.do("reserveNode", id);
    const kept = await graph.do("extendNode", id, { ms: 1e300 });
    assert.equal(kept.lease.expires, reserved.lease.expires);
    assert.equal(kept.capped_to_max, true);
  });

  test("ms must be a positive number", async () => {
    const id = await graph.create();
    await graph.claim(id);
    for (const text of [
      '{"ms":0}',
      '{"ms":-1}',
      '{"ms":"5"}',
      '{"ms":null}',
      "{}",
      '{"ms":1e309}',
      '{"ms":[1]}',
      '{"ms":true}',
    ]) {
      const headers = { "content-type": "application/json" };
      const { status, body } = await call<{ error: { code: string; message: string } }>(
        server,
        "extendNode",
        {
          token: one,
          name: id,
          text,
          headers,
        },
      );
      assert.deepEqual([status, body.error.code], [422, "invalid_node"], text);
      assert.match(body.error.message, /positive number/);
    }
  });
});

describe("reserve", () => {
  test("keeps the claim for the grace window without heartbeats; a renew puts it back to work", async () => {
    const id = await graph.create({ type: "brief" });
    await graph.claim(id, { session: "s1" });
    const reserved = await graph.do("reserveNode", id);
    assert.deepEqual(
      [reserved.status, reserved.grace_window_ms, reserved.lease.reserved],
      ["reserved", 120_000, true],
    );
    assert.equal(reserved.lease.expires_in_ms, 120_000);
    const told = await graph.refused("claimNode", id, {}, 409, "already_claimed", two);
    assert.match(told.error.message, /reserved by runner-1/);
    const back = await graph.do("renewNode", id);
    assert.deepEqual([back.lease.reserved, back.lease.expires_in_ms, back.lease.token], [undefined, 1000, 1]);
    assert.deepEqual(await graph.story(id), [
      "runner-1 created",
      "runner-1 claimed 1",
      "runner-1 reserved 1",
    ]);
  });
});

describe("release", () => {
  test("frees the node and removes the edge; a second time there is nothing to do", async () => {
    const id = await graph.create();
    await graph.claim(id);
    const { status, node_id, edge } = await graph.do("releaseNode", id);
    assert.deepEqual([status, node_id, edge], ["released", id, "removed"]);
    const node = await graph.look(id);
    assert.deepEqual([node.lease, node.edges], [undefined, []]);
    assert.equal((await graph.do("releaseNode", id)).edge, "skipped");
    assert.deepEqual((await graph.story(id)).at(-1), "runner-1 released 1");
    assert.equal((await graph.claim(id, {}, two)).lease.token, 2);
  });

  test("without a lease it clears a lingering edge of the caller's own, and of nobody else", async () => {
    const id = await graph.create({ type: "brief" });
    await graph.claim(id);
    await graph.lapsed(id);
    assert.equal((await graph.do("releaseNode", id, {}, two)).edge, "skipped");
    assert.equal((await graph.look(id)).edges.length, 1);
    assert.equal((await graph.do("releaseNode", id)).edge, "removed");
    assert.deepEqual((await graph.look(id)).edges, []);
  });

  test("another's claim is 409 already_claimed, naming the holder", async () => {
    const id = await graph.create();
    const { lease } = await graph.claim(id);
    const told = await graph.refused("releaseNode", id, {}, 409, "already_claimed", two);
    assert.ok(told.error.message.includes("runner-1") && told.error.message.includes(lease.expires_at));
    assert.equal((await graph.look(id)).lease?.token, lease.token);
  });
});

describe("status", () => {
  interface StatusSet {
    status: string;
    id: string;
    revision: number;
    lease?: Done["lease"] & { error?: string; message?: string; holder?: Done["lease"] };
  }
  const set = (id: string, body: object, token = one) =>
    graph.do<StatusSet>("setNodeStatus", id, body, token);

  test("an active one claims with the same lease", async () => {
    const id = await graph.create();
    const { status, id: same, revision, lease } = await set(id, { status: "active", session: "s1" });
    assert.deepEqual(
      [status, same, lease?.by, lease?.session, lease?.token],
      ["updated", id, "runner-1", "s1", 1],
    );
    const node = await graph.look(id);
    assert.deepEqual([node.status, node.revision, node.edges[0]?.to], ["active", revision, "runner-1"]);
    assert.equal((await graph.do("renewNode", id, { session: "s1" })).lease.token, 1);
  });

  test("if the claim is refused the status still lands, and the holder is told", async () => {
    const id = await graph.create();
    await graph.claim(id);
    const { status, lease } = await set(id, { status: "active" }, two);
    assert.deepEqual([status, lease?.error, lease?.holder?.by], ["updated", "already_claimed", "runner-1"]);
    assert.match(lease?.message ?? "", /claimed by runner-1/);
    const node = await graph.look(id);
    assert.deepEqual([node.status, node.lease?.by], ["active", "runner-1"]);
  });

  test("a terminal one ends the caller's lease and keeps the edge as the record", async () => {
    const id = await graph.create();
    await graph.claim(id);
    const { lease } = await set(id, { status: "done", reason: "merged" });
    assert.equal(lease, undefined);
    const node = await graph.look(id);
    assert.deepEqual([node.status, node.lease, node.edges[0]?.to], ["done", undefined, "runner-1"]);
    assert.equal((await graph.history(id)).at(-1)?.reason, "merged");
    await graph.refused("renewNode", id, {}, 409, "lease_lost");
  });

  test("a terminal one while another is on it: 409, nothing written; an admin may, with a reason", async () => {
    const id = await graph.create();
    await graph.claim(id);
    for (const [token, body] of [
      [two, { status: "done" }],
      [two, { status: "done", reason: "I want to" }],
      [adminToken, { status: "done" }],
    ] as const) {
      const told = await graph.refused("setNodeStatus", id, body, 409, "already_claimed", token);
      assert.equal(told.holder?.by, "runner-1");
    }
    assert.deepEqual([(await graph.look(id)).status, (await graph.look(id)).revision], ["open", 2]);
    await set(id, { status: "abandoned", reason: "cancelled" }, adminToken);
    const node = await graph.look(id);
    assert.deepEqual([node.status, node.lease], ["abandoned", undefined]);
    const forced = (await graph.history(id)).find(({ what }) => what === "forced");
    assert.deepEqual([forced?.by, forced?.reason, forced?.from?.by], ["operator", "cancelled", "runner-1"]);
  });

  test("an unknown one is 422 and says which there are; opened again, it can be claimed", async () => {
    const id = await graph.create();
    for (const status of ["dne", "resolved", "No", 5, null, "x".repeat(40)])
      await graph.refused("setNodeStatus", id, { status }, 422, "invalid_node");
    const told = await graph.refused("setNodeStatus", id, { status: "dne" }, 422, "invalid_node");
    assert.deepEqual(told.error.details["known"], ["open", "active", "done", "abandoned"]);
    await graph.refused("setNodeStatus", id, {}, 422, "invalid_node");
    await set(id, { status: "done" });
    await graph.refused("claimNode", id, {}, 409, "not_ready");
    await set(id, { status: "open" });
    assert.equal((await graph.claim(id)).status, "claimed");
  });
});

describe("request ids", () => {
  const repeat = (id: string, key: string, body: object = {}, token = one) =>
    call<Done & { error: { code: string; message: string } }>(server, "claimNode", {
      token,
      name: id,
      body,
      headers: { "idempotency-key": key },
    });

  test("a repeat is the same claim while it is live, afterwards lease_lost, never a second grant", async () => {
    const [id, key] = [await graph.create(), fresh("key")];
    const first = await repeat(id, key, { session: "s1" });
    const again = await repeat(id, key, { session: "s1" });
    assert.deepEqual(
      [again.body.status, again.body.edge, again.body.lease.token, again.body.lease.expires],
      ["claimed", "added", first.body.lease.token, first.body.lease.expires],
    );
    const other = await repeat(await graph.create(), key, { session: "s1" });
    assert.deepEqual([other.status, other.body.error.code], [422, "invalid_input"], other.text);
    for (const body of [{ session: "s2" }, { session: "s1", rebind: true }])
      assert.equal((await repeat(id, key, body)).status, 422);
    const stale = await repeat(id, key, { session: "s1", token: 99 });
    assert.deepEqual([stale.status, stale.body.error.code], [409, "lease_lost"]);
    await graph.do("releaseNode", id);
    await graph.claim(id, {}, two);
    const spent = await repeat(id, key, { session: "s1" });
    assert.deepEqual([spent.status, spent.body.error.code], [409, "lease_lost"]);
    assert.match(spent.body.error.message, /claimed by runner-2/);
    assert.equal((await ok<Done>(server, "claimNode", { token: two, name: id })).lease.token, 2);
  });
});
