// The queue: its order and why, what is hidden, the next of it with and without waiting, work that keeps being lost, and
// many nodes at once. Each test has a space of its own.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { call, eventually, fresh, ok } from "./http-api.js";
import {
  type Crew,
  crew,
  type Done,
  type Node,
  type Refusal,
  type Result,
  startGraphServer,
} from "./http-node-api.js";
import { adminToken, type Server } from "./server.js";

let server: Server;
before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

const ids = ({ items }: { items: Node[] }): string[] => items.map(({ id }) => id);

/** Until what is made is younger than all before it: the clock of a store that servers share may stand still for a moment. */
async function timeToPass(): Promise<void> {
  const { graph } = await crew(server);
  const now = async (): Promise<string> => (await graph.look(await graph.create())).created_at;
  const from = await now();
  await eventually(async () => assert.ok((await now()) > from));
}

describe("the queue", () => {
  test("ranks by priority, then by how much it blocks, then by age, and says why", async () => {
    const { graph } = await crew(server);
    const older = [
      ["late", {}],
      ["low", { priority: "p3" }],
      ["high", { priority: "p1" }],
      ["blocker", { priority: "p3" }],
      ["waits-a", { priority: "p1" }],
      ["waits-b", { priority: "p1" }],
    ] as const;
    for (const [id, more] of older) await graph.create({ id, ...more });
    await timeToPass();
    await graph.create({ id: "high-too", priority: "p1" });
    for (const to of ["waits-a", "waits-b"]) await graph.do("addEdge", "blocker", { type: "blocks", to });
    const open = await graph.queue({});
    assert.deepEqual(ids(open), ["high", "high-too", "blocker", "low", "late"]);
    assert.equal(open.hidden, 0);
    const why = open.items.map((item) => item.why.slice(0, -1).join(", "));
    assert.deepEqual(why, ["p1", "p1", "p3, blocks 2", "p3", "no priority"]);
    for (const item of open.items) assert.match(item.why.at(-1) ?? "", /^open for \d+ seconds?$/);
    await graph.do("setNodeStatus", "blocker", { status: "done" });
    assert.deepEqual(ids(await graph.queue({})), ["high", "waits-a", "waits-b", "high-too", "low", "late"]);
    await graph.do("updateNode", "late", { revision: 1, priority: "p1" });
    assert.equal(ids(await graph.queue({}))[0], "late", "a new rank counts at once");
  });

  test("hides and counts what is leased to others; assignee shows it with its lease", async () => {
    const { graph, bob } = await crew(server);
    for (const id of ["a", "b", "c"]) await graph.create({ id });
    await graph.create({ id: "i", type: "issue" });
    await graph.claim("a");
    await graph.claim("b", {}, bob);
    await graph.claim("i", {}, bob);
    const open = await graph.queue({});
    assert.deepEqual([ids(open), open.hidden], [["c"], 2]);
    assert.deepEqual(
      [(await graph.queue({ type: "task" })).hidden, (await graph.queue({ type: "task" }, bob)).hidden],
      [1, 1],
    );
    const mine = await graph.queue({ assignee: "me" });
    assert.deepEqual([ids(mine), mine.items[0]?.lease?.by, mine.hidden], [["a"], "ann", undefined]);
    const his = await graph.queue({ assignee: "bob" });
    assert.deepEqual(
      [ids(his), his.items.map(({ lease }) => lease?.by)],
      [
        ["b", "i"],
        ["bob", "bob"],
      ],
    );
    assert.deepEqual(ids(await graph.queue({ assignee: "bob", type: "issue" })), ["i"]);
    assert.deepEqual(ids(await graph.queue({ assignee: "nobody" })), []);
    await graph.do("setNodeStatus", "b", { status: "done" }, bob);
    assert.deepEqual(ids(await graph.queue({ assignee: "bob" })), ["i"], "what is over is not carried");
  });

  test("a page at a time", async () => {
    const { graph, ann } = await crew(server);
    for (let i = 0; i < 5; i++) await graph.create({ id: `n-${i}` });
    const seen: string[] = [];
    for (let cursor = ""; ; ) {
      const query = { limit: "2", cursor };
      const page = await ok<{ items: Node[]; next_cursor: string | null }>(server, "listQueue", {
        token: ann,
        query,
      });
      seen.push(...ids(page));
      if (page.next_cursor === null) break;
      cursor = page.next_cursor;
    }
    assert.deepEqual(seen, ["n-0", "n-1", "n-2", "n-3", "n-4"]);
  });
});

describe("next", () => {
  test("claims the best free node in one step, of one type or any; then nothing is left", async () => {
    const { graph, bob } = await crew(server);
    await graph.create({ id: "second" });
    await graph.create({ id: "first", priority: "p1" });
    await graph.create({ id: "bug", type: "issue" });
    const first = await graph.next({ session: "s1" });
    assert.deepEqual(
      [first.ok, first.status, first.edge, first.node.id, first.lease.node_id, first.lease.session],
      [true, "claimed", "added", "first", "first", "s1"],
    );
    assert.deepEqual(first.node.lease, first.lease);
    assert.equal((await graph.next({ type: "issue" }, bob)).node.id, "bug");
    assert.equal((await graph.next({ type: "task" }, bob)).node.id, "second");
    const { status, lease, hidden, node } = await graph.next();
    assert.deepEqual([status, lease, hidden, node], ["empty", null, 2, undefined]);
    const told = await graph.refused("nextWork", "", { type: "tsk" }, 422, "invalid_node");
    assert.match(told.error.message, /did you mean task/);
    await graph.refused("nextWork", "", { type: "tsk", wait_seconds: 60 }, 422, "invalid_node");
  });

  test("two workers at once never get the same", async () => {
    const { graph, ann, bob } = await crew(server);
    for (let i = 0; i < 40; i++) await graph.create();
    const got = await Promise.all(
      Array.from({ length: 60 }, (_, i) => graph.next({}, i % 2 === 0 ? ann : bob)),
    );
    const claimed = got.filter(({ status }) => status === "claimed").map(({ node }) => node.id);
    assert.equal(claimed.length, 40);
    assert.equal(new Set(claimed).size, 40);
  });

  test("a repeated request id is the same claim", async () => {
    const { graph, ann } = await crew(server);
    await graph.create({ id: "a" });
    await graph.create({ id: "b" });
    const more = { headers: { "idempotency-key": "k1" } };
    const first = await graph.next({}, ann, more);
    const again = await graph.next({}, ann, more);
    assert.deepEqual([again.node.id, again.lease.token, again.status], ["a", first.lease.token, "claimed"]);
    assert.equal((await graph.next({ request_id: "k2" })).node.id, "b");
    await graph.do("releaseNode", "a");
    const spent = await call<Refusal>(server, "nextWork", { token: ann, body: {}, ...more });
    assert.deepEqual([spent.status, spent.body.error.code], [409, "lease_lost"], spent.text);
    const other = await call<Refusal>(server, "nextWork", { token: ann, body: { type: "task" }, ...more });
    assert.deepEqual([other.status, other.body.error.code], [422, "invalid_input"], other.text);
  });

  const wakers: readonly (readonly [string, (c: Crew) => Promise<() => Promise<unknown>>])[] = [
    [
      "new work",
      async ({ graph }) =>
        () =>
          graph.create({ id: "work" }),
    ],
    [
      "a release",
      async ({ graph }) => {
        await graph.create({ id: "work" });
        await graph.claim("work");
        return () => graph.do("releaseNode", "work");
      },
    ],
    [
      "a lapse",
      async ({ graph }) => {
        await graph.create({ id: "work", type: "brief" });
        await graph.claim("work");
        return async () => undefined;
      },
    ],
    [
      "the end of a blocker",
      async ({ graph }) => {
        await graph.create({ id: "blocker", type: "issue" });
        await graph.create({ id: "work" });
        await graph.do("addEdge", "blocker", { type: "blocks", to: "work" });
        await graph.claim("blocker");
        return () => graph.do("setNodeStatus", "blocker", { status: "resolved" });
      },
    ],
    [
      "a removed edge",
      async ({ graph }) => {
        await graph.create({ id: "blocker", type: "issue" });
        await graph.create({ id: "work" });
        await graph.do("addEdge", "blocker", { type: "blocks", to: "work" });
        await graph.claim("blocker");
        return () => graph.do("removeEdge", "blocker", { type: "blocks", to: "work" });
      },
    ],
    [
      "an unpark",
      async (c) => {
        await parkedNode(c, "work");
        return () => c.graph.do("unparkNode", "work", { reason: "mended" });
      },
    ],
    [
      "a status that opens it again",
      async ({ graph }) => {
        await graph.create({ id: "work", status: "done" });
        return () => graph.do("setNodeStatus", "work", { status: "open" });
      },
    ],
    [
      "a force release",
      async ({ graph }) => {
        await graph.create({ id: "work" });
        await graph.claim("work");
        return () => force(graph.reader, "work");
      },
    ],
  ];
  for (const [what, prepare] of wakers)
    test(`who waits is woken by ${what}`, async () => {
      const own = await crew(server);
      const wake = await prepare(own);
      const since = performance.now();
      const waiting = own.graph.next({ wait_seconds: 30, session: "w" }, own.bob);
      const early = await Promise.race([waiting, own.graph.queue({})]);
      assert.ok("items" in early, "it waits");
      await wake();
      const { node, lease } = await waiting;
      assert.deepEqual([node.id, lease.by, lease.session], ["work", "bob", "w"]);
      assert.ok(performance.now() - since < 15_000, "without polling");
    });

  test("only the type that was asked for; in vain it ends empty in its time", async () => {
    const { graph, bob } = await crew(server);
    const since = performance.now();
    const waiting = graph.next({ wait_seconds: 1, type: "issue" }, bob);
    await graph.create({ id: "task" });
    assert.equal((await waiting).status, "empty");
    assert.ok(performance.now() - since >= 950);
  });
});

/** Ends the lease of a node by force, in the space of that caller's. */
async function force(token: string, id: string): Promise<unknown> {
  const { space } = await ok<{ space: string }>(server, "whoami", { token });
  const headers = { "holdfast-space": space };
  return ok(server, "forceReleaseLock", {
    token: adminToken,
    headers,
    name: `node:${id}`,
    body: { reason: "gone" },
  });
}

/** Work of the type that may be lost once only. */
async function parkedNode({ graph, bob }: Crew, id: string): Promise<void> {
  await graph.create({ id, type: "brief" });
  await graph.claim(id);
  await force(graph.reader, id);
  await graph.claim(id, {}, bob);
  await force(graph.reader, id);
}

describe("work that keeps being lost", () => {
  test("lapses six times, is parked, is listed with its carriers, and is put back by unpark", async () => {
    const own = await crew(server);
    const { graph, ann, bob } = own;
    const { space } = await ok<{ space: string }>(server, "whoami", { token: ann });
    const headers = { "holdfast-space": space };
    // The server's own limit of five, on claims of a second.
    await ok(server, "setPolicy", { token: adminToken, headers, body: { revision: 0, claim_ttl_ms: 1000 } });
    await graph.create({ id: "poison" });
    for (let nth = 1; nth <= 6; nth++) {
      const got = await graph.next({ wait_seconds: 20 }, nth % 2 === 0 ? ann : bob);
      assert.deepEqual([got.node.id, got.lease.token, got.node.reclaims], ["poison", nth, nth - 1]);
    }
    await eventually(async () => assert.ok((await graph.look("poison")).parked));
    assert.equal((await graph.next()).status, "empty");
    assert.deepEqual(ids(await graph.queue({})), []);
    const [item] = (await graph.queue({ parked: "true" })).items;
    assert.equal(item?.parked?.reason, "lost 6 times without a clean release");
    assert.deepEqual(
      item?.parked?.carriers.map(({ by, token }) => `${by} ${token}`),
      ["bob 1", "ann 2", "bob 3", "ann 4", "bob 5", "ann 6"],
    );
    const told = await graph.refused("claimNode", "poison", {}, 409, "not_ready");
    assert.match(told.error.message, /parked since .*lost 6 times.*POST \/v1\/nodes\/poison\/unpark/);
    assert.equal(told.error.details["why"], "parked");
    await graph.refused("unparkNode", "poison", {}, 400, "invalid_input");
    const back = await graph.do("unparkNode", "poison", { reason: "input mended" });
    assert.deepEqual([back.status, back.node.reclaims, back.node.parked], ["unparked", 0, undefined]);
    await graph.refused("unparkNode", "poison", { reason: "again" }, 409, "conflict");
    const got = await graph.next();
    assert.deepEqual([got.node.id, got.lease.token], ["poison", 7]);
    const last = (await graph.history("poison")).filter(
      ({ what }) => what === "unparked" || what === "parked",
    );
    assert.deepEqual(
      last.map(({ what, reason }) => [what, reason]),
      [
        ["parked", "lost 6 times without a clean release"],
        ["unparked", "input mended"],
      ],
    );
  });

  test("a clean release resets the count; a reservation that runs out does not count", async () => {
    const { graph } = await crew(server);
    await graph.create({ id: "n", type: "brief" });
    await graph.claim("n");
    await force(graph.reader, "n");
    assert.equal((await graph.look("n")).reclaims, 1);
    await graph.claim("n");
    await graph.do("releaseNode", "n");
    assert.equal((await graph.look("n")).reclaims, 0);
    await graph.claim("n");
    await graph.do("reserveNode", "n");
    await force(graph.reader, "n");
    assert.equal((await graph.look("n")).reclaims, 0);
  });
});

describe("many at once", () => {
  const bulk = async (
    route: "claimNodes" | "renewNodes" | "releaseNodes",
    body: object,
    token: string,
    key?: string,
  ) =>
    (
      await ok<{ ok: true; results: Result[] }>(server, route, {
        token,
        body,
        ...(key === undefined ? {} : { headers: { "idempotency-key": key } }),
      })
    ).results;
  const brief = ({ id, ok: isOk, status, error, holder }: Result) =>
    [id, isOk, status ?? error?.code, ...(holder === undefined ? [] : [holder.by])].join(" ");

  test("claim, renew and release: each has its own result, in the order asked", async () => {
    const { graph, ann, bob } = await crew(server);
    for (const id of ["a", "b", "c"]) await graph.create({ id });
    await graph.create({ id: "over", status: "done" });
    await graph.claim("b", {}, bob);
    const asked = ["c", "b", "nowhere", "No id", "over", "a", "c"];
    const claimed = await bulk("claimNodes", { ids: asked, session: "s1" }, ann);
    assert.deepEqual(claimed.map(brief), [
      "c true claimed",
      "b false already_claimed bob",
      "nowhere false not_found",
      "No id false invalid_node",
      "over false not_ready",
      "a true claimed",
    ]);
    assert.deepEqual([claimed[0]?.edge, claimed[0]?.lease?.session], ["added", "s1"]);
    const renewed = await bulk("renewNodes", { ids: ["a", "b", "c"], session: "s1" }, ann);
    assert.deepEqual(renewed.map(brief), ["a true renewed", "b false lease_lost bob", "c true renewed"]);
    const foreign = await bulk("renewNodes", { ids: ["a"], session: "s2" }, ann);
    assert.deepEqual(foreign.map(brief), ["a false lease_lost ann"]);
    const released = await bulk("releaseNodes", { ids: ["a", "b"], session: "s1" }, ann);
    assert.deepEqual(released.map(brief), ["a true released", "b false already_claimed bob"]);
    assert.equal((await graph.look("a")).lease, undefined);
    for (const [route, body] of [
      ["claimNodes", {}],
      ["claimNodes", { ids: [] }],
      ["releaseNodes", {}],
      ["claimNodes", { ids: Array.from({ length: 1001 }, (_, i) => `n-${i}`) }],
    ] as const)
      assert.equal((await call(server, route, { token: ann, body })).status, 400);
  });

  test("renew without ids: all of the caller's, but reserved ones and other runs'", async () => {
    const { graph, ann, bob } = await crew(server);
    for (const id of ["mine", "kept", "other-run", "his", "open"]) await graph.create({ id });
    await graph.claim("mine");
    await graph.claim("kept");
    const { lease } = await graph.do("reserveNode", "kept");
    await graph.claim("other-run", { session: "s2" });
    await graph.claim("his", {}, bob);
    assert.deepEqual((await bulk("renewNodes", {}, ann)).map(brief).toSorted(), [
      "mine true renewed",
      "other-run true renewed",
    ]);
    assert.deepEqual((await bulk("renewNodes", { session: "s1" }, ann)).map(brief), ["mine true renewed"]);
    const kept = (await graph.look("kept")).lease;
    assert.deepEqual([kept?.reserved, kept?.expires], [true, lease.expires]);
    const none = await crew(server);
    assert.deepEqual(await bulk("renewNodes", {}, none.ann), []);
  });

  test("a repeated bulk claim finds each as it was granted", async () => {
    const { graph, ann, bob } = await crew(server);
    for (const id of ["a", "b", "late"]) await graph.create({ id });
    await graph.claim("late", {}, bob);
    const asked = { ids: ["a", "b", "late"] };
    const key = fresh("bulk");
    assert.deepEqual((await bulk("claimNodes", asked, ann, key)).map(brief), [
      "a true claimed",
      "b true claimed",
      "late false already_claimed bob",
    ]);
    await graph.do("releaseNode", "b");
    await graph.do("releaseNode", "late", {}, bob);
    const again = await bulk("claimNodes", asked, ann, key);
    // What was granted is the same or over; what was refused may be granted now.
    assert.deepEqual(again.map(brief), ["a true claimed", "b false lease_lost", "late true claimed"]);
    assert.equal(again[0]?.lease?.token, 1);
  });

  test("a hundred in one call, each claimed once", async () => {
    const { graph, ann, bob } = await crew(server);
    const all = Array.from({ length: 100 }, (_, i) => `n-${i}`);
    await Promise.all(all.map((id) => graph.create({ id })));
    const [left, right] = await Promise.all(
      [ann, bob].map((token) => bulk("claimNodes", { ids: all }, token)),
    );
    for (const [i, id] of all.entries())
      assert.equal([left?.[i]?.ok, right?.[i]?.ok].filter(Boolean).length, 1, id);
    const done: Done[] = await Promise.all(
      all.slice(0, 3).map((id) => graph.do("releaseNode", id, {}, left?.[all.indexOf(id)]?.ok ? ann : bob)),
    );
    assert.deepEqual(
      done.map(({ edge }) => edge),
      ["removed", "removed", "removed"],
    );
  });
});
