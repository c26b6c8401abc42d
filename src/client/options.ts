/**
 * Which options each call knows. Any other is refused: in plain JavaScript a misspelt one would be passed over without a
 * word, and a lease be held for another time than was meant. The compiler holds the table against the types.
 */
import { nearest } from "../core/nearest.js";
import type { ClientOptions, HoldOptions } from "./client.js";
import type { ClaimOptions, HeartbeatOptions, ListJobsQuery, ReleaseJobOptions } from "./jobs.js";
import type { AcquireOptions, CallSignal, ListQuery, RenewOptions } from "./locks.js";
import type { NextOptions } from "./nodes-next.js";
import type {
  ClaimManyOptions,
  ClaimNodeOptions,
  HistoryQuery,
  ListNodesQuery,
  ManyOptions,
  NodeCallOptions,
  QueueQuery,
  StatusOptions,
} from "./nodes-options.js";
import type { WorkOptions } from "./nodes-work.js";
import type { SessionOptions } from "./sessions.js";
import type { WatchOptions } from "./watch.js";

/** The calls that have more options than a signal. */
interface Calls {
  createClient: ClientOptions;
  hold: HoldOptions;
  acquire: AcquireOptions;
  renew: RenewOptions;
  list: ListQuery;
  claim: ClaimOptions;
  claimFirst: Omit<ClaimOptions, "wait" | "onWaiting">;
  heartbeat: HeartbeatOptions;
  releaseJob: ReleaseJobOptions;
  listJobs: ListJobsQuery;
  createSession: SessionOptions;
  watch: WatchOptions;
  "nodes.list": ListNodesQuery;
  "nodes.history": HistoryQuery;
  "nodes.claim": ClaimNodeOptions;
  "nodes.renew": NodeCallOptions;
  "nodes.extend": NodeCallOptions;
  "nodes.reserve": NodeCallOptions;
  "nodes.release": NodeCallOptions;
  "nodes.setStatus": StatusOptions;
  "nodes.queue": QueueQuery;
  "nodes.next": NextOptions;
  "nodes.claimMany": ClaimManyOptions;
  "nodes.renewMany": ManyOptions;
  "nodes.releaseMany": ManyOptions;
  "nodes.work": WorkOptions;
}

type Named<Options> = { readonly [Key in keyof Options]-?: null };

const signal = null;
const paging = { prefix: null, mine: null, limit: null, cursor: null, signal } as const;
const claiming = {
  owner: null,
  metadata: null,
  ttl: null,
  sessionId: null,
  requestId: null,
  signal,
} as const;
const taking = {
  ttl: null,
  wait: null,
  metadata: null,
  sessionId: null,
  lockDelay: null,
  requestId: null,
  onWaiting: null,
  signal,
} as const;

const run = { session: null, signal } as const;
const nodeCall = { ...run, token: null } as const;

const known: { readonly [Call in keyof Calls]: Named<Calls[Call]> } = {
  createClient: { url: null, token: null, space: null, timeout: null, retries: null, fetch: null },
  hold: { ...taking, renewIn: null },
  acquire: { ...taking, leaseId: null },
  renew: { ttl: null, signal },
  list: paging,
  claim: { ...claiming, wait: null, onWaiting: null },
  claimFirst: claiming,
  heartbeat: { ttl: null, progress: null, signal },
  releaseJob: { outcome: null, note: null, signal },
  listJobs: { ...paging, owner: null },
  createSession: { ttl: null, metadata: null, signal },
  watch: { name: null, prefix: null, onConnection: null, signal },
  "nodes.list": { type: null, status: null, prefix: null, limit: null, cursor: null, signal },
  "nodes.history": { after: null, limit: null, signal },
  "nodes.claim": { ...nodeCall, dispatch: null, rebind: null, requestId: null },
  "nodes.renew": nodeCall,
  "nodes.extend": nodeCall,
  "nodes.reserve": nodeCall,
  "nodes.release": nodeCall,
  "nodes.setStatus": { ...nodeCall, dispatch: null, reason: null },
  "nodes.queue": { assignee: null, type: null, parked: null, limit: null, cursor: null, signal },
  "nodes.next": { ...run, type: null, dispatch: null, wait: null, requestId: null, onWaiting: null },
  "nodes.claimMany": { ...run, dispatch: null, requestId: null },
  "nodes.renewMany": run,
  "nodes.releaseMany": run,
  "nodes.work": { ...run, type: null, wait: null, onWaiting: null },
};
const onlySignal: Named<CallSignal> = { signal };

/** Throws a TypeError that names the option, and the one that was meant. */
export function refuseUnknown(call: string, options: object): void {
  if (typeof options !== "object" || options === null)
    throw new TypeError(
      `${call}: options are an object, as { ttl: "30s" }: got ${options === null ? "null" : `a ${typeof options}`}`,
    );
  const names = Object.keys(Object.hasOwn(known, call) ? known[call as keyof Calls] : onlySignal);
  for (const [option, value] of Object.entries(options)) {
    if (names.includes(option) || value === undefined) continue;
    const meant = nearest(option, names);
    const advice = meant === undefined ? `there are ${names.join(", ")}` : `did you mean ${meant}?`;
    throw new TypeError(`${call}: unknown option ${JSON.stringify(option)}: ${advice}`);
  }
}
