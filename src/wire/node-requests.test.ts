/** What each route of the work graph takes and refuses, as rows; what a policy document may say. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv, type ValidateFunction } from "ajv";
import { nodePolicyDefault } from "../core/nodes/policy.js";
import { wireLimitsDefault } from "./fields.js";
import { policyJson, readPolicy } from "./node-policy.js";
import { type RouteId, routes } from "./routes.js";

const ajv = new Ajv({ strict: true, coerceTypes: false, useDefaults: true });
const table = routes(wireLimitsDefault).filter(({ tag }) => tag === "nodes");

function validator(id: RouteId, part: "body" | "query"): ValidateFunction {
  const schema = table.find((route) => route.id === id)?.[part];
  assert.ok(schema, `${id} has a ${part}`);
  return ajv.compile(schema);
}

const chars = (count: number, of = "x") => of.repeat(count);
const astral = "😀";
const ids = (count: number) => Array.from({ length: count }, (_, i) => `n-${i}`);
const node = { id: "a", type: "task", title: "t" };
const labels = ["s", chars(128), "two words ~!"];
const badLabels = ["", chars(129), "tab\there", "é", 7, null];
const tokens = [0, 1, Number.MAX_SAFE_INTEGER];
const badTokens = [-1, 1.5, "1", 2 ** 53, null];

type Row = readonly [id: RouteId, accepted: readonly unknown[], refused: readonly unknown[]];

/** The fields of every lease call. */
const callRows = (base: object): readonly [accepted: unknown[], refused: unknown[]] => [
  [base, ...labels.map((session) => ({ ...base, session })), ...tokens.map((token) => ({ ...base, token }))],
  [
    ...badLabels.map((session) => ({ ...base, session })),
    ...badTokens.map((token) => ({ ...base, token })),
    { ...base, by: "me" },
    { ...base, ttl_seconds: 60 },
    [],
    null,
  ],
];

const bodies: readonly Row[] = [
  [
    "createNode",
    [
      node,
      { ...node, summary: "", status: "open", priority: "p1", project: "p" },
      { ...node, title: chars(256, astral), summary: chars(4096, astral), project: chars(128, astral) },
      { ...node, id: chars(128) },
    ],
    [
      {},
      ...["id", "type", "title"].map((field) => ({ ...node, [field]: undefined })),
      ...["", chars(129), 5].map((id) => ({ ...node, id })),
      ...["", chars(257), null].map((title) => ({ ...node, title })),
      ...["Task", "-a", chars(33), ""].map((type) => ({ ...node, type })),
      ...["p0", "P1", null, 1].map((priority) => ({ ...node, priority })),
      { ...node, summary: chars(4097) },
      { ...node, project: chars(129) },
      { ...node, revision: 1 },
    ],
  ],
  [
    "updateNode",
    [{ revision: 1 }, { revision: 0, title: "t", summary: null, priority: null, project: null }],
    [
      {},
      { title: "t" },
      { revision: -1 },
      { revision: "1" },
      { revision: 1, title: null },
      { revision: 1, status: "open" },
    ],
  ],
  [
    "addEdge",
    ["assigned", "blocks", "resolves", "relates-to"].map((type) => ({ type, to: "a" })),
    [
      {},
      { type: "blocks" },
      { to: "a" },
      { type: "block", to: "a" },
      { type: "blocks", to: "" },
      { type: "blocks", to: 5 },
    ],
  ],
  [
    "removeEdge",
    [{}, { type: "blocks" }, { to: "a" }, { type: "assigned", to: "runner-1" }],
    [{ type: "block" }, { to: "" }, { at: 1 }],
  ],
  [
    "unparkNode",
    [{ reason: "r" }, { reason: chars(256, astral) }],
    [{}, { reason: "" }, { reason: chars(257) }, { reason: 1 }],
  ],
  [
    "setPolicy",
    [
      { revision: 0 },
      {
        revision: 1,
        claim_ttl_ms: 1000,
        claim_ttl_max_ms: 604_800_000,
        reserve_grace_ms: 1000,
        reclaims_max: 0,
      },
      { revision: 1, types: { "a-1": { statuses: { open: "planned" }, claim_ttl_ms: 5000 } } },
    ],
    [
      {},
      { revision: 0, claim_ttl_ms: 999 },
      { revision: 0, claim_ttl_ms: 604_800_001 },
      { revision: 0, reclaims_max: 1001 },
      { revision: 0, types: {} },
      { revision: 0, types: { task: { statuses: {} } } },
      { revision: 0, types: { Task: { statuses: { open: "planned" } } } },
      { revision: 0, types: { [chars(33)]: { statuses: { open: "planned" } } } },
      { revision: 0, types: { task: { statuses: { open: "started" } } } },
      {
        revision: 0,
        types: Object.fromEntries(ids(33).map((id) => [id, { statuses: { open: "planned" } }])),
      },
      { revision: 0, claim_ttl: 5000 },
    ],
  ],
  [
    "claimNode",
    [...callRows({})[0], ...labels.map((dispatch) => ({ dispatch })), { rebind: true }, { request_id: "r" }],
    [
      ...callRows({})[1],
      ...badLabels.map((dispatch) => ({ dispatch })),
      { rebind: "true" },
      { request_id: "" },
      { wait_seconds: 1 },
    ],
  ],
  ["renewNode", ...callRows({})],
  ["reserveNode", ...callRows({})],
  ["releaseNode", ...callRows({})],
  [
    "extendNode",
    [...callRows({ ms: 1 })[0], ...[0.5, 1e300].map((ms) => ({ ms }))],
    [
      ...callRows({ ms: 1 })[1],
      {},
      ...[0, -1, "1", null, Number.POSITIVE_INFINITY, Number.NaN].map((ms) => ({ ms })),
    ],
  ],
  [
    "setNodeStatus",
    [...callRows({ status: "done" })[0], { status: "done", reason: "r", dispatch: "d" }],
    [
      ...callRows({ status: "done" })[1],
      {},
      { status: "" },
      { status: "Done" },
      { status: chars(33) },
      { status: "done", reason: "" },
    ],
  ],
  [
    "nextWork",
    [{}, { type: "task", session: "s", dispatch: "d", wait_seconds: 600, request_id: "r" }],
    [
      { type: "Task" },
      { wait_seconds: 601 },
      { wait_seconds: "5" },
      { token: 1 },
      { rebind: true },
      { ids: ["a"] },
    ],
  ],
  [
    "claimNodes",
    [
      { ids: ids(1) },
      { ids: ids(1000), session: "s", dispatch: "d", request_id: "r" },
      { ids: ["Not an id"] },
      { ids: ["a", { id: "b" }, { id: "c", token: 1 }] },
    ],
    [
      {},
      { ids: [] },
      { ids: ids(1001) },
      { ids: "a" },
      { ids: [5] },
      { ids: [chars(257)] },
      { ids: [{ token: 1 }] },
      { ids: [{ id: "a", token: "1" }] },
      { ids: [{ id: "a", session: "s" }] },
      { ids: ids(1), token: 1 },
    ],
  ],
  ["renewNodes", [{}, { ids: ids(1000), session: "s" }], [{ ids: [] }, { ids: ids(1001) }, { session: "" }]],
  ["releaseNodes", [{ ids: ids(1) }, { ids: ids(1), session: "s" }], [{}, { ids: [] }, { ids: null }]],
];

const pages = {
  good: [{}, { limit: "1" }, { limit: "1000", cursor: chars(1024) }],
  bad: [...["", "-1", "1.5", "10000", 5].map((limit) => ({ limit })), { cursor: chars(1025) }, { x: "" }],
};

const queries: readonly Row[] = [
  [
    "listNodes",
    [...pages.good, { type: "task", status: "open", prefix: "a-" }, { prefix: "" }],
    [...pages.bad, { prefix: "A" }, { prefix: "a/b" }, { type: "Task" }, { status: "" }, { assignee: "me" }],
  ],
  [
    "nodeHistory",
    [{}, { after: "0" }, { after: "123456789012345", limit: "5" }],
    [{ after: "-1" }, { after: "x" }, { cursor: "c" }],
  ],
  ["removeEdge", [{}, { type: "blocks", to: "a" }], [{ by: "me" }, { to: chars(129) }]],
  [
    "listQueue",
    [...pages.good, { assignee: "me" }, { assignee: "A.z_0-9" }, { type: "task", parked: "true" }],
    [...pages.bad, { assignee: "" }, { assignee: "a/b" }, { parked: "yes" }, { prefix: "a" }],
  ],
];

for (const [part, rows] of [["body", bodies] as const, ["query", queries] as const]) {
  for (const [id, accepted, refused] of rows)
    test(`${id} ${part}`, () => {
      const check = validator(id, part);
      for (const value of accepted)
        assert.ok(
          check(structuredClone(value)),
          `refused ${JSON.stringify(value)}: ${ajv.errorsText(check.errors)}`,
        );
      for (const value of refused) {
        const sent = value === null || typeof value !== "object" ? value : dropUndefined(value);
        assert.equal(check(sent), false, `accepted ${JSON.stringify(value)}`);
      }
    });
  test(`every ${part} has its row`, () => {
    const having = table.filter((route) => route[part] !== undefined).map((route) => route.id);
    assert.deepEqual(having.toSorted(), rows.map(([id]) => id).toSorted());
  });
}

function dropUndefined(value: object): object {
  if (Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined));
}

test("a policy that is read back is the same", () => {
  assert.deepEqual(readPolicy(policyJson(nodePolicyDefault), nodePolicyDefault), {
    values: nodePolicyDefault,
  });
  const own = { claim_ttl_ms: 5000, types: { chore: { statuses: { todo: "planned" }, reclaims_max: 0 } } };
  const read = readPolicy(own, nodePolicyDefault);
  assert.ok("values" in read);
  assert.deepEqual(
    [read.values.claimTtlMs, read.values.reclaimsMax, read.values.types],
    [5000, nodePolicyDefault.reclaimsMax, { chore: { statuses: { todo: "planned" }, reclaimsMax: 0 } }],
  );
  assert.deepEqual(policyJson(read.values).types, own.types);
});

test("what is wrong with a policy is said with its key", () => {
  const rows: readonly (readonly [unknown, RegExp])[] = [
    [null, /the document must be an object/],
    [{ reserve: 1 }, /^reserve is unknown, did you mean reserve_grace_ms\?/],
    [{ reclaims_max: 1.5 }, /^reclaims_max must be a whole number from 0 to 1000/],
    [{ types: { task: { statuses: { open: "planned" }, ttl: 5 } } }, /^types\.task\.ttl is unknown/],
    [
      { types: { task: { statuses: { open: "planned" }, claim_ttl_ms: 5 } } },
      /^types\.task\.claim_ttl_ms must be/,
    ],
    [{ types: { task: { statuses: [] } } }, /^types\.task\.statuses must be an object/],
    [{ types: { task: { statuses: {} } } }, /^types\.task\.statuses must have 1 to 32 entries/],
    [{ types: [] }, /^types must be an object/],
  ];
  for (const [document, message] of rows) {
    const read = readPolicy(document, nodePolicyDefault);
    assert.ok("problem" in read, JSON.stringify(document));
    assert.match(read.problem, message);
  }
});
