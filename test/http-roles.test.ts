// Who may call what: every route of the table times every kind of caller. What is expected follows from the row's
// own `access` and `names`; what each route needs in order to succeed stands below, and a route that is missing
// there does not compile.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Access, Route, RouteId } from "../src/wire/routes.js";
import { hasFile } from "./engines/store-of.js";
import {
  assertReply,
  type Body,
  type Call,
  call,
  codeOf,
  fresh,
  isNodeRoute,
  ok,
  pathOf,
  send,
  type TokenBody,
  table,
} from "./http-api.js";
import { adminToken as operator, type Server, startServer } from "./server.js";

const inScope = "in-scope-";
let server: Server;

type Role = "observer" | "worker" | "admin" | "operator";
const rank: Record<Role, number> = { observer: 0, worker: 1, admin: 2, operator: 3 };

interface Caller {
  /** Undefined: sends none. */
  token?: string;
  /** Undefined: nobody. */
  role?: Role;
  /** May only touch names that start with `inScope`. */
  scoped?: boolean;
  headers?: Record<string, string>;
}

let callers: Record<string, Caller>;

const make = (body: object): Promise<TokenBody> =>
  ok<TokenBody>(server, "createToken", { token: operator, body: { name: fresh("role"), ...body } });

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
  const revoked = await make({ role: "admin" });
  await ok(server, "revokeToken", { token: operator, name: revoked.id });
  const rotated = await make({ role: "admin" });
  await ok(server, "rotateToken", { token: operator, name: rotated.id });
  const expired = await make({ role: "admin", expires_in_seconds: 1 });
  const scopes = [`${inScope}*`, `node:${inScope}*`];
  callers = {
    "no token": {},
    "an unknown token": { token: "nobody-knows-this" },
    "a mistyped token": { token: `${revoked.token.slice(0, -1)}!` },
    "a revoked token": { token: revoked.token },
    "a rotated token": { token: rotated.token },
    "an expired token": { token: expired.token },
    "an observer": { token: (await make({ role: "observer" })).token, role: "observer" },
    "a worker": { token: (await make({ role: "worker" })).token, role: "worker" },
    "an admin": { token: (await make({ role: "admin" })).token, role: "admin" },
    "the operator": { token: operator, role: "operator" },
    "an observer of other names": {
      token: (await make({ role: "observer", scopes })).token,
      role: "observer",
      scoped: true,
    },
    "a worker of other names": {
      token: (await make({ role: "worker", scopes })).token,
      role: "worker",
      scoped: true,
    },
    "an admin of other names": {
      token: (await make({ role: "admin", scopes })).token,
      role: "admin",
      scoped: true,
    },
    "an admin of another space, there": {
      token: (await make({ role: "admin", space: "other" })).token,
      role: "admin",
    },
    "an admin of another space, here": {
      token: (await make({ role: "admin", space: "other" })).token,
      headers: { "holdfast-space": "default" },
    },
    "the operator in another space": {
      token: operator,
      role: "operator",
      headers: { "holdfast-space": "other" },
    },
  };
  // By the store's own clock, which may be a little late.
  for (;;) {
    const { status } = await call(server, "whoami", { token: expired.token });
    if (status === 401) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
after(() => server.stop());

interface Ready {
  readonly request: Call;
  readonly status: number;
}

/** Who prepares: the caller itself where it may, so that its call can succeed; else anybody. */
interface Preparing {
  readonly name: string;
  readonly as: { readonly token: string; readonly headers?: Record<string, string> };
}

const lease = async ({ name, as }: Preparing): Promise<string> =>
  (await ok(server, "acquireLock", { ...as, name, body: {} })).lease_id;
const session = async ({ as }: Preparing): Promise<string> =>
  (await ok(server, "createSession", as)).session_id;
/** Within what every admin here may touch: nobody hands out more than it has. */
const newToken = () => ({ name: fresh("role"), scopes: [`${inScope}*`] });
const token = async ({ as }: Preparing): Promise<string> =>
  (await ok<TokenBody>(server, "createToken", { ...as, body: newToken() })).id;
const plain =
  (status = 200, request: Call = {}) =>
  (): Ready => ({ request, status });

const node = async ({ name, as }: Preparing): Promise<string> => {
  await ok(server, "createNode", { ...as, body: { id: name, type: "task", title: "t" } });
  return name;
};
const onNode =
  (body?: object, status = 200) =>
  async (at: Preparing): Promise<Ready> => ({
    request: { name: await node(at), ...(body === undefined ? {} : { body }) },
    status,
  });
const onClaim =
  (body: object) =>
  async (at: Preparing): Promise<Ready> => {
    const name = await node(at);
    await ok(server, "claimNode", { ...at.as, name, body: {} });
    return { request: { name, body }, status: 200 };
  };

/** A request that succeeds for who may send it, and the status it then has. */
const requests: Record<RouteId, (prepare: Preparing) => Promise<Ready> | Ready> = {
  acquireLock: ({ name }) => ({ request: { name, body: {} }, status: 200 }),
  renewLock: async (at) => ({ request: { name: at.name, body: { lease_id: await lease(at) } }, status: 200 }),
  extendLock: async (at) => ({
    request: { name: at.name, body: { lease_id: await lease(at), ttl_seconds: 90 } },
    status: 200,
  }),
  releaseLock: async (at) => ({
    request: { name: at.name, body: { lease_id: await lease(at) } },
    status: 200,
  }),
  getLock: ({ name }) => ({ request: { name }, status: 200 }),
  listLocks: plain(),
  watchLock: ({ name }) => ({ request: { name }, status: 200 }),
  watchLocks: plain(),
  checkLock: ({ name }) => ({ request: { name, body: { fencing_token: 1 } }, status: 200 }),
  forceReleaseLock: ({ name }) => ({ request: { name, body: { reason: "r" } }, status: 200 }),
  claimJob: ({ name }) => ({ request: { name, body: {} }, status: 200 }),
  claimAnyJob: ({ name }) => ({ request: { body: { candidates: [name] } }, status: 200 }),
  heartbeatJob: async (at) => ({
    request: { name: at.name, body: { lease_id: await lease(at) } },
    status: 200,
  }),
  heartbeatJobs: async (at) => ({
    request: { body: { leases: [{ job_id: at.name, lease_id: await lease(at) }] } },
    status: 200,
  }),
  releaseJob: async (at) => ({
    request: { name: at.name, body: { lease_id: await lease(at) } },
    status: 200,
  }),
  getJob: ({ name }) => ({ request: { name }, status: 200 }),
  listJobs: plain(),
  createSession: plain(201),
  keepaliveSession: async (at) => ({ request: { name: await session(at) }, status: 200 }),
  getSession: async (at) => ({ request: { name: await session(at) }, status: 200 }),
  deleteSession: async (at) => ({ request: { name: await session(at) }, status: 204 }),
  createToken: () => ({ request: { body: newToken() }, status: 201 }),
  listTokens: plain(),
  revokeToken: async (at) => ({ request: { name: await token(at) }, status: 204 }),
  rotateToken: async (at) => ({ request: { name: await token(at) }, status: 200 }),
  whoami: plain(),
  listAudit: plain(),
  // A file can be copied; what lies in a database is backed up with it.
  backup: async () => ({ request: {}, status: hasFile ? 200 : 409 }),
  health: plain(),
  ready: plain(),
  metrics: plain(),
  openapi: plain(),
  docs: plain(),
  createNode: ({ name }) => ({ request: { body: { id: name, type: "task", title: "t" } }, status: 201 }),
  listNodes: plain(),
  getNode: onNode(),
  updateNode: onNode({ revision: 1, title: "u" }),
  addEdge: onNode({ type: "assigned", to: "somebody" }),
  removeEdge: onNode({ type: "assigned", to: "somebody" }),
  nodeHistory: onNode(),
  unparkNode: onNode({ reason: "r" }, 409),
  getPolicy: plain(),
  setPolicy: plain(409, { body: { revision: 999 } }),
  claimNode: onNode({}),
  renewNode: onClaim({}),
  extendNode: onClaim({ ms: 1000 }),
  reserveNode: onClaim({}),
  releaseNode: onClaim({}),
  setNodeStatus: onClaim({ status: "done" }),
  listQueue: plain(),
  nextWork: plain(200, { body: { type: "question" } }),
  claimNodes: async (at) => ({ request: { body: { ids: [await node(at)] } }, status: 200 }),
  renewNodes: plain(),
  releaseNodes: async (at) => ({ request: { body: { ids: [await node(at)] } }, status: 200 }),
};

/** What the contract says this caller gets: a refusal, or null for what the request itself leads to. */
function refusal(route: Route, { token: sent, role, scoped, headers }: Caller): [number, string] | null {
  const { access } = route;
  if (access === "open") return null;
  const code = (word: string): string => (isNodeRoute(route) ? "unauthorized" : word);
  if (sent === undefined) return route.id === "metrics" ? null : [401, code("authentication_required")];
  const namesSpace = role === undefined && headers !== undefined;
  if (role === undefined && !namesSpace) return [401, code("authentication_failed")];
  if (rank[role ?? "admin"] < rank[access as Exclude<Access, "open">]) return [403, "forbidden"];
  if (namesSpace) return [403, "forbidden"];
  if (scoped && ["path", "node", "candidates", "leases"].includes(route.names)) return [403, "forbidden"];
  return null;
}

/** Streams never end by themselves: their status is enough. */
async function statusOf(route: Route, request: Call): Promise<number> {
  const gone = new AbortController();
  const response = await fetch(`http://127.0.0.1:${server.port}${pathOf(route, request)}`, {
    headers: {
      ...request.headers,
      ...(request.token === undefined ? {} : { authorization: `Bearer ${request.token}` }),
    },
    signal: gone.signal,
  });
  gone.abort();
  return response.status;
}

async function tryRoute(route: Route, who: string, caller: Caller): Promise<void> {
  const expected = refusal(route, caller);
  const name = fresh(expected === null && caller.scoped ? inScope : "out-of-scope");
  const { token: sent, headers } = caller;
  const own = expected === null && sent !== undefined && caller.role !== undefined && rank[caller.role] >= 1;
  const as = own ? { token: sent, ...(headers === undefined ? {} : { headers }) } : { token: operator };
  // What stands in the way of the scope is the name alone; what is prepared must not be.
  const ready = await requests[route.id]({ name, as });
  const request: Call = { ...ready.request, token: sent, ...(headers === undefined ? {} : { headers }) };
  const what = `${who}: ${route.method} ${route.path}`;
  if (expected === null && route.path.endsWith("/watch")) {
    assert.equal(await statusOf(route, request), ready.status, what);
    return;
  }
  const answered = await send(server, route.method, pathOf(route, request), request);
  if (expected === null)
    assert.equal(answered.status, ready.status, `${what}: ${answered.text.slice(0, 300)}`);
  else
    assert.deepEqual(
      [answered.status, codeOf(answered)],
      expected,
      `${what}: ${answered.text.slice(0, 300)}`,
    );
  if (route.id !== "backup" || expected !== null) assertReply(route, answered);
  if (expected !== null) await assertUntouched(name, route);
}

/** A refused call has no effect: what was prepared is as it was, and nothing else came to be. */
async function assertUntouched(name: string, route: Route): Promise<void> {
  if (route.names !== "path") return;
  const view: Body = await ok(server, "getLock", { token: operator, name });
  const isPrepared = ["renewLock", "extendLock", "releaseLock", "heartbeatJob", "releaseJob"].includes(
    route.id,
  );
  assert.equal(view.status, isPrepared ? "held" : "free");
  assert.equal(view.fencing_token, isPrepared ? 1 : 0);
}

describe("every route, every caller", () => {
  for (const route of table)
    test(`${route.method} ${route.path} (${route.access})`, async () => {
      assert.ok(requests[route.id], `what does ${route.id} need in order to succeed?`);
      for (const [who, caller] of Object.entries(callers)) await tryRoute(route, who, caller);
    });

  test("a role may do all that those below it may, and no more", () => {
    const may = (role: Role): RouteId[] =>
      table.filter((route) => refusal(route, { token: "t", role }) === null).map(({ id }) => id);
    assert.ok(may("observer").length < may("worker").length);
    assert.ok(may("worker").every((id) => may("admin").includes(id)));
    assert.deepEqual(may("operator").length, table.length);
    assert.deepEqual(
      may("operator").filter((id) => !may("admin").includes(id)),
      ["backup"],
    );
  });
});
