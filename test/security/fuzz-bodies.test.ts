// Bodies by chance: valid ones of every operation that takes one, damaged in a field or in a byte. Each gets a
// definite answer; one that is refused has changed nothing; the server lives, says nothing about its inside, and
// does not grow.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import type { RouteId } from "../../src/wire/routes.js";
import {
  assertReply,
  type Body,
  fresh,
  ok,
  pathOf,
  routeOf,
  send,
  type TokenBody,
  table,
} from "../http-api.js";
import { adminToken as operator, type Server, startServer } from "../server.js";
import { type Damage, damage, damaged, runs } from "./fuzz.js";
import { exchange } from "./raw-exchange.js";
import { assertQuietLog, assertSound, memoryMb } from "./soundness.js";

const token = "secret-a";
const json = { "content-type": "application/json" };
/** How much the server's memory may grow over all of this, in MB: caches fill, but nothing piles up. */
const growthMaxMb = 150;
let server: Server;
let before_ = 0;

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: "off" } });
  before_ = memoryMb(server);
});
after(async () => {
  await server.stop();
  assertQuietLog(server);
});

/** A request that succeeds if it is not damaged, and what of the world it is about. */
interface Ready {
  readonly name?: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly about: () => Promise<unknown>;
}

/** Names of the work graph cannot be written here; so no test of another name makes one by chance. */
const free = (body: (name: string) => Ready["body"]) => async (): Promise<Ready> => {
  const name = fresh("fuzz");
  return { name, body: body(name), about: () => viewOf(name) };
};

const viewOf = async (name: string): Promise<unknown> => {
  const [lock, job] = [
    await ok(server, "getLock", { token, name }),
    await ok(server, "getJob", { token, name }),
  ];
  return [lock, job].map(({ expires_in_ms: _, ...rest }) => rest);
};

const held = (body: (lease: Body) => Ready["body"]) => async (): Promise<Ready> => {
  const name = fresh("fuzz");
  const lease = await ok(server, "acquireLock", { token, name, body: { ttl_seconds: 600 } });
  return { name, body: body(lease), about: () => viewOf(name) };
};

/** A node, and what of it only a change changes. */
const node =
  (prepare: (name: string) => Promise<void>, body: (name: string) => Ready["body"]) =>
  async (): Promise<Ready> => {
    const name = fresh("fuzz");
    await ok(server, "createNode", { token, body: { id: name, type: "task", title: "t" } });
    await prepare(name);
    const about = async (): Promise<unknown> => {
      const { lease, ...rest } = await ok<{ lease?: object }>(server, "getNode", { token, name });
      return { ...rest, lease: { ...lease, expires_in_ms: 0 } };
    };
    return { name, body: body(name), about };
  };
const open = (body: Ready["body"]) =>
  node(
    async () => undefined,
    () => body,
  );
const claimed = (body: Ready["body"]) =>
  node(
    async (name) => void (await ok(server, "claimNode", { token, name, body: {} })),
    () => body,
  );
const policy = async (): Promise<{ revision: number }> => ok(server, "getPolicy", { token });
/** Work of this type is parked once it was lost. */
const brittle = {
  task: { statuses: { open: "planned", active: "active", done: "terminal" }, reclaims_max: 0 },
};
const parked = async (): Promise<Ready> => {
  const { revision } = await policy();
  await ok(server, "setPolicy", { token: operator, body: { revision, types: brittle } });
  const ready = await claimed({ reason: "r" })();
  const lock = `node:${ready.name}`;
  await ok(server, "forceReleaseLock", { token: operator, name: lock, body: { reason: "lost" } });
  return ready;
};

const tokens = async (): Promise<unknown> => ok(server, "listTokens", { token: operator });
const session = async (): Promise<Ready> => {
  const { session_id: name } = await ok(server, "createSession", { token, body: { ttl_seconds: 600 } });
  return { name, body: {}, about: async () => (await ok(server, "getSession", { token, name })).expires_at };
};

const claim = { ttl_seconds: 60, metadata: "m", request_id: "r" };
const requests: Readonly<Partial<Record<RouteId, () => Promise<Ready>>>> = {
  acquireLock: free((name) => ({ ...claim, request_id: name, lock_delay_seconds: 0, lease_id: "ls_x" })),
  renewLock: held(({ lease_id }) => ({ lease_id, ttl_seconds: 700 })),
  extendLock: held(({ lease_id }) => ({ lease_id, ttl_seconds: 700 })),
  releaseLock: held(({ lease_id }) => ({ lease_id })),
  checkLock: held(({ fencing_token }) => ({ fencing_token })),
  forceReleaseLock: held(() => ({ reason: "because" })),
  claimJob: free((name) => ({ ...claim, request_id: name, owner: "o", metadata: { a: 1 } })),
  claimAnyJob: free((name) => ({ ...claim, request_id: name, candidates: [name] })),
  heartbeatJob: held(({ lease_id }) => ({ lease_id, ttl_seconds: 700, progress: "half" })),
  heartbeatJobs: held(({ name, lease_id }) => ({ leases: [{ job_id: name, lease_id }] })),
  releaseJob: held(({ lease_id }) => ({ lease_id, outcome: "done", note: "n" })),
  createSession: async () => ({ body: { ttl_seconds: 60, metadata: "m" }, about: async () => null }),
  keepaliveSession: session,
  createToken: async () => ({
    body: {
      name: fresh("fuzz"),
      role: "worker",
      scopes: ["fuzz-*"],
      expires_in_seconds: 60,
      reentrant: false,
    },
    about: tokens,
  }),
  createNode: async () => {
    const id = fresh("fuzz");
    const about = async (): Promise<unknown> =>
      (await send(server, "GET", `/v1/nodes/${id}`, { token })).status;
    return {
      body: { id, type: "task", title: "t", summary: "s", status: "open", priority: "p1", project: "p" },
      about,
    };
  },
  updateNode: open({ revision: 1, title: "u", summary: null, priority: "p2", project: "q" }),
  addEdge: open({ type: "assigned", to: "somebody" }),
  removeEdge: open({ type: "assigned", to: "somebody" }),
  unparkNode: parked,
  setPolicy: async () => {
    const { revision } = await policy();
    return { body: { revision, claim_ttl_ms: 60_000, reclaims_max: 5, types: brittle }, about: policy };
  },
  claimNode: node(
    async () => undefined,
    (name) => ({ session: "s", dispatch: "d", rebind: true, request_id: name }),
  ),
  renewNode: claimed({ session: "s", token: 1 }),
  extendNode: claimed({ ms: 1000, session: "s", token: 1 }),
  reserveNode: claimed({ session: "s", token: 1 }),
  releaseNode: claimed({ session: "s", token: 1 }),
  setNodeStatus: claimed({ status: "active", reason: "r", session: "s", token: 1 }),
  nextWork: open({ type: "task", session: "s", dispatch: "d" }),
  claimNodes: node(
    async () => undefined,
    (name) => ({ ids: [name], session: "s", request_id: name }),
  ),
  renewNodes: node(
    async () => undefined,
    (name) => ({ ids: [name], session: "s" }),
  ),
  releaseNodes: node(
    async () => undefined,
    (name) => ({ ids: [name], session: "s" }),
  ),
  rotateToken: async () => {
    const body = { name: fresh("fuzz"), expires_in_seconds: 600 };
    const { id } = await ok<TokenBody>(server, "createToken", { token: operator, body });
    return { name: id, body: {}, about: tokens };
  },
};

async function tryBody(id: RouteId, what: Damage): Promise<void> {
  const route = routeOf(id);
  const { name = "", body, about } = (await requests[id]?.()) ?? assert.fail(`what does ${id} take?`);
  const was = await about();
  const text = damaged(body, what);
  const caller = route.access === "admin" ? operator : token;
  const reply = await send(server, route.method, pathOf(route, { name }), {
    token: caller,
    text,
    headers: json,
  });
  assertSound(reply, text.toString());
  assertReply(route, reply);
  if (reply.status >= 400) assert.deepEqual(await about(), was, `${reply.status}, yet it changed something`);
}

describe("bodies that are almost right", () => {
  const withBody = table.filter(({ body }) => body !== undefined);

  test("every operation with a body is tried", () => {
    assert.deepEqual(Object.keys(requests).toSorted(), withBody.map(({ id }) => id).toSorted());
  });

  for (const { id } of withBody)
    test(id, () =>
      fc.assert(
        fc.asyncProperty(damage, (what) => tryBody(id, what)),
        runs(20),
      ),
    );

  test("undamaged, each of them succeeds", async () => {
    for (const { id } of withBody) {
      const { name = "", body } = (await requests[id]?.()) ?? { body: {} };
      const caller = routeOf(id).access === "admin" ? operator : token;
      await ok(server, id, { token: caller, name, body });
    }
  });
});

describe("bytes that are no text", () => {
  const broken: readonly (readonly [string, readonly number[]])[] = [
    ["a lone byte", [0xff]],
    ["an overlong slash", [0xc0, 0xaf]],
    ["half a character", [0xe2, 0x82]],
    ["a surrogate", [0xed, 0xa0, 0x80]],
    ["beyond Unicode", [0xf4, 0x90, 0x80, 0x80]],
  ];
  const post = (path: string, body: Buffer, framing: "length" | "chunks"): Buffer => {
    const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
    return framing === "length"
      ? Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body])
      : Buffer.concat([
          Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`),
          body,
          Buffer.from("\r\n0\r\n\r\n"),
        ]);
  };

  for (const [what, bytes] of broken)
    test(`${what}: refused, in a name, in metadata and in a key`, async () => {
      const spots = [
        '{"candidates":["path:@"]}',
        '{"candidates":["fuzz-text"],"metadata":"@"}',
        '{"candidates":["fuzz-text"],"@":1}',
      ];
      for (const spot of spots)
        for (const framing of ["length", "chunks"] as const) {
          const [head = "", tail = ""] = spot.split("@");
          const body = Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from(tail)]);
          const [reply, ...more] = await exchange(server, post("/jobs/claim", body, framing));
          assert.ok(reply && more.length === 0);
          assertSound(reply);
          assert.deepEqual([reply.status, reply.body.code], [400, "invalid_input"], `${spot}: ${reply.text}`);
        }
      const { locks } = await ok(server, "listLocks", { token, query: { prefix: "path:" } });
      assert.deepEqual(locks, [], "two broken names would be one");
      assert.equal((await ok(server, "getLock", { token, name: "fuzz-text" })).fencing_token, 0);
    });
});

describe("after all that", () => {
  test("the server has not grown", () => {
    const grown = memoryMb(server) - before_;
    assert.ok(grown < growthMaxMb, `${Math.round(grown)} MB more than before`);
  });
});
