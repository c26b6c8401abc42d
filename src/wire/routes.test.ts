import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv } from "ajv";
import { errorCodes, errorMeanings } from "./error-codes.js";
import { wireLimitsDefault } from "./fields.js";
import { nodeErrorCodes, nodeErrorMeanings } from "./node-errors.js";
import { routeIds } from "./route.js";
import { type RouteId, routes } from "./routes.js";

const table = routes(wireLimitsDefault);
const ajv = new Ajv({ strict: true, formats: { "date-time": true } });

function idsWhere(test: (route: (typeof table)[number]) => boolean): RouteId[] {
  return table.filter(test).map((route) => route.id);
}

test("every route id has exactly one row, and no two rows answer the same call", () => {
  assert.deepEqual(table.map((route) => route.id).toSorted(), [...routeIds].toSorted());
  const calls = table.map((route) => `${route.method} ${route.path.replace(/\{\w+\}/g, "{}")}`);
  assert.equal(new Set(calls).size, calls.length);
});

test("who may call what", () => {
  assert.deepEqual(
    idsWhere((route) => route.access === "open"),
    ["health", "ready", "openapi", "docs"],
  );
  assert.deepEqual(
    idsWhere((route) => route.access === "admin"),
    ["forceReleaseLock", "createToken", "listTokens", "revokeToken", "rotateToken", "listAudit", "setPolicy"],
  );
  assert.deepEqual(
    idsWhere((route) => route.access === "operator"),
    ["backup"],
  );
  const reading = idsWhere((route) => route.access === "observer");
  const changing = table.filter((route) => reading.includes(route.id) && route.method !== "GET");
  assert.deepEqual(
    changing.map((route) => route.id),
    ["checkLock"],
  );
});

test("what keeps a lease alive or frees one is kept under load", () => {
  assert.deepEqual(
    idsWhere((route) => route.load === "keep"),
    [
      "renewLock",
      "extendLock",
      "releaseLock",
      "heartbeatJob",
      "heartbeatJobs",
      "releaseJob",
      "keepaliveSession",
      "deleteSession",
      "renewNode",
      "extendNode",
      "reserveNode",
      "releaseNode",
      "setNodeStatus",
      "renewNodes",
      "releaseNodes",
    ],
  );
  assert.deepEqual(
    idsWhere((route) => route.load === "take"),
    [
      "acquireLock",
      "claimJob",
      "claimAnyJob",
      "createSession",
      "createNode",
      "updateNode",
      "addEdge",
      "removeEdge",
      "claimNode",
      "nextWork",
      "claimNodes",
    ],
  );
});

test("a route that names something in its path has the parameter, and the other way round", () => {
  for (const route of table) {
    const inPath = /^\/(locks|jobs)\/\{/.test(route.path);
    assert.equal(route.names === "path", inPath, route.id);
    if (/^\/v1\/nodes\/\{/.test(route.path)) assert.equal(route.names, "node", route.id);
  }
});

test("every claiming route takes an idempotency key", () => {
  assert.deepEqual(
    idsWhere((route) => route.headers?.includes("Idempotency-Key") ?? false),
    ["acquireLock", "claimJob", "claimAnyJob", "claimNode", "nextWork", "claimNodes"],
  );
});

test("every route tells its refusals", () => {
  for (const route of table) {
    const statuses = Object.keys(route.replies).map(Number);
    assert.ok(
      statuses.some((status) => status < 300),
      `${route.id} succeeds`,
    );
    if (route.access !== "open") {
      for (const status of [401, 403, 429, 503])
        assert.ok(statuses.includes(status), `${route.id} ${status}`);
    }
    if (route.body !== undefined) {
      for (const status of [400, 413, 415, 422])
        assert.ok(statuses.includes(status), `${route.id} ${status}`);
    }
    for (const [status, reply] of Object.entries(route.replies)) {
      assert.ok(Number(status) === 204 || reply.schema !== undefined, `${route.id} ${status} has a schema`);
    }
  }
});

test("every schema compiles in strict mode and accepts its own examples", () => {
  for (const route of table) {
    const replies = Object.values(route.replies).map((reply) => reply.schema);
    for (const schema of [route.body, route.query, ...replies]) {
      if (schema === undefined) continue;
      const check = ajv.compile(schema);
      const { examples } = schema as { examples?: unknown[] };
      for (const example of examples ?? []) {
        assert.ok(check(example), `${route.id}: ${JSON.stringify(example)}: ${ajv.errorsText(check.errors)}`);
      }
    }
  }
});

test("every error code has a meaning and a status", () => {
  assert.deepEqual(Object.keys(errorMeanings), [...errorCodes]);
  assert.deepEqual(Object.keys(nodeErrorMeanings), [...nodeErrorCodes]);
});

/** Replies as the contract writes them, down to the fields that a seed client reads. */
const at = "2026-01-15T11:30:00.000Z";
const failure = { error: "e", details: "d", request_id: "req_1" };
const holder = { principal: "runner-7", session: null, since: at };
const timing = { expires_at: at, expires_in_ms: 60_000 };
const acquired = {
  ...timing,
  status: "acquired",
  name: "n",
  lease_id: "l",
  fencing_token: 1,
  renew_after_ms: 20_000,
  metadata: null,
};
const held = {
  ...timing,
  status: "held",
  name: "n",
  holder,
  holder_id: "runner-7",
  fencing_token: 1,
  retry_after_ms: 60_000,
  metadata: "host=runner-7",
  waiters: 0,
};
const free = {
  name: "n",
  status: "free",
  holder: null,
  holder_id: null,
  fencing_token: 0,
  expires_at: null,
  expires_in_ms: null,
  metadata: null,
  waiters: 0,
};
const event = {
  event: "acquired",
  name: "n",
  lock_name: "n",
  fencing_token: 1,
  holder,
  expires_at: at,
  observed_at: at,
};

const samples: [id: RouteId, status: number, fits: unknown[], misfits: unknown[]][] = [
  [
    "acquireLock",
    200,
    [acquired, held, { ...held, position: 1 }, { ...acquired, later_addition: 1 }],
    [{}, { ...acquired, status: "held" }, { ...held, holder: null }],
  ],
  [
    "acquireLock",
    409,
    [
      { ...failure, code: "delayed", status: "delayed", available_at: at, retry_after_ms: 1 },
      { ...failure, code: "lease_lost" },
    ],
    [{ status: "delayed" }],
  ],
  ["releaseLock", 200, [null], [{}, "null"]],
  ["getLock", 200, [free, { ...held, status: "held" }], [{ ...free, status: "acquired" }]],
  ["listLocks", 200, [{ locks: [free], total: 1, prefix: null, next_cursor: null }], [{ locks: [] }]],
  ["watchLocks", 200, [event, { event: "reset", observed_at: at }], [{ ...event, event: "forced" }]],
  [
    "claimJob",
    409,
    [
      {
        ...failure,
        ...timing,
        code: "held",
        job_id: "j",
        claimed: false,
        owner: "o",
        metadata: { a: 1 },
        since: at,
        retry_after_ms: 5,
      },
    ],
    [{ claimed: false }],
  ],
  ["heartbeatJob", 409, [{ ...failure, code: "lease_lost", job_id: "j", owner: null }], [failure]],
  ["getLock", 401, [{ ...failure, code: "authentication_required" }], [{ ...failure, code: "nonsense" }]],
];

for (const [id, status, fits, misfits] of samples) {
  test(`${id} ${status} replies`, () => {
    const schema = table.find((route) => route.id === id)?.replies[status]?.schema;
    assert.ok(schema);
    const check = ajv.compile(schema);
    for (const body of fits)
      assert.ok(check(body), `${JSON.stringify(body)}: ${ajv.errorsText(check.errors)}`);
    for (const body of misfits) assert.equal(check(body), false, JSON.stringify(body));
  });
}
