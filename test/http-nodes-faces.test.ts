// The work graph beside the rest: its leases in the other faces, what spaces and scopes hide, force release, restart,
// the policy in the server's configuration, and the quiet after a restore.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { lasting } from "./engines/store-of.js";
import { type Body, call, ok, refused, type TokenBody } from "./http-api.js";
import {
  crew,
  type Done,
  Graph,
  type Node,
  one,
  type Refusal,
  type Result,
  startGraphServer,
  testPolicy,
  two,
  viewer,
} from "./http-node-api.js";
import { watch } from "./http-stream.js";
import { adminToken, mainFile, type Server, startServer, temporaryDir } from "./server.js";

let server: Server;
const graph = new Graph(() => server);
before(async () => {
  server = await startGraphServer();
});
after(() => server.stop());

describe("in the other faces", () => {
  test("a claim is the lock and the job node:<id>, to be read there and not to be changed", async () => {
    const id = await graph.create();
    const { lease } = await graph.claim(id, { session: "s1" });
    const name = `node:${id}`;
    const lock: Body = await ok(server, "getLock", { token: viewer, name });
    assert.deepEqual(
      [lock.status, lock.holder_id, lock.fencing_token, lock.expires_at],
      ["held", "runner-1", lease.token, lease.expires_at],
    );
    assert.equal((await ok(server, "getJob", { token: viewer, name })).owner, "runner-1");
    const { locks } = await ok(server, "listLocks", { token: viewer, query: { prefix: "node:" } });
    assert.ok(locks.some((each) => each.name === name));
    const { current } = await ok(server, "checkLock", {
      token: two,
      name,
      body: { fencing_token: lease.token },
    });
    assert.equal(current, true);
    for (const [route, body] of [
      ["acquireLock", {}],
      ["releaseLock", { lease_id: "ls_x" }],
      ["claimJob", {}],
      ["heartbeatJob", { lease_id: "ls_x" }],
    ] as const) {
      const told = await refused(server, route, { token: one, name, body }, 403, "forbidden");
      assert.ok(told.details.includes(`POST /v1/nodes/${id}/claim`), told.details);
    }
    const told = await refused(
      server,
      "claimAnyJob",
      { token: one, body: { candidates: [name] } },
      403,
      "forbidden",
    );
    assert.match(told.details, /work graph/);
  });

  test("watch tells of claims and releases of nodes", async () => {
    const id = await graph.create();
    const stream = await watch(server, `/locks/node:${id}/watch`, { token: viewer });
    await stream.synced();
    await graph.claim(id);
    await graph.do("releaseNode", id);
    const seen = (await stream.take(2)).map(({ event, data }) => `${event} ${data.name}`);
    assert.deepEqual(seen, [`acquired node:${id}`, `released node:${id}`]);
    stream.close();
  });

  test("an admin ends a claim by force: the node is free, its edge and history stay", async () => {
    const id = await graph.create();
    await graph.claim(id);
    const name = `node:${id}`;
    const body = { reason: "worker is gone" };
    await refused(server, "forceReleaseLock", { token: two, name, body }, 403, "forbidden");
    assert.equal((await ok(server, "forceReleaseLock", { token: adminToken, name, body })).released, true);
    const node = await graph.look(id);
    assert.deepEqual([node.lease, node.edges[0]?.to, node.reclaims], [undefined, "runner-1", 1]);
    const last = (await graph.history(id)).at(-1);
    assert.deepEqual(
      [last?.what, last?.by, last?.reason, last?.token, last?.from],
      ["forced", "operator", "worker is gone", 1, { by: "runner-1", token: 1 }],
    );
    await graph.refused("renewNode", id, {}, 409, "lease_lost");
    assert.equal((await graph.claim(id, {}, two)).lease.token, 2);
    const { records } = await ok(server, "listAudit", { token: adminToken });
    assert.ok(records.some(({ subject, reason }) => subject === name && reason === "worker is gone"));
  });
});

describe("spaces and scopes", () => {
  test("two people in two spaces see nothing of each other", async () => {
    const [here, there] = [await crew(server), await crew(server)];
    await here.graph.create({ id: "same", title: "here" });
    await there.graph.create({ id: "same", title: "there" });
    await here.graph.create({ id: "only-here" });
    assert.equal((await here.graph.claim("same")).lease.token, 1);
    assert.equal((await there.graph.claim("same")).lease.token, 1);
    assert.equal((await there.graph.look("same")).title, "there");
    await there.graph.refused("claimNode", "only-here", {}, 404, "not_found");
    await there.graph.refused("addEdge", "same", { type: "blocks", to: "only-here" }, 422, "invalid_node");
    const listed = await ok<{ nodes: Node[] }>(server, "listNodes", { token: there.ann });
    assert.deepEqual(
      listed.nodes.map(({ id }) => id),
      ["same"],
    );
    assert.deepEqual(await there.graph.queue({}), { items: [], hidden: 0, next_cursor: null });
    assert.equal((await there.graph.next()).status, "empty");
    assert.deepEqual(
      (await there.graph.queue({ assignee: "ann" })).items.map(({ title }) => title),
      ["there"],
    );
    assert.equal((await here.graph.next({}, here.bob)).node.id, "only-here");
  });

  test("scopes cover node:<id>; what they do not cover is neither shown nor given out nor named", async () => {
    const { graph: all, bob } = await crew(server, ["node:web-*"]);
    for (const id of ["api-1", "web-1", "api-2", "web-2"]) await all.create({ id });
    await all.do("addEdge", "api-1", { type: "blocks", to: "web-2" });
    await all.do("addEdge", "web-1", { type: "relates-to", to: "api-2" });
    const mine = await ok<{ nodes: Node[] }>(server, "listNodes", { token: bob });
    assert.deepEqual(
      mine.nodes.map(({ id }) => id),
      ["web-1", "web-2"],
    );
    assert.deepEqual(mine.nodes[0]?.edges, []);
    assert.deepEqual([mine.nodes[1]?.blocked_by, mine.nodes[1]?.blockers_hidden], [[], 1]);
    assert.ok(!JSON.stringify(mine).includes("api-"));
    const history = await ok(server, "nodeHistory", { token: bob, name: "web-1" });
    assert.ok(!JSON.stringify(history).includes("api-"), JSON.stringify(history));
    const blocked = await all.refused("claimNode", "web-2", {}, 409, "not_ready", bob);
    assert.ok(!JSON.stringify(blocked).includes("api-"), blocked.error.message);
    for (const [route, body] of [
      ["claimNode", {}],
      ["updateNode", { revision: 1 }],
      ["setNodeStatus", { status: "done" }],
      ["addEdge", { type: "assigned", to: "bob" }],
    ] as const)
      await all.refused(route, "api-1", body, 403, "forbidden", bob);
    await all.refused("addEdge", "web-1", { type: "blocks", to: "api-2" }, 403, "forbidden", bob);
    await all.refused("createNode", "", { id: "api-3", type: "task", title: "t" }, 403, "forbidden", bob);
    const { results } = await ok<{ results: Result[] }>(server, "claimNodes", {
      token: bob,
      body: { ids: ["api-1", "web-1"] },
    });
    assert.deepEqual(
      results.map(({ error, status }) => error?.code ?? status),
      ["forbidden", "claimed"],
    );
    await all.do("releaseNode", "web-1", {}, bob);
    assert.equal((await all.next({}, bob)).node.id, "web-1");
    assert.equal((await all.next({}, bob)).status, "empty");
    await all.claim("api-2");
    assert.equal((await all.queue({}, bob)).hidden, 0, "nor counted");
  });

  test("a cursor tells no node that its caller may not see, and leads nowhere else", async () => {
    const { graph: all, ann, bob } = await crew(server, ["node:*-open"]);
    const mine = ["a-open", "c-open", "f-open"];
    for (const id of [...mine, "b-secret", "d-secret", "e-secret"]) await all.create({ id });
    const pages = async (route: "listNodes" | "listQueue", token: string): Promise<[string[], string[]]> => {
      const [seen, cursors]: [string[], string[]] = [[], []];
      for (let cursor = ""; ; ) {
        const query = { limit: "1", cursor };
        const page = await ok<Record<"nodes" | "items", Node[]> & { next_cursor: string | null }>(
          server,
          route,
          {
            token,
            query,
          },
        );
        seen.push(...(page.nodes ?? page.items).map(({ id }) => id));
        if (page.next_cursor === null) return [seen, cursors];
        cursor = page.next_cursor;
        cursors.push(cursor);
      }
    };
    for (const route of ["listNodes", "listQueue"] as const) {
      const [seen, cursors] = await pages(route, bob);
      assert.deepEqual(seen, mine);
      assert.ok(cursors.length >= 2);
      for (const cursor of cursors)
        assert.doesNotMatch(Buffer.from(cursor.replace("~", ""), "base64url").toString("latin1"), /secret/);
      // One of the other list, and one of nobody's: a place in the caller's own list, or nothing.
      const [, others] = await pages(route === "listNodes" ? "listQueue" : "listNodes", ann);
      for (const cursor of others) {
        const { status, text } = await call(server, route, { token: bob, query: { cursor } });
        assert.ok(status === 200 && !text.includes("secret"), text);
      }
    }
  });

  test("a revoked token that waits for work is told, and gets none", async () => {
    const { graph: own } = await crew(server);
    const { space } = await ok<Body>(server, "whoami", { token: own.self });
    const body = { name: "carol", space };
    const { id, token } = await ok<TokenBody>(server, "createToken", { token: adminToken, body });
    const waiting = call<Refusal>(server, "nextWork", { token, body: { wait_seconds: 30 } });
    await ok(server, "whoami", { token });
    await ok(server, "revokeToken", { token: adminToken, name: id, headers: { "holdfast-space": space } });
    const { status, body: told } = await waiting;
    assert.deepEqual([status, told.error.code], [401, "unauthorized"]);
    const node = await own.create();
    assert.equal((await own.look(node)).lease, undefined);
  });
});

describe("what lasts", () => {
  lasting("a restart keeps nodes, edges, claims, history, policy and request ids", async () => {
    let own = await startGraphServer();
    const mine = new Graph(() => own);
    const [a, b] = [await mine.create({ id: "a", priority: "p1" }), await mine.create({ id: "b" })];
    await mine.do("addEdge", a, { type: "blocks", to: b });
    const claimed = await mine.claim(a, { session: "s1", request_id: "k1" });
    await ok(own, "setPolicy", { token: adminToken, body: { revision: 0, reclaims_max: 7, ...testPolicy } });
    const seen = async (): Promise<string> => {
      const views = [
        await mine.look(a),
        await mine.look(b),
        await mine.history(a),
        await ok(own, "getPolicy", { token: viewer }),
      ];
      return JSON.stringify(views, (key, value) => (/^expires|_at$|^at$/.test(key) ? 0 : value));
    };
    const before_ = await seen();
    own.kill("SIGKILL");
    own = await own.restart();
    assert.equal(await seen(), before_);
    const again = await mine.claim(a, { session: "s1", request_id: "k1" });
    assert.deepEqual([again.status, again.lease.token], ["claimed", claimed.lease.token]);
    await mine.refused("renewNode", a, { session: "s2" }, 409, "lease_lost");
    assert.deepEqual((await mine.queue({}, two)).items, []);
    await mine.do("setNodeStatus", a, { status: "done", session: "s1" });
    assert.equal((await mine.next({}, two)).node.id, b);
    await own.stop();
  });

  test("a restored server claims nothing until what was claimed before is over: 409 not_ready", async () => {
    // Only a file is restored by us, whatever the others of this run keep their data in.
    const onFile = (dataDir: string) => ({
      dataDir,
      env: { HOLDFAST_STORE: `sqlite:${join(dataDir, "holdfast.db")}` },
    });
    const own = await startGraphServer(onFile(temporaryDir("holdfast-data-")));
    const mine = new Graph(() => own);
    await mine.create({ id: "held" });
    await mine.create({ id: "free" });
    await mine.claim("held");
    const copy = join(temporaryDir("holdfast-copy-"), "copy.db");
    const response = await fetch(`${own.url}/backup`, { headers: { authorization: `Bearer ${adminToken}` } });
    writeFileSync(copy, Buffer.from(await response.arrayBuffer()));
    await own.stop();
    const dataDir = temporaryDir("holdfast-restored-");
    const restored = spawnSync(process.execPath, [mainFile, "restore", copy, "--data", dataDir], {
      encoding: "utf8",
    });
    assert.equal(restored.status, 0, restored.stderr);
    const back = await startGraphServer(onFile(dataDir));
    const after_ = new Graph(() => back);
    const { status, headers, body } = await call<Refusal>(back, "claimNode", {
      token: two,
      name: "free",
      body: {},
    });
    assert.deepEqual([status, body.error.code, body.error.details["why"]], [409, "not_ready", "restore"]);
    assert.ok(Number(headers["retry-after"]) > 60 && typeof body.error.details["available_at"] === "string");
    await after_.refused("nextWork", "", {}, 409, "not_ready", two);
    assert.equal((await after_.look("held")).lease, undefined);
    await back.stop();
  });
});

describe("the policy file", () => {
  const started = (text: string): Promise<string> => {
    const file = join(temporaryDir("holdfast-policy-"), "policy.json");
    writeFileSync(file, text);
    return startServer({ env: { HOLDFAST_POLICY_FILE: file } }).then(
      async (running) => {
        await running.stop();
        return "started";
      },
      (error: Error) => error.message,
    );
  };

  test("is a document over the defaults", async () => {
    const file = join(temporaryDir("holdfast-policy-"), "policy.json");
    writeFileSync(file, JSON.stringify({ claim_ttl_ms: 60_000 }));
    await using own = await startServer({ env: { HOLDFAST_POLICY_FILE: file } });
    const policy = await ok<{ claim_ttl_ms: number; reclaims_max: number; types: object }>(own, "getPolicy", {
      token: one,
    });
    assert.deepEqual([policy.claim_ttl_ms, policy.reclaims_max], [60_000, 5]);
    assert.deepEqual(Object.keys(policy.types), ["task", "issue", "question"]);
    const mine = new Graph(() => own);
    const claimed: Done = await mine.claim(await mine.create());
    assert.equal(claimed.lease.expires_in_ms, 60_000);
  });

  const wrong: readonly (readonly [string, RegExp])[] = [
    ["{", /policy\.json is not JSON/],
    ["[]", /policy\.json: the document must be an object/],
    ['{"claim_ttl":1}', /claim_ttl is unknown, did you mean claim_ttl_ms\?/],
    ['{"claim_ttl_ms":"1h"}', /claim_ttl_ms must be a whole number from 1000 to 604800000/],
    ['{"types":{"Task":{"statuses":{"open":"planned"}}}}', /types\.Task is no name/],
    [
      '{"types":{"task":{"statuses":{"open":"begun"}}}}',
      /types\.task\.statuses\.open must be one of planned, active, terminal/,
    ],
    ['{"types":{"task":{}}}', /types\.task\.statuses must be an object/],
    ['{"types":{"task":{"statuses":{"on":"active"}}}}', /needs a planned one/],
    ['{"claim_ttl_ms":60000,"claim_ttl_max_ms":30000}', /claim_ttl_ms \(60000\) is above/],
  ];
  test("that is wrong stops the start, naming file and key", async () => {
    for (const [text, message] of wrong) {
      const told = await started(text);
      assert.match(told, message);
      assert.match(told, /HOLDFAST_POLICY_FILE=/);
    }
    const missing = startServer({ env: { HOLDFAST_POLICY_FILE: "/nowhere/policy.json" } });
    await assert.rejects(missing, /HOLDFAST_POLICY_FILE=\/nowhere\/policy\.json cannot be read/);
  });
});
