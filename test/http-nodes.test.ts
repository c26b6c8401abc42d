// Nodes as such: create, read, change, list, edges between them, their history, and the policy of their space.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { call, fresh, ok } from "./http-api.js";
import { Graph, type Node, one, startGraphServer, testPolicy, two, viewer } from "./http-node-api.js";
import { adminToken, type Server } from "./server.js";

let server: Server;
const graph = new Graph(() => server);
before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

describe("create and read", () => {
  test("answers 201 with all that was said, and what follows from it", async () => {
    const id = fresh("task-api");
    const said = { id, type: "task", title: "Rate limits 🚦", summary: "s", priority: "p1", project: "api" };
    const { status, body } = await call<Node>(server, "createNode", { token: one, body: said });
    assert.equal(status, 201);
    const { created_at, updated_at, ...rest } = body;
    assert.deepEqual(rest, { ...said, status: "open", revision: 1, edges: [], blocked_by: [], reclaims: 0 });
    assert.equal(created_at, updated_at);
    assert.deepEqual(await graph.look(id), body);
    assert.deepEqual(await graph.story(id), ["runner-1 created"]);
  });

  test("what is left out is not there", async () => {
    const node = await graph.look(await graph.create());
    for (const field of ["summary", "priority", "project", "lease", "parked"])
      assert.equal(field in node, false, field);
  });

  test("a record of what is over already may be made; work in progress may not", async () => {
    assert.equal((await graph.look(await graph.create({ status: "done" }))).status, "done");
    assert.equal((await graph.look(await graph.create({ type: "note" }))).status, "kept");
    const active = { id: fresh("node"), type: "task", title: "t", status: "active" };
    const told = await graph.refused("createNode", "", active, 422, "invalid_node");
    assert.match(told.error.message, /cannot be active.*then claim it/);
  });

  test("an id in use is 409, and the node stays as it is", async () => {
    const id = await graph.create({ title: "first" });
    const told = await graph.refused(
      "createNode",
      "",
      { id, type: "task", title: "second" },
      409,
      "conflict",
      two,
    );
    assert.ok(told.error.message.includes(id), told.error.message);
    assert.equal((await graph.look(id)).title, "first");
  });

  const wrong: readonly (readonly [string, object, RegExp])[] = [
    ["an id with capitals", { id: "Task" }, /no node's id/],
    ["an id that begins with -", { id: "-a" }, /no node's id/],
    ["an id with a dot", { id: "a.b" }, /no node's id/],
    ["an empty id", { id: "" }, /^id /],
    ["a long id", { id: "a".repeat(129) }, /^id /],
    ["an id that is a number", { id: 5 }, /^id must be a string/],
    ["no id", { id: undefined }, /^id is missing/],
    ["no title", { title: undefined }, /^title is missing/],
    ["an empty title", { title: "" }, /^title /],
    ["a long title", { title: "é".repeat(257) }, /^title /],
    ["a long summary", { summary: "s".repeat(4097) }, /^summary /],
    ["a long project", { project: "p".repeat(129) }, /^project /],
    ["an unknown type", { type: "tsk" }, /no type tsk, did you mean task\?/],
    ["no type", { type: undefined }, /^type is missing/],
    ["a type that is no object's own", { type: "constructor" }, /no type constructor/],
    ["an unknown status", { status: "opne" }, /no status opne.*did you mean open\?/],
    ["a status of another type", { status: "resolved" }, /no status resolved/],
    ["an unknown priority", { priority: "p0" }, /^priority must be one of p1, p2, p3/],
  ];
  for (const [what, change, message] of wrong)
    test(`${what} is 422 invalid_node`, async () => {
      const body = { id: fresh("node"), type: "task", title: "t", ...change };
      const told = await graph.refused("createNode", "", body, 422, "invalid_node");
      assert.match(told.error.message, message);
    });

  test("the longest of everything fits", async () => {
    const long = { title: "😀".repeat(256), summary: "é".repeat(4096), project: "p".repeat(128) };
    const id = await graph.create({ id: "z".repeat(128), ...long });
    const { title, summary, project } = await graph.look(id);
    assert.deepEqual({ title, summary, project }, long);
    assert.equal((await graph.claim(id)).lease.node_id, id);
  });

  test("an unknown node is 404 on every route that names one", async () => {
    const rows = [
      ["getNode", undefined],
      ["nodeHistory", undefined],
      ["updateNode", { revision: 1 }],
      ["addEdge", { type: "assigned", to: "runner-1" }],
      ["removeEdge", { type: "assigned", to: "runner-1" }],
      ["claimNode", {}],
      ["renewNode", {}],
      ["extendNode", { ms: 1 }],
      ["reserveNode", {}],
      ["releaseNode", {}],
      ["setNodeStatus", { status: "done" }],
      ["unparkNode", { reason: "r" }],
    ] as const;
    for (const [route, body] of rows)
      for (const [name, status, code] of [
        ["nowhere", 404, "not_found"],
        ["No-id", 422, "invalid_node"],
      ] as const) {
        const options = { token: one, name, ...(body === undefined ? {} : { body }) };
        const answered = await call(server, route, options);
        assert.deepEqual(
          [answered.status, answered.text.includes(`"${code}"`)],
          [status, true],
          answered.text,
        );
      }
  });
});

describe("change", () => {
  test("with the revision that was read; what is left out stays, null removes", async () => {
    const id = await graph.create({ summary: "s", priority: "p3", project: "p" });
    const changed = await graph.do<Node>("updateNode", id, {
      revision: 1,
      title: "new",
      summary: null,
      priority: "p1",
    });
    assert.deepEqual(
      [changed.title, "summary" in changed, changed.priority, changed.project, changed.revision],
      ["new", false, "p1", "p", 2],
    );
    assert.deepEqual(await graph.look(id), changed);
  });

  test("another revision is 409 with the current one, and changes nothing", async () => {
    const id = await graph.create();
    await graph.do("updateNode", id, { revision: 1, title: "second" });
    const told = await graph.refused("updateNode", id, { revision: 1, title: "third" }, 409, "conflict", two);
    assert.equal(told.error.details["revision"], 2);
    assert.equal((await graph.look(id)).title, "second");
  });

  test("while somebody is on it: the lease stays, and shows", async () => {
    const id = await graph.create();
    const { lease } = await graph.claim(id);
    const changed = await graph.do<Node>("updateNode", id, { revision: 2, title: "t2" }, two);
    assert.deepEqual([changed.lease?.token, changed.lease?.by], [lease.token, "runner-1"]);
  });

  test("the status has its own route, and the message says so", async () => {
    const id = await graph.create();
    const told = await graph.refused("updateNode", id, { revision: 1, status: "done" }, 400, "invalid_input");
    assert.match(told.error.message, /POST \/v1\/nodes\/\{id\}\/status/);
    await graph.refused("updateNode", id, { revision: "1" }, 400, "invalid_input");
    await graph.refused("updateNode", id, { revision: 1, priority: "high" }, 422, "invalid_node");
  });
});

describe("list", () => {
  const list = (query: Record<string, string>) =>
    ok<{ nodes: Node[]; next_cursor: string | null }>(server, "listNodes", { token: viewer, query });

  test("by id, filtered, a page at a time", async () => {
    const prefix = fresh("list");
    const ids = Array.from({ length: 7 }, (_, i) => `${prefix}-${i}`);
    for (const [i, id] of ids.entries())
      await graph.create({
        id,
        type: i % 2 === 0 ? "task" : "issue",
        ...(i === 4 ? { status: "done" } : {}),
      });
    await graph.claim(`${prefix}-2`);
    const seen: string[] = [];
    for (let cursor = ""; ; ) {
      const page = await list({ prefix, limit: "3", cursor });
      seen.push(...page.nodes.map(({ id }) => id));
      if (page.next_cursor === null) break;
      cursor = page.next_cursor;
    }
    assert.deepEqual(seen, ids);
    const of = async (query: Record<string, string>) =>
      (await list({ prefix, ...query })).nodes.map(({ id }) => Number(id.slice(prefix.length + 1)));
    assert.deepEqual(await of({ type: "issue" }), [1, 3, 5]);
    assert.deepEqual(await of({ type: "task", status: "open" }), [0, 2, 6]);
    assert.deepEqual(await of({ status: "done" }), [4]);
    assert.deepEqual(await of({ type: "note" }), []);
    const [third] = (await list({ prefix: `${prefix}-2` })).nodes;
    assert.equal(third?.lease?.by, "runner-1");
  });
});

describe("large nodes", () => {
  test("make short pages, and none is left out", async () => {
    const prefix = fresh("large");
    const ids = Array.from({ length: 300 }, (_, i) => `${prefix}-${String(i).padStart(3, "0")}`);
    await Promise.all(ids.map((id) => graph.create({ id, summary: "s".repeat(4096) })));
    const sizes: number[] = [];
    const seen: string[] = [];
    for (let cursor = ""; ; ) {
      const query = { prefix, limit: "1000", cursor };
      const page = await ok<{ nodes: Node[]; next_cursor: string | null }>(server, "listNodes", {
        token: one,
        query,
      });
      seen.push(...page.nodes.map(({ id }) => id));
      sizes.push(page.nodes.length);
      if (page.next_cursor === null) break;
      cursor = page.next_cursor;
    }
    assert.deepEqual(seen, ids);
    assert.ok(sizes.length === 2 && (sizes[0] ?? 0) < 260, sizes.join(" "));
  });
});

describe("edges", () => {
  const add = (id: string, type: string, to: string) =>
    graph.do<{ edge: string; node: Node }>("addEdge", id, { type, to });

  test("stand on the source, with who and when; a second time changes nothing", async () => {
    const [a, b] = [await graph.create(), await graph.create()];
    for (const type of ["resolves", "relates-to", "blocks"]) {
      const { edge, node } = await add(a, type, b);
      const last = node.edges.at(-1);
      assert.deepEqual([edge, last?.type, last?.to, last?.by], ["added", type, b, "runner-1"]);
      assert.ok(Math.abs(Date.parse(last?.at ?? "") - Date.now()) < 60_000);
    }
    const { revision } = await graph.look(a);
    assert.equal((await add(a, "blocks", b)).edge, "kept");
    assert.equal((await graph.look(a)).revision, revision);
    assert.deepEqual((await graph.look(b)).edges, []);
    assert.deepEqual((await graph.look(b)).blocked_by, [a]);
  });

  test("are removed by body or query; there being none is fine", async () => {
    const [a, b] = [await graph.create(), await graph.create()];
    const edge = { type: "blocks", to: b };
    await add(a, "blocks", b);
    const removed = await graph.do<{ edge: string; node: Node }>("removeEdge", a, edge);
    assert.deepEqual([removed.edge, removed.node.edges], ["removed", []]);
    assert.deepEqual((await graph.look(b)).blocked_by, []);
    await add(a, "blocks", b);
    const inQuery = await ok<Done>(server, "removeEdge", { token: one, name: a, query: edge });
    assert.equal(inQuery.edge, "removed");
    assert.equal(
      (await ok<Done>(server, "removeEdge", { token: one, name: a, query: edge })).edge,
      "skipped",
    );
    const mixed = await ok<Done>(server, "removeEdge", {
      token: one,
      name: a,
      query: { to: b },
      body: { type: "blocks" },
    });
    assert.equal(mixed.edge, "skipped");
    const { status, text } = await call(server, "removeEdge", {
      token: one,
      name: a,
      query: edge,
      body: { to: a },
    });
    assert.equal(status, 400, text);
    await graph.refused("removeEdge", a, {}, 422, "invalid_node");
    await graph.refused("removeEdge", a, { type: "blocks" }, 422, "invalid_node");
    assert.equal(
      (await call(server, "removeEdge", { token: one, name: a, query: { type: "x", to: b } })).status,
      422,
    );
    assert.deepEqual(
      (await graph.story(a)).slice(1),
      ["added", "removed", "added", "removed"].map((what) => `runner-1 edge_${what}`),
    );
  });
  type Done = { edge: string };

  test("to nothing, to itself, of no type: 422; a circle of blocks: 409 with the way round", async () => {
    const [a, b, c] = [await graph.create(), await graph.create(), await graph.create()];
    await graph.refused("addEdge", a, { type: "blocks", to: "nowhere" }, 422, "invalid_node");
    await graph.refused("addEdge", a, { type: "blocks", to: a }, 422, "invalid_node");
    await graph.refused("addEdge", a, { type: "block", to: b }, 422, "invalid_node");
    await graph.refused("addEdge", a, { type: "blocks", to: "No id" }, 422, "invalid_node");
    await graph.refused("addEdge", a, { type: "assigned", to: "no/principal" }, 422, "invalid_node");
    await graph.refused("addEdge", a, { type: "blocks" }, 422, "invalid_node");
    await add(a, "blocks", b);
    await add(b, "blocks", c);
    const told = await graph.refused("addEdge", c, { type: "blocks", to: a }, 409, "conflict");
    assert.deepEqual(told.error.details["path"], [c, a, b, c]);
    assert.deepEqual((await graph.look(a)).blocked_by, []);
    // Only blocks must not go round.
    assert.equal((await add(c, "relates-to", a)).edge, "added");
  });

  test("assigned by hand: one at a time, and never beside a lease", async () => {
    const id = await graph.create();
    assert.equal((await add(id, "assigned", "runner-2")).edge, "added");
    const told = await graph.refused("addEdge", id, { type: "assigned", to: "runner-1" }, 409, "conflict");
    assert.match(told.error.message, /assigned to runner-2/);
    const { lease } = await graph.claim(id);
    const held = await graph.refused(
      "addEdge",
      id,
      { type: "assigned", to: "runner-2" },
      409,
      "already_claimed",
    );
    assert.equal(held.holder?.token, lease.token);
    await graph.refused("removeEdge", id, { type: "assigned", to: "runner-1" }, 409, "already_claimed");
  });

  test("at most 100 on a node, and 100 blockers", async () => {
    const [hub, ...spokes] = await Promise.all(Array.from({ length: 102 }, () => graph.create()));
    assert.ok(hub);
    for (const to of spokes.slice(0, 100)) await add(hub, "relates-to", to);
    const full = await graph.refused(
      "addEdge",
      hub,
      { type: "relates-to", to: spokes[100] },
      409,
      "conflict",
    );
    assert.match(full.error.message, /100/);
    const target = await graph.create();
    for (const from of spokes.slice(0, 100)) await add(from, "blocks", target);
    assert.equal((await graph.look(target)).blocked_by.length, 100);
    await graph.refused("addEdge", spokes[100] ?? "", { type: "blocks", to: target }, 409, "conflict");
    assert.deepEqual((await graph.look(spokes[100] ?? "")).edges, []);
  });
});

describe("history", () => {
  test("by pages, oldest first, without heartbeats", async () => {
    const id = await graph.create();
    await graph.claim(id, { session: "s1" });
    for (let i = 0; i < 5; i++) await graph.do("renewNode", id);
    await graph.do("setNodeStatus", id, { status: "active", reason: "begun" });
    await graph.do("releaseNode", id);
    const whole = await graph.history(id);
    assert.deepEqual(
      whole.map(({ seq, what, by, token }) => [seq, what, by, token]),
      [
        [1, "created", "runner-1", null],
        [2, "claimed", "runner-1", 1],
        [3, "status", "runner-1", 1],
        [4, "released", "runner-1", 1],
      ],
    );
    assert.deepEqual(
      [whole[1]?.session, whole[2]?.status, whole[2]?.reason],
      ["s1", { from: "open", to: "active" }, "begun"],
    );
    const page = (query: Record<string, string>) =>
      ok<{ history: { seq: number }[]; next_after: number | null }>(server, "nodeHistory", {
        token: viewer,
        name: id,
        query,
      });
    const first = await page({ limit: "3" });
    assert.deepEqual([first.history.map(({ seq }) => seq), first.next_after], [[1, 2, 3], 3]);
    const second = await page({ after: "3", limit: "3" });
    assert.deepEqual([second.history.map(({ seq }) => seq), second.next_after], [[4], null]);
    assert.deepEqual((await page({ after: "99" })).history, []);
    assert.equal(
      (await call(server, "nodeHistory", { token: viewer, name: id, query: { after: "-1" } })).status,
      400,
    );
  });
});

describe("policy", () => {
  type Policy = { revision: number; claim_ttl_ms: number; types: Record<string, object> };
  const space = { "holdfast-space": "policy" };
  const set = (body: object, headers: Record<string, string> = space) =>
    call<Policy>(server, "setPolicy", { token: adminToken, body, headers });
  const get = () => ok<Policy>(server, "getPolicy", { token: adminToken, headers: space });

  test("begins with the server's configuration, is set with its revision, and counts at once", async () => {
    const first = await get();
    assert.deepEqual([first.revision, first.claim_ttl_ms], [0, 2_700_000]);
    assert.deepEqual(first.types, testPolicy.types);
    const types = { chore: { statuses: { todo: "planned", done: "terminal" }, claim_ttl_ms: 5000 } };
    const second = (await set({ revision: 0, claim_ttl_ms: 60_000, types })).body;
    assert.deepEqual([second.revision, second.claim_ttl_ms, second.types], [1, 60_000, types]);
    assert.deepEqual(await get(), second);
    const id = fresh("chore");
    const as = { token: adminToken, headers: space };
    await ok(server, "createNode", { ...as, body: { id, type: "chore", title: "t" } });
    const claimed = await ok<{ lease: { expires_in_ms: number } }>(server, "claimNode", { ...as, name: id });
    assert.equal(claimed.lease.expires_in_ms, 5000);
    assert.equal((await ok<Policy>(server, "getPolicy", { token: one })).revision, 0);
    // What is sent as it was read stays as it is.
    assert.deepEqual((await set(second)).body, { ...second, revision: 2 });
    assert.equal((await set({ revision: 2 })).body.claim_ttl_ms, 2_700_000);
  });

  test("another revision is 409, and what cannot be is 400, naming the key", async () => {
    const before_ = await get();
    const { revision } = before_;
    const stale = await set({ revision: revision + 1, claim_ttl_ms: 5000 });
    assert.deepEqual(
      [stale.status, (stale.body as never as { error: { details: object } }).error.details],
      [409, { revision, request_id: stale.headers["x-request-id"] }],
    );
    const bad: readonly (readonly [object, RegExp])[] = [
      [{ claim_ttl: 5000 }, /did you mean claim_ttl_ms/],
      [{ claim_ttl_ms: 999 }, /claim_ttl_ms must be at least 1000/],
      [{ claim_ttl_ms: "5000" }, /claim_ttl_ms must be a whole number/],
      [{ claim_ttl_max_ms: 604_800_001 }, /claim_ttl_max_ms must be at most/],
      [{ reclaims_max: -1 }, /reclaims_max must be at least 0/],
      [{ claim_ttl_ms: 600_000, claim_ttl_max_ms: 300_000 }, /claim_ttl_ms .*above claim_ttl_max_ms/],
      [{ types: {} }, /types/],
      [{ types: { Task: { statuses: { open: "planned" } } } }, /types/],
      [{ types: { task: { statuses: { open: "begun" } } } }, /must be one of planned, active, terminal/],
      [{ types: { task: { statuses: { on: "active" } } } }, /needs a planned one/],
      [
        { types: { task: { statuses: { open: "planned" }, color: 1 } } },
        /Unknown field "color" in types.task/,
      ],
    ];
    for (const [change, message] of bad) {
      const { status, text } = await set({ revision, ...change });
      assert.equal(status, 400, text);
      assert.match(JSON.parse(text).error.message, message);
    }
    assert.deepEqual(await get(), before_);
  });
});
