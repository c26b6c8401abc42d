/** What each route takes and refuses, as rows. The validator is the one the HTTP face uses, with its settings. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv, type ValidateFunction } from "ajv";
import { wireLimitsDefault } from "./fields.js";
import { type RouteId, routes } from "./routes.js";

const ajv = new Ajv({ strict: true, coerceTypes: false, removeAdditional: false, useDefaults: true });
/** The work graph's stand in a file of their own. */
const table = routes(wireLimitsDefault).filter(({ tag }) => tag !== "nodes");

function validator(id: RouteId, part: "body" | "query"): ValidateFunction {
  const schema = table.find((route) => route.id === id)?.[part];
  assert.ok(schema, `${id} has a ${part}`);
  return ajv.compile(schema);
}

const chars = (count: number, of = "x") => of.repeat(count);
/** Two UTF-16 units, one code point. */
const astral = "😀";
const lease = { lease_id: "l" };
const ids = (count: number) => Array.from({ length: count }, (_, i) => `job-${i}`);
const leases = (count: number) => ids(count).map((job_id) => ({ job_id, lease_id: "l" }));

type Row = readonly [id: RouteId, accepted: readonly unknown[], refused: readonly unknown[]];

const badTtls = [0, -1, 1.5, 1e308, 86_401, "5", null, true, [60]];
const goodTtls = [1, 60, 86_400, 6e1];
const badIds = ["", chars(129), 7, null];

const bodies: readonly Row[] = [
  [
    "acquireLock",
    [
      {},
      ...goodTtls.map((ttl_seconds) => ({ ttl_seconds })),
      ...["", chars(1024), chars(1024, astral)].map((metadata) => ({ metadata })),
      ...[0, 600].map((wait_seconds) => ({ wait_seconds })),
      ...[0, 60].map((lock_delay_seconds) => ({ lock_delay_seconds })),
      ...["r", chars(128), "two words ~!"].map((request_id) => ({ request_id })),
      { session_id: chars(128), lease_id: chars(128), ephemeral: true },
    ],
    [
      ...badTtls.map((ttl_seconds) => ({ ttl_seconds })),
      ...[chars(1025), chars(1025, astral), 5, {}, null].map((metadata) => ({ metadata })),
      ...[-1, 601, 0.5, "0"].map((wait_seconds) => ({ wait_seconds })),
      ...[-1, 61, 0.5].map((lock_delay_seconds) => ({ lock_delay_seconds })),
      ...[...badIds, "tab\there", "line\n", "é", "\u007f"].map((request_id) => ({ request_id })),
      ...badIds.map((session_id) => ({ session_id })),
      ...badIds.map((lease_id) => ({ lease_id })),
      { ephemeral: "true" },
      { ttl: 60 },
      { ttlSeconds: 60 },
      { acl: [] },
      JSON.parse('{"__proto__": 1}'),
      [],
      null,
      "{}",
    ],
  ],
  [
    "renewLock",
    [lease, ...goodTtls.map((ttl_seconds) => ({ ...lease, ttl_seconds }))],
    [
      {},
      { ttl_seconds: 60 },
      ...badTtls.map((ttl_seconds) => ({ ...lease, ttl_seconds })),
      ...badIds.map((lease_id) => ({ lease_id })),
      { ...lease, metadata: "x" },
    ],
  ],
  [
    "extendLock",
    goodTtls.map((ttl_seconds) => ({ ...lease, ttl_seconds })),
    [lease, { ttl_seconds: 60 }, ...badTtls.map((ttl_seconds) => ({ ...lease, ttl_seconds }))],
  ],
  ["releaseLock", [lease], [{}, ...badIds.map((lease_id) => ({ lease_id })), { ...lease, force: true }]],
  [
    "checkLock",
    [0, 1, Number.MAX_SAFE_INTEGER].map((fencing_token) => ({ fencing_token })),
    [{}, ...[-1, 1.5, "1", 2 ** 53, null].map((fencing_token) => ({ fencing_token })), { token: 1 }],
  ],
  [
    "forceReleaseLock",
    [{ reason: "r" }, { reason: chars(256, astral) }],
    [{}, { reason: "" }, { reason: chars(257) }, { reason: 1 }, { reason: "r", lease_id: "l" }],
  ],
  [
    "claimJob",
    [
      {},
      {
        owner: chars(256),
        metadata: "text",
        ttl_seconds: 120,
        wait_seconds: 600,
        session_id: "s",
        request_id: "r",
      },
      { metadata: { any: { thing: [1, null] } } },
      { metadata: {} },
    ],
    [
      ...badTtls.map((ttl_seconds) => ({ ttl_seconds })),
      ...["", chars(257), 5].map((owner) => ({ owner })),
      ...[5, null, [], true].map((metadata) => ({ metadata })),
      { wait_seconds: 601 },
      { candidates: ["a"] },
      { ttl: 5 },
    ],
  ],
  [
    "claimAnyJob",
    [{ candidates: ids(1) }, { candidates: ids(100), owner: "o", ttl_seconds: 5, request_id: "r" }],
    [
      {},
      ...[[], ids(101), "a", [""], [5], [chars(257)]].map((candidates) => ({ candidates })),
      { candidates: ids(1), wait_seconds: 0 },
      ...badTtls.map((ttl_seconds) => ({ candidates: ids(1), ttl_seconds })),
    ],
  ],
  [
    "heartbeatJob",
    [lease, { ...lease, ttl_seconds: 5, progress: chars(1024, astral) }],
    [
      {},
      { ...lease, progress: chars(1025, astral) },
      { ...lease, progress: {} },
      ...badTtls.map((ttl_seconds) => ({ ...lease, ttl_seconds })),
      { ...lease, owner: "o" },
    ],
  ],
  [
    "heartbeatJobs",
    [{ leases: [] }, { leases: leases(1000) }],
    [
      {},
      { leases: leases(1001) },
      { leases: [{ job_id: "a" }] },
      { leases: [lease] },
      { leases: [{ ...lease, job_id: "a", ttl_seconds: 5 }] },
      { leases: {} },
    ],
  ],
  [
    "releaseJob",
    [lease, ...["done", "failed", "abandoned"].map((outcome) => ({ ...lease, outcome, note: chars(1024) }))],
    [{}, { ...lease, outcome: "ok" }, { ...lease, outcome: null }, { ...lease, note: chars(1025) }],
  ],
  [
    "createSession",
    [{}, ...[5, 60, 3600].map((ttl_seconds) => ({ ttl_seconds })), { metadata: chars(1024, astral) }],
    [
      ...[...badTtls, 4, 3601].map((ttl_seconds) => ({ ttl_seconds })),
      { metadata: chars(1025, astral) },
      { metadata: {} },
      { session_id: "mine" },
    ],
  ],
  ["keepaliveSession", [{}], [{ ttl_seconds: 60 }, null, []]],
  [
    "createToken",
    [
      { name: "ci" },
      { name: chars(64), role: "admin", scopes: ["deploy-*", "*"], space: "team-a" },
      { name: "A.z_0-9", role: "observer", expires_in_seconds: 1, reentrant: true },
      { name: "n", scopes: Array(32).fill("*") },
    ],
    [
      {},
      ...["", chars(65), "a b", "a:b", "é", "line\n", 5].map((name) => ({ name })),
      ...["operator", "root", null].map((role) => ({ name: "n", role })),
      ...[[], Array(33).fill("*"), [""], "*", [5]].map((scopes) => ({ name: "n", scopes })),
      ...["", "a/b", chars(65)].map((space) => ({ name: "n", space })),
      ...[0, -1, 1.5, 1e308, "90d"].map((expires_in_seconds) => ({ name: "n", expires_in_seconds })),
      { name: "n", reentrant: "true" },
      { name: "n", token: "mine" },
    ],
  ],
  ["rotateToken", [{}], [{ name: "other" }]],
];

const pages = {
  good: [{}, { limit: "1" }, { limit: "1000", cursor: chars(1024) }],
  bad: [
    ...["", "-1", "1.5", "1e3", "10000", " 1", 5].map((limit) => ({ limit })),
    { cursor: chars(1025) },
    { x: "" },
  ],
};

const queries: readonly Row[] = [
  [
    "listLocks",
    [...pages.good, { prefix: "" }, { prefix: chars(256), mine: "true" }, { mine: "0" }],
    [...pages.bad, { prefix: chars(257) }, ...["yes", "", true].map((mine) => ({ mine })), { owner: "o" }],
  ],
  [
    "listJobs",
    [...pages.good, { prefix: "a", owner: chars(256), mine: "1" }],
    [...pages.bad, { owner: chars(257) }, { mine: "TRUE" }],
  ],
  ["watchLocks", [{}, { prefix: "a" }], [{ prefix: chars(257) }, { limit: "1" }, { prefix: ["a", "b"] }]],
  ["listAudit", pages.good, [...pages.bad, { prefix: "a" }]],
];

function brief(value: unknown): string {
  const text = JSON.stringify(value) ?? "undefined";
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

for (const [part, rows] of [["body", bodies] as const, ["query", queries] as const]) {
  for (const [id, accepted, refused] of rows) {
    test(`${id} ${part}`, () => {
      const check = validator(id, part);
      for (const value of accepted) {
        assert.ok(check(structuredClone(value)), `refused ${brief(value)}: ${brief(check.errors)}`);
      }
      for (const value of refused) assert.equal(check(value), false, `accepted ${brief(value)}`);
    });
  }
  test(`every ${part} has its row`, () => {
    const having = table.filter((route) => route[part] !== undefined).map((route) => route.id);
    assert.deepEqual(having.toSorted(), rows.map(([id]) => id).toSorted());
  });
}

test("a validator that fills in defaults gives no TTL to a claim that named none", () => {
  for (const id of ["acquireLock", "claimJob"] as const) {
    const body: Record<string, unknown> = { session_id: "s" };
    assert.ok(validator(id, "body")(body));
    assert.equal("ttl_seconds" in body, false);
  }
});

test("bounds follow the limits that are passed in", () => {
  const own = routes({ ...wireLimitsDefault, ttlSecondsMax: 10, candidatesMax: 2 });
  const body = (id: RouteId) => ajv.compile(own.find((route) => route.id === id)?.body ?? {});
  assert.ok(body("acquireLock")({ ttl_seconds: 10 }));
  assert.equal(body("acquireLock")({ ttl_seconds: 11 }), false);
  assert.equal(body("claimAnyJob")({ candidates: ids(3) }), false);
});
