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
  NewNode,
  NodeCallOptions,
  NodeChanges,
  PolicyValues,
  QueueQuery,
  StatusOptions,
} from "./nodes-options.js";
import type { TypePolicy } from "./nodes-replies.js";
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

/** What the server is told, where that is an argument of its own. */
interface Told {
  "nodes.create": NewNode;
  "nodes.update": NodeChanges;
  "nodes.setPolicy": PolicyValues;
}

const content = { title: null, summary: null, priority: null, project: null } as const;
const times = { claimTtlMs: null, claimTtlMaxMs: null, reserveGraceMs: null, reclaimsMax: null } as const;
const told: { readonly [Call in keyof Told]: Named<Told[Call]> } = {
  "nodes.create": { id: null, type: null, status: null, ...content },
  "nodes.update": content,
  "nodes.setPolicy": { types: null, ...times },
};
const typeTold: Named<TypePolicy> = { statuses: null, ...times };

/** Throws a TypeError that names the option, and the one that was meant. */
export function refuseUnknown(call: string, options: object): void {
  if (typeof options !== "object" || options === null)
    throw new TypeError(`${call}: options are an object, as { ttl: "30s" }: got ${kindOf(options)}`);
  const names = Object.keys(Object.hasOwn(known, call) ? known[call as keyof Calls] : onlySignal);
  refuseOthers(names, options, (option) => `${call}: unknown option ${option}`);
}

/** The same of what the server is to be told. `within`: in which part of it, if that is a type's own. */
export function refuseUnknownFields(call: keyof Told, fields: object, within = ""): void {
  if (typeof fields !== "object" || fields === null)
    throw new TypeError(`${call}: give the fields${within} as an object: got ${kindOf(fields)}`);
  const names = Object.keys(within === "" ? told[call] : typeTold);
  refuseOthers(names, fields, (field) => `${call}: unknown field ${field}${within}`);
}

const kindOf = (value: unknown): string => (value === null ? "null" : `a ${typeof value}`);

function refuseOthers(names: readonly string[], given: object, words: (name: string) => string): void {
  for (const [name, value] of Object.entries(given)) {
    if (names.includes(name) || value === undefined) continue;
    const meant = nearest(name, names);
    const advice = meant === undefined ? `there are ${names.join(", ")}` : `did you mean ${meant}?`;
    throw new TypeError(`${words(JSON.stringify(name))}: ${advice}`);
  }
}
