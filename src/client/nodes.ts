/**
 * Calls on the work graph, one reply each. A claim that another has throws HeldError, which says who and until when; one
 * that is over throws LeaseLostError. `work` is what most want: it takes the next node, renews and ends it by itself.
 */
import { type Duration, toMs } from "./durations.js";
import { HoldfastError } from "./errors.js";
import type { CallSignal } from "./locks.js";
import { type NextOptions, type NextReply, nextFrom } from "./nodes-next.js";
import type {
  ClaimManyOptions,
  ClaimNodeOptions,
  HistoryQuery,
  ListNodesQuery,
  ManyOptions,
  NewNode,
  NodeCallOptions,
  NodeChanges,
  NodeRef,
  PolicyValues,
  QueueQuery,
  StatusOptions,
} from "./nodes-options.js";
import { leaseNameOf, renewNode } from "./nodes-renewal.js";
import type {
  EdgeAdded,
  EdgeRemoved,
  EdgeType,
  ForEach,
  HistoryPage,
  NodeClaimed,
  NodeExtended,
  NodePage,
  NodePolicy,
  NodeReleased,
  NodeRenewed,
  NodeReserved,
  QueuePage,
  StatusSet,
  Unparked,
  WorkNode,
} from "./nodes-replies.js";
import { type Worked, type WorkOptions, type WorkTask, workOnNext } from "./nodes-work.js";
import { refuseUnknown, refuseUnknownFields } from "./options.js";
import { segment } from "./path.js";
import { newRequestId } from "./request-id.js";
import type { CallOptions, Transport } from "./transport.js";

export class Nodes {
  constructor(readonly transport: Transport) {}

  /** Throws `conflict` if the id is in use. */
  async create(node: NewNode, options: CallSignal = {}): Promise<WorkNode> {
    refuseUnknown("nodes.create", options);
    refuseUnknownFields("nodes.create", node);
    const isAsAsked = (found: WorkNode): boolean => found.revision === 1 && hasAll(found, node);
    return this.#changed(
      node.id,
      { method: "POST", path: "/v1/nodes", body: { ...node }, ...options },
      isAsAsked,
    );
  }

  async get(id: string, options: CallSignal = {}): Promise<WorkNode> {
    refuseUnknown("nodes.get", options);
    return this.transport.ask<WorkNode>({ method: "GET", path: pathOf(id), ...options, expects: nodeFields });
  }

  /** Nodes in order of their ids, one page. */
  async list(query: ListNodesQuery = {}): Promise<NodePage> {
    refuseUnknown("nodes.list", query);
    const { signal, ...rest } = query;
    const call = { method: "GET", path: "/v1/nodes", query: rest, signal } as const;
    return this.transport.ask<NodePage>({ ...call, expects: ["nodes", "nextCursor"] });
  }

  /** Nodes in order of their ids, all of them. */
  async *each(query: ListNodesQuery = {}): AsyncGenerator<WorkNode, void, undefined> {
    let cursor = query.cursor;
    do {
      const page: NodePage = await this.list({ ...query, cursor });
      yield* page.nodes;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** `revision`: as the node was read. Throws `conflict` if it has changed since. */
  async update(
    id: string,
    revision: number,
    changes: NodeChanges,
    options: CallSignal = {},
  ): Promise<WorkNode> {
    refuseUnknown("nodes.update", options);
    refuseUnknownFields("nodes.update", changes);
    const isAsAsked = (found: WorkNode): boolean => found.revision === revision + 1 && hasAll(found, changes);
    const call = { method: "PUT", path: pathOf(id), body: { revision, ...changes }, ...options } as const;
    return this.#changed(id, call, isAsAsked);
  }

  /** A conflict with what this very call did, before its reply was lost, is none. */
  async #changed(id: string, call: CallOptions, isAsAsked: (found: WorkNode) => boolean): Promise<WorkNode> {
    const { call: ask, isMaybeDone } = noticing(call);
    try {
      return await this.transport.ask<WorkNode>({ ...ask, expects: nodeFields });
    } catch (error) {
      if (!isMaybeDone() || codeOf(error) !== "conflict") throw error;
      const found = await this.get(id, { signal: call.signal });
      if (isAsAsked(found)) return found;
      throw error;
    }
  }

  /** `blocks` keeps the other out of the queue until this one is over. That it is there already is fine. */
  async addEdge(id: string, type: EdgeType, to: string, options: CallSignal = {}): Promise<EdgeAdded> {
    refuseUnknown("nodes.addEdge", options);
    const call = this.#post(id, "edges", { type, to }, options);
    return this.transport.ask<EdgeAdded>({ ...call, expects: ["edge", "node"] });
  }

  async removeEdge(id: string, type: EdgeType, to: string, options: CallSignal = {}): Promise<EdgeRemoved> {
    refuseUnknown("nodes.removeEdge", options);
    // In the query: not everything on the way passes on a body with DELETE.
    const call = { method: "DELETE", path: `${pathOf(id)}/edges`, query: { type, to }, ...options } as const;
    return this.transport.ask<EdgeRemoved>({ ...call, resource: leaseNameOf(id), expects: ["edge", "node"] });
  }

  /** What happened to it, oldest first, one page. Heartbeats are not history. */
  async history(id: string, query: HistoryQuery = {}): Promise<HistoryPage> {
    refuseUnknown("nodes.history", query);
    const { signal, ...rest } = query;
    const call = { method: "GET", path: `${pathOf(id)}/history`, query: rest, signal } as const;
    return this.transport.ask<HistoryPage>({ ...call, expects: ["history", "nextAfter"] });
  }

  /** Takes it, or renews the caller's own claim. Throws HeldError if another has it, `not_ready` if nobody can. */
  async claim(id: string, options: ClaimNodeOptions = {}): Promise<NodeClaimed> {
    refuseUnknown("nodes.claim", options);
    const { session, token, dispatch, rebind, requestId = newRequestId() } = options;
    return this.transport.ask<NodeClaimed>({
      ...this.#post(id, "claim", { session, token, dispatch, rebind }, options),
      headers: { "idempotency-key": requestId },
      expects: ["status", "lease"],
    });
  }

  /** The heartbeat. Throws LeaseLostError, which names the present holder, when it is over. */
  async renew(id: string, options: NodeCallOptions = {}): Promise<NodeRenewed> {
    refuseUnknown("nodes.renew", options);
    const { session, token, signal } = options;
    return renewNode(this.transport, { nodeId: id, session, token }, signal);
  }

  /** Stretches the lease by so much, up to the policy's ceiling. Not repeated by itself: each time would add to it. */
  async extend(id: string, by: Duration, options: NodeCallOptions = {}): Promise<NodeExtended> {
    refuseUnknown("nodes.extend", options);
    const { session, token } = options;
    return this.transport.ask<NodeExtended>({
      ...this.#post(id, "extend", { ms: toMs(by, "by"), session, token }, options),
      onUncertain: (error) => {
        throw error;
      },
      expects: ["status", "lease"],
    });
  }

  /** Keeps the claim without heartbeats, for as long as the policy grants. */
  async reserve(id: string, options: NodeCallOptions = {}): Promise<NodeReserved> {
    refuseUnknown("nodes.reserve", options);
    const { session, token } = options;
    const call = this.#post(id, "reserve", { session, token }, options);
    return this.transport.ask<NodeReserved>({ ...call, expects: ["status", "lease"] });
  }

  /** Back into the queue. Succeeds also without a claim; throws HeldError if it is another's. */
  async release(id: string, options: NodeCallOptions = {}): Promise<NodeReleased> {
    refuseUnknown("nodes.release", options);
    const { session, token } = options;
    const { call, isMaybeDone } = noticing(this.#post(id, "release", { session, token }, options));
    try {
      return await this.transport.ask<NodeReleased>({ ...call, expects: ["status", "nodeId"] });
    } catch (error) {
      // The token's lease was there, and its release was not heard of.
      if (!isMaybeDone() || codeOf(error) !== "lease_lost") throw error;
      return { ok: true, status: "released", nodeId: id, edge: "removed" };
    }
  }

  /** An active status claims, a terminal one ends the caller's claim and keeps the record of who carried it. */
  async setStatus(id: string, status: string, options: StatusOptions = {}): Promise<StatusSet> {
    refuseUnknown("nodes.setStatus", options);
    const { session, token, dispatch, reason } = options;
    const body = { status, session, token, dispatch, reason };
    const { call, isMaybeDone } = noticing(this.#post(id, "status", body, options));
    try {
      return await this.transport.ask<StatusSet>({ ...call, expects: ["status", "id", "revision"] });
    } catch (error) {
      if (!isMaybeDone() || codeOf(error) !== "lease_lost") throw error;
      const found = await this.get(id, { signal: options.signal });
      if (found.status !== status) throw error;
      return { status: "updated", id, revision: found.revision };
    }
  }

  /** Puts parked work back into the queue. */
  async unpark(id: string, reason: string, options: CallSignal = {}): Promise<Unparked> {
    refuseUnknown("nodes.unpark", options);
    const { call, isMaybeDone } = noticing(this.#post(id, "unpark", { reason }, options));
    try {
      return await this.transport.ask<Unparked>({ ...call, expects: ["status", "node"] });
    } catch (error) {
      if (!isMaybeDone() || codeOf(error) !== "conflict") throw error;
      return { ok: true, status: "unparked", node: await this.get(id, options) };
    }
  }

  /** What is there to do, the best first, one page. */
  async queue(query: QueueQuery = {}): Promise<QueuePage> {
    refuseUnknown("nodes.queue", query);
    const { signal, ...rest } = query;
    const call = { method: "GET", path: "/v1/queue", query: rest, signal } as const;
    return this.transport.ask<QueuePage>({ ...call, expects: ["items", "nextCursor"] });
  }

  /** Claims the best free node, or answers that there is none; waits for one if asked to. */
  async next(options: NextOptions = {}): Promise<NextReply> {
    refuseUnknown("nodes.next", options);
    return (await nextFrom(this.transport, options)).reply;
  }

  /** Each for itself: each has a result of its own. */
  async claimMany(ids: readonly NodeRef[], options: ClaimManyOptions = {}): Promise<ForEach<NodeClaimed>> {
    refuseUnknown("nodes.claimMany", options);
    const { session, dispatch, requestId = newRequestId(), signal } = options;
    return this.#many("claim", { ids, session, dispatch }, signal, { "idempotency-key": requestId });
  }

  /** Without ids all of the caller's, but for reserved ones. */
  async renewMany(ids: readonly NodeRef[] | null, options: ManyOptions = {}): Promise<ForEach<NodeRenewed>> {
    refuseUnknown("nodes.renewMany", options);
    return this.#many("renew", { ids: ids ?? undefined, session: options.session }, options.signal);
  }

  async releaseMany(ids: readonly NodeRef[], options: ManyOptions = {}): Promise<ForEach<NodeReleased>> {
    refuseUnknown("nodes.releaseMany", options);
    return this.#many("release", { ids, session: options.session }, options.signal);
  }

  #many<Done>(
    verb: string,
    body: Readonly<Record<string, unknown>>,
    signal: AbortSignal | undefined,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ForEach<Done>> {
    const call = { method: "POST", path: `/v1/queue/${verb}`, body, headers, signal } as const;
    return this.transport.ask<ForEach<Done>>({ ...call, expects: ["results"] });
  }

  /** How long claims last, which types there are, what their statuses mean. */
  async policy(options: CallSignal = {}): Promise<NodePolicy> {
    refuseUnknown("nodes.policy", options);
    return this.transport.ask<NodePolicy>({
      method: "GET",
      path: "/v1/policy",
      ...options,
      expects: ["types"],
    });
  }

  /** `revision`: as the policy was read. Throws `conflict` if it has changed since (admin). */
  async setPolicy(revision: number, values: PolicyValues, options: CallSignal = {}): Promise<NodePolicy> {
    refuseUnknown("nodes.setPolicy", options);
    // A policy as it was read has its revision in it.
    const { revision: _, ...rules } = Object(values) as PolicyValues & { revision?: number };
    refuseUnknownFields("nodes.setPolicy", rules);
    for (const [type, own] of Object.entries(rules.types ?? {}))
      refuseUnknownFields("nodes.setPolicy", own, ` in types.${type}`);
    const body = { revision, ...(wireKeys(rules) as object) };
    const call = { method: "PUT", path: "/v1/policy", body, ...options } as const;
    return this.transport.ask<NodePolicy>({ ...call, expects: ["types"] });
  }

  /**
   * Takes the next node, waiting for one, and works on it: renews meanwhile, and in the end sets the status that the work
   * returned, or releases it if it returned none, or threw. Answers null if nothing came within `wait`. Throws
   * LeaseLostError if the claim was lost before the work had ended.
   */
  async work(options: WorkOptions, task: WorkTask): Promise<Worked | null> {
    refuseUnknown("nodes.work", options);
    if (typeof task !== "function")
      throw new TypeError("nodes.work: the second argument is the work itself, a function of the claim");
    return workOnNext(this, options, task);
  }

  #post(id: string, verb: string, body: Record<string, unknown>, { signal }: CallSignal): CallOptions {
    return { method: "POST", path: `${pathOf(id)}/${verb}`, body, signal, resource: leaseNameOf(id) };
  }
}

const nodeFields = ["id", "revision", "edges"] as const;

const pathOf = (id: string): string => `/v1/nodes/${segment(id, "invalid_node")}`;

const codeOf = (error: unknown): string | null => (error instanceof HoldfastError ? error.code : null);

/** The call, and whether one of its attempts may have been done though no reply says so. */
function noticing(call: CallOptions): { readonly call: CallOptions; readonly isMaybeDone: () => boolean } {
  let isMaybeDone = false;
  const onUncertain = (): void => {
    isMaybeDone = true;
  };
  return { call: { ...call, onUncertain }, isMaybeDone: () => isMaybeDone };
}

/** Whether a node has these fields, where null stands for none. */
const hasAll = (node: WorkNode, fields: object): boolean =>
  Object.entries(fields).every(
    ([key, value]) =>
      value === undefined || ((node as unknown as Record<string, unknown>)[key] ?? null) === value,
  );

/** `claimTtlMs` → `claim_ttl_ms`, at every depth but where the keys are people's own. */
function wireKeys(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([key, inner]) => [
    key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    key === "statuses" ? inner : wireKeys(inner),
  ]);
  return Object.fromEntries(fields);
}
