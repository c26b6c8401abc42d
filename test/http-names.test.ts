// Names in paths and bodies: the longest ones on every route that takes one, each way of writing them, and all that
// must be refused, on every route alike.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { RouteId } from "../src/wire/routes.js";
import {
  assertError,
  assertReply,
  type Body,
  call,
  fresh,
  leaseTable,
  nodeTable,
  ok,
  pathOf,
  refused,
  routeOf,
  send,
  table,
} from "./http-api.js";
import { type Done, Graph, type Node, one, type Result, startGraphServer, two } from "./http-node-api.js";
import { told, watch } from "./http-stream.js";
import { adminToken, type Server } from "./server.js";

let server: Server;

before(async () => {
  server = await startGraphServer();
});
after(async () => {
  await server.stop();
  assert.ok(!server.stderr().includes('"level":50'), server.stderr());
});

/** Every byte as %XX, however harmless. */
const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");

const longNames: readonly (readonly [string, string, (name: string) => string])[] = [
  ["plain", "Az09._:/@+-".padEnd(256, "n"), encodeURIComponent],
  ["plain, as it stands but for the slash", "b:c@d+".padEnd(256, "m"), (name) => name.replaceAll("/", "%2F")],
  ["plain, every byte encoded", "p/q/".padEnd(256, "r"), percent],
  ["a path of two-byte letters", `path:${"é".repeat(120)}/${"x".repeat(10)}`, encodeURIComponent],
  ["a path of emoji, every byte encoded", `path:${"🙂".repeat(62)}/ab`, percent],
  [
    "a path with all sorts of characters",
    `path:app/[slug]/(a)/page 1;x=%2F&?#"'<>|\\^\`{}~!$*,=.tsx`.padEnd(256, "é").slice(0, 150),
    encodeURIComponent,
  ],
  ["deep", `path:${"a/".repeat(125)}z`, encodeURIComponent],
];

describe("the longest names", () => {
  for (const [what, name, encode] of longNames)
    test(`${what}: every route that takes a name`, async () => {
      assert.ok(
        Buffer.byteLength(name) <= 256 && Buffer.byteLength(name) > 150,
        String(Buffer.byteLength(name)),
      );
      const used = new Set<RouteId>();
      const at = async (id: RouteId, token: string, body?: object): Promise<Body> => {
        used.add(id);
        return ok(server, id, { token, rawName: encode(name), ...(body === undefined ? {} : { body }) });
      };
      const stream = await watch(server, `/locks/${encode(name)}/watch`, { token: one });
      used.add("watchLock");
      await stream.synced();
      const { lease_id, name: stored, fencing_token } = await at("acquireLock", one, {});
      assert.equal(stored, name);
      await at("renewLock", one, { lease_id });
      await at("extendLock", one, { lease_id, ttl_seconds: 90 });
      assert.equal((await at("getLock", one)).name, name);
      assert.equal((await at("checkLock", one, { fencing_token })).current, true);
      for (const id of ["listLocks", "listJobs"] as const) {
        const page = await ok(server, id, { token: one, query: { prefix: name, limit: "1" } });
        assert.equal((page.locks ?? page.jobs).length, 1);
        used.add(id);
      }
      const below = await watch(server, `/watch?prefix=${encodeURIComponent(name)}`, { token: one });
      assert.deepEqual(told(await below.synced()), [`snapshot ${name} ${fencing_token}`]);
      used.add("watchLocks");
      below.close();
      await at("releaseLock", one, { lease_id });
      const job = await at("claimJob", two, {});
      await at("heartbeatJob", two, { lease_id: job.lease_id });
      const leases = [{ job_id: name, lease_id: job.lease_id }];
      assert.equal(
        (await ok(server, "heartbeatJobs", { token: two, body: { leases } })).renewed[0]?.job_id,
        name,
      );
      used.add("heartbeatJobs");
      assert.equal((await at("getJob", one)).owner, "runner-2");
      await at("releaseJob", two, { lease_id: job.lease_id });
      const among = await ok(server, "claimAnyJob", { token: one, body: { candidates: [name] } });
      assert.equal(among.job_id, name);
      used.add("claimAnyJob");
      assert.equal((await at("forceReleaseLock", adminToken, { reason: "r" })).released, true);
      const frames = await stream.take(9);
      assert.ok(frames.every(({ data }) => data.name === name));
      stream.close();
      assert.deepEqual(
        [...used].toSorted(),
        // Ids of nodes are shorter and have letters of their own: those routes have their rows below.
        leaseTable
          .filter(({ names }) => names !== "none")
          .map(({ id }) => id)
          .toSorted(),
      );
    });
});

const longIds: readonly (readonly [string, string, (id: string) => string])[] = [
  ["letters", "a".repeat(128), encodeURIComponent],
  ["digits", "0123456789".repeat(13).slice(0, 128), encodeURIComponent],
  ["hyphens but for the first", "z".padEnd(128, "-"), encodeURIComponent],
  ["every byte encoded", "task-9-".padEnd(128, "x"), percent],
];

describe("the longest ids of nodes", () => {
  for (const [what, id, encode] of longIds)
    test(`${what}: every route that takes an id`, async () => {
      assert.equal(id.length, 128);
      const used = new Set<RouteId>();
      const at = async <B = Done>(route: RouteId, body?: object): Promise<B> => {
        used.add(route);
        return ok<B>(server, route, {
          token: one,
          rawName: encode(id),
          ...(body === undefined ? {} : { body }),
        });
      };
      const many = async (route: RouteId): Promise<(string | boolean | undefined)[][]> =>
        (await at<{ results: Result[] }>(route, { ids: [id] })).results.map((each) => [
          each.id,
          each.ok,
          each.status,
        ]);
      // Work of this type is parked once it was lost twice.
      assert.equal((await at<Node>("createNode", { id, type: "brief", title: "t" })).id, id);
      const { revision } = await at<Node>("getNode");
      assert.equal((await at<Node>("updateNode", { revision, title: "u" })).id, id);
      const blocked = await new Graph(() => server).create();
      const edge = { type: "blocks", to: blocked };
      await at("addEdge", edge);
      assert.deepEqual((await ok<Node>(server, "getNode", { token: one, name: blocked })).blocked_by, [id]);
      await at("removeEdge", edge);
      const back = { type: "relates-to", to: id };
      await ok(server, "addEdge", { token: one, name: blocked, body: back });
      assert.equal((await at("claimNode", {})).lease.node_id, id);
      assert.equal((await at("extendNode", { ms: 30_000 })).lease.node_id, id);
      assert.equal((await at("renewNode", {})).lease.node_id, id);
      const held = await ok(server, "listLocks", { token: one, query: { prefix: `node:${id}` } });
      assert.deepEqual(
        held.locks.map(({ name }) => name),
        [`node:${id}`],
      );
      assert.equal((await at("reserveNode", {})).lease.node_id, id);
      assert.equal((await at("releaseNode", {})).node_id, id);
      assert.deepEqual(await many("claimNodes"), [[id, true, "claimed"]]);
      assert.deepEqual(await many("renewNodes"), [[id, true, "renewed"]]);
      assert.deepEqual(await many("releaseNodes"), [[id, true, "released"]]);
      for (let lost = 0; lost < 2; lost += 1) {
        await at("claimNode", {});
        const forced = { token: adminToken, name: `node:${id}`, body: { reason: "r" } };
        assert.equal((await ok(server, "forceReleaseLock", forced)).released, true);
      }
      assert.equal((await at<{ status: string }>("unparkNode", { reason: "r" })).status, "unparked");
      const listed = await ok<{ nodes: Node[] }>(server, "listNodes", { token: one, query: { prefix: id } });
      assert.deepEqual(
        listed.nodes.map((node) => node.id),
        [id],
      );
      assert.equal((await at<{ id: string }>("setNodeStatus", { status: "done" })).id, id);
      assert.equal((await at<{ history: { what: string }[] }>("nodeHistory")).history.at(-1)?.what, "status");
      assert.deepEqual(
        [...used].toSorted(),
        nodeTable
          .filter(({ names }) => names === "node" || names === "nodes")
          .map(({ id: route }) => route)
          .toSorted(),
      );
    });
});

/** As they stand in the path, with the reason to refuse them. */
const badNames: readonly (readonly [string, string])[] = [
  ["invalid!@name", "characters"],
  ["", "empty"],
  [".", "a dot segment"],
  ["..", "two dots"],
  ["%2e%2e", "two dots, encoded"],
  ["a%2F..%2Fb", "two dots within"],
  ["a%2F.%2Fb", "a dot within"],
  ["a%2F%2Fb", "an empty segment"],
  ["%2Fa", "a leading slash"],
  ["a%2F", "a trailing slash"],
  ["a%20b", "a space"],
  ["*", "a star"],
  ["a%252Fb", "what is encoded twice is decoded once"],
  ["caf%C3%A9", "beyond ASCII"],
  ["a%00b", "NUL"],
  ["a%0Ab", "a line feed"],
  ["a%7Fb", "DEL"],
  ["a".repeat(257), "257 bytes"],
  ["a".repeat(9000), "9,000 bytes"],
  ["path:", "an empty path"],
  ["path:.", "a path of nothing"],
  ["path:%2Fetc%2Fpasswd", "an absolute path"],
  ["path:..", "above the repository"],
  ["path:a%2F..%2Fb", "up and down"],
  ["path:a%00b", "NUL in a path"],
  ["path:a%0Db", "a carriage return in a path"],
  ["path:a%C2%85b", "a C1 control in a path"],
  ["path:a%E2%80%AEb", "a bidi override"],
  ["path:a%E2%81%A6b", "a bidi isolate"],
  ["path:a%E2%80%8Bb", "a zero-width space"],
  ["path:a%E2%80%8Db", "a zero-width joiner"],
  ["path:a%EF%BB%BFb", "a byte order mark"],
  ["path:a%C2%ADb", "a soft hyphen"],
  ["path:a%E2%80%A8b", "a line separator"],
  ["path:a%ED%A0%80b", "half a surrogate pair"],
  ["path:a%C3%28", "broken UTF-8"],
  ["path:%FF", "no UTF-8"],
  ["path:%C0%AF", "an overlong slash"],
  ["a%ZZ", "broken encoding"],
  ["a%", "a lone percent sign"],
  ["a%2", "half an encoding"],
  [`path:${percent("é".repeat(126))}`, "257 bytes of two-byte letters"],
];

/** A body that the route would take, so that only the name can be what is wrong. */
const bodies: Partial<Record<RouteId, object>> = {
  renewLock: { lease_id: "ls_x" },
  extendLock: { lease_id: "ls_x", ttl_seconds: 5 },
  releaseLock: { lease_id: "ls_x" },
  checkLock: { fencing_token: 1 },
  forceReleaseLock: { reason: "r" },
  heartbeatJob: { lease_id: "ls_x" },
  releaseJob: { lease_id: "ls_x" },
};

describe("names that are refused", () => {
  for (const route of table.filter(({ names }) => names === "path"))
    test(`${route.id}: 400 invalid_lock_name for each`, async () => {
      for (const [rawName, why] of badNames) {
        // An empty last segment is the list's own path with a slash behind; both are refused.
        const body = bodies[route.id];
        const options = { token: adminToken, rawName, ...(body === undefined ? {} : { body }) };
        const answered = await send(server, route.method, pathOf(route, options), options);
        assert.deepEqual(
          [answered.status, answered.body.code],
          [400, "invalid_lock_name"],
          `${why}: ${answered.text}`,
        );
        assertReply(routeOf(route.id), answered);
      }
    });

  test("in bodies: candidates and leases", async () => {
    for (const [rawName, why] of badNames) {
      let name: string;
      try {
        name = decodeURIComponent(rawName);
      } catch {
        continue;
      }
      const candidates = await call(server, "claimAnyJob", {
        token: one,
        body: { candidates: ["fine", name] },
      });
      const leases = await call(server, "heartbeatJobs", {
        token: one,
        body: { leases: [{ job_id: name, lease_id: "x" }] },
      });
      for (const { status, body } of [candidates, leases])
        assert.ok(
          [400, 422].includes(status) && ["invalid_lock_name", "invalid_input"].includes(body.code),
          `${why}: ${status}`,
        );
    }
    assert.equal((await ok(server, "getJob", { token: one, name: "fine" })).claimed, false);
    for (const text of [
      '{"candidates":["path:\\ud800"]}',
      '{"candidates":["path:a\\u0000"]}',
      '{"candidates":["path:\\u202ea"]}',
    ]) {
      const answered = await send(server, "POST", "/jobs/claim", {
        token: one,
        text,
        headers: { "content-type": "application/json" },
      });
      assert.equal(answered.status, 400);
      assertError(answered);
    }
  });

  test("a name in a message cannot act on a terminal", async () => {
    const told = await refused(
      server,
      "getLock",
      { token: one, rawName: "a%1B%5B31mred" },
      400,
      "invalid_lock_name",
    );
    assert.ok(!told.details.includes("\u001b"));
    const long = await refused(
      server,
      "getLock",
      { token: one, rawName: "x".repeat(8000) },
      400,
      "invalid_lock_name",
    );
    assert.ok(long.details.length < 300);
  });

  test("nothing was stored by any of it", async () => {
    for (const id of ["listLocks", "listJobs"] as const) {
      const page = await ok(server, id, { token: one, query: { limit: "1000" } });
      assert.deepEqual(page.locks ?? page.jobs, []);
    }
  });
});

describe("one name, however it is written", () => {
  test("paths are normalised: no ./, no //, no trailing /, NFC", async () => {
    const stem = fresh("norm");
    const spellings: readonly string[] = [
      `path:${stem}/caf\u00e9/a.ts`,
      `path:${stem}/cafe\u0301/a.ts`,
      `path:./${stem}//caf\u00e9/./a.ts/`,
      `path:${stem}/cafe\u0301//a.ts`,
    ];
    const stored = spellings[0];
    for (const name of spellings) {
      const lease = await ok(server, "acquireLock", { token: one, name, body: {} });
      assert.deepEqual([lease.status, lease.name], ["acquired", stored]);
      for (const other of spellings) {
        const held = await ok(server, "acquireLock", { token: two, name: other, body: {} });
        assert.deepEqual([held.status, held.name], ["held", stored]);
      }
      await ok(server, "releaseLock", { token: one, name, body: { lease_id: lease.lease_id } });
    }
    const among = { candidates: [...spellings] };
    assert.equal((await ok(server, "claimAnyJob", { token: one, body: among })).job_id, stored);
    const none = await call(server, "claimAnyJob", { token: two, body: among });
    assert.equal(none.body.candidates.length, 1, "one name, not four");
  });

  test("what is longer than 256 bytes only before it is normalised is taken", async () => {
    const name = `path:${"./".repeat(100)}${"d/".repeat(20)}${fresh("f")}`;
    const { name: stored } = await ok(server, "getLock", { token: one, name });
    assert.ok(stored.length < 60);
    const decomposed = `path:${"e\u0301".repeat(125)}`;
    assert.ok(Buffer.byteLength(decomposed) > 256);
    assert.equal(
      (await ok(server, "getLock", { token: one, name: decomposed })).name,
      `path:${"é".repeat(125)}`,
    );
  });

  test("plain names are taken as they stand: case, dots, colons", async () => {
    const stem = fresh("Case");
    await ok(server, "acquireLock", { token: one, name: `${stem}:a` });
    for (const name of [`${stem.toLowerCase()}:a`, `${stem}.a`, `${stem}:A`])
      assert.equal((await ok(server, "getLock", { token: one, name })).status, "free", name);
    assert.equal((await ok(server, "getLock", { token: one, rawName: `${stem}%3Aa` })).status, "held");
    assert.equal((await ok(server, "getLock", { token: one, rawName: `${stem}:%61` })).status, "held");
  });

  test("names that other languages trip over are names", async () => {
    for (const name of [
      "__proto__",
      "constructor",
      "toString",
      "watch",
      "null",
      "undefined",
      "-",
      "...",
      "@",
      "a..",
    ]) {
      const lease = await ok(server, "acquireLock", { token: one, name, body: { metadata: name } });
      assert.deepEqual([lease.status, lease.name], ["acquired", name]);
      assert.equal((await ok(server, "getLock", { token: two, name })).metadata, name);
      await ok(server, "releaseLock", { token: one, name, body: { lease_id: lease.lease_id } });
    }
  });

  test("a percent sign in a path is one", async () => {
    const name = `path:${fresh("100")}%2F/50%`;
    await ok(server, "acquireLock", { token: one, name });
    assert.equal(
      (await ok(server, "getLock", { token: two, rawName: encodeURIComponent(name) })).status,
      "held",
    );
    const listed = await ok(server, "listLocks", { token: two, query: { prefix: name } });
    assert.equal(listed.locks[0]?.name, name);
  });
});
