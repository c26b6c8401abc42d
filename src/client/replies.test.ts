// The client's own words for replies and the wire's schemas of them cannot drift apart: the compiler compares each
// pair, field by field. A field that only one side has, or that differs, does not compile.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode as WireErrorCode } from "../wire/error-codes.js";
import type * as wireFields from "../wire/fields.js";
import type * as wireJobs from "../wire/jobs.js";
import type * as wireLocks from "../wire/locks.js";
import type * as wireClaims from "../wire/node-claims.js";
import type { NodeErrorCode } from "../wire/node-errors.js";
import type { NodeLease as WireNodeLease } from "../wire/node-fields.js";
import type { PolicyView } from "../wire/node-policy.js";
import type * as wireNodes from "../wire/nodes.js";
import type * as wireOperate from "../wire/operate.js";
import type * as wireSessions from "../wire/sessions.js";
import type { ErrorCode } from "./errors.js";
import type * as nodes from "./nodes-replies.js";
import type * as client from "./replies.js";
import { camelKeys } from "./transport.js";

type Camel<Key> = Key extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<Camel<Rest>>}` : Key;
type InstantKey = `${string}_at` | "at" | "since";
type Dated<Value> = Value extends string ? Date : Value;

/** What `camelKeys` makes of a reply. */
type Translated<Value> = Value extends readonly (infer Item)[]
  ? readonly Translated<Item>[]
  : Value extends object
    ? {
        [Key in keyof Value as Camel<Key>]: Key extends "metadata"
          ? unknown
          : Key extends InstantKey
            ? Dated<Value[Key]>
            : Translated<Value[Key]>;
      }
    : Value;

type Equal<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
/** The same keys, and each with the same type; what people put into `metadata` has none on the wire. */
type Same<Wire, Client, Left extends PropertyKey = never> = Equal<
  Exclude<keyof Translated<Wire>, Left>,
  Exclude<keyof Client, Left>
> &
  Equal<Omit<Translated<Wire>, Left | "metadata">, Omit<Client, Left | "metadata">>;

/** What errors have beside their answer: of it the client gives `details`, and of `code` the two that can be. */
type OfErrors = "error" | "requestId" | "code";
type OfDelays = OfErrors | "retryAfterMs";

interface Compared {
  errorCodes: Equal<WireErrorCode | NodeErrorCode, Exclude<ErrorCode, "unreachable" | "not_holdfast">>;
  holder: Same<wireLocks.Holder, client.Holder>;
  previous: Same<wireFields.PreviousHolder, client.PreviousHolder>;
  acquired: Same<wireLocks.Acquired, client.Acquired>;
  held: Same<wireLocks.Held, client.Held>;
  delayed: Same<wireLocks.Delayed, client.Delayed, OfDelays>;
  renewed: Same<wireLocks.Renewed, client.Renewed>;
  extended: Same<wireLocks.Extended, client.Extended>;
  lock: Same<wireLocks.LockView, client.Lock>;
  lockPage: Same<wireLocks.LockList, client.LockPage, "locks">;
  /** `lock_name` is `name` once more. */
  lockEvent: Same<wireLocks.LockEvent, client.LockEvent, "lockName">;
  synced: Same<wireLocks.SyncedEvent, client.StreamEvent & { event: "synced" }>;
  reset: Same<wireLocks.ResetEvent, client.StreamEvent & { event: "reset" }>;
  claimed: Same<wireJobs.Claimed, client.Claimed>;
  claimRefused: Same<wireJobs.ClaimRefused, client.ClaimRefused, OfErrors>;
  candidateRefused: Same<wireJobs.CandidateRefused, client.CandidateRefused, "code">;
  noneClaimed: Same<wireJobs.ClaimAnyRefused, client.NoneClaimed, OfDelays | "candidates">;
  heartbeat: Same<wireJobs.HeartbeatReply, client.Heartbeat>;
  heartbeatMany: Same<wireJobs.HeartbeatManyReply, client.HeartbeatMany, "lost">;
  lostLease: Same<wireJobs.LostLease, client.LostLease, "code">;
  job: Same<wireJobs.JobView, client.Job>;
  jobPage: Same<wireJobs.JobList, client.JobPage, "jobs">;
  sessionCreated: Same<wireSessions.SessionCreated, client.SessionCreated>;
  keepalive: Same<wireSessions.KeepaliveReply, client.Keepalive>;
  session: Same<wireSessions.SessionView, client.Session>;
  whoami: Same<wireOperate.WhoAmI, client.WhoAmI>;
  nodeErrorCodes: Equal<NodeErrorCode, nodes.NodeWireCode>;
  nodeLease: Same<WireNodeLease, nodes.NodeLease>;
  node: Same<wireNodes.NodeView, nodes.WorkNode>;
  nodePage: Same<wireNodes.NodeList, nodes.NodePage>;
  edgeAdded: Same<wireNodes.EdgeAdded, nodes.EdgeAdded>;
  edgeRemoved: Same<wireNodes.EdgeRemoved, nodes.EdgeRemoved>;
  unparked: Same<wireNodes.Unparked, nodes.Unparked>;
  nodeHistory: Same<wireNodes.NodeHistory, nodes.HistoryPage>;
  nodeClaimed: Same<wireClaims.NodeClaimed, nodes.NodeClaimed>;
  nodeRenewed: Same<wireClaims.NodeRenewed, nodes.NodeRenewed>;
  nodeExtended: Same<wireClaims.NodeExtended, nodes.NodeExtended>;
  nodeReserved: Same<wireClaims.NodeReserved, nodes.NodeReserved>;
  nodeReleased: Same<wireClaims.NodeReleased, nodes.NodeReleased>;
  statusSet: Same<wireClaims.NodeStatusSet, nodes.StatusSet>;
  nextClaimed: Same<wireClaims.WorkClaimed, nodes.NextClaimed>;
  nothingFree: Same<wireClaims.NoWork, nodes.NothingFree>;
  queue: Same<wireClaims.Queue, nodes.QueuePage>;
  claimMany: Same<wireClaims.NodesClaimed, nodes.ForEach<nodes.NodeClaimed>>;
  renewMany: Same<wireClaims.NodesRenewed, nodes.ForEach<nodes.NodeRenewed>>;
  releaseMany: Same<wireClaims.NodesReleased, nodes.ForEach<nodes.NodeReleased>>;
  /** The statuses' names are people's own. */
  policy: Same<PolicyView, nodes.NodePolicy, "types">;
}

type Drifted = { [Key in keyof Compared]: [Compared[Key]] extends [never] ? Key : never }[keyof Compared];
/** Compiles only while nothing drifted; otherwise the error names what did. */
const drifted: Drifted[] & { readonly [Key in Drifted]: "differs" } = [];

test("the client's replies are the wire's", () => {
  assert.deepEqual(drifted, []);
});

test("keys in camelCase and instants as dates, but not within metadata", () => {
  const translated = camelKeys({
    expires_in_ms: 5,
    expires_at: "2031-01-02T03:04:05.000Z",
    holder: { since: "2031-01-02T03:04:05.000Z", session: null },
    metadata: { started_at: "noon", a_b: 1 },
    leases: [{ lease_id: "ls_1" }],
  });
  assert.deepEqual(translated, {
    expiresInMs: 5,
    expiresAt: new Date("2031-01-02T03:04:05.000Z"),
    holder: { since: new Date("2031-01-02T03:04:05.000Z"), session: null },
    metadata: { started_at: "noon", a_b: 1 },
    leases: [{ leaseId: "ls_1" }],
  });
});
