/**
 * The work graph as a service: turns calls into steps over the same store and leases. No rule is here; they are in
 * core/nodes/. Waiting for work stands beside it.
 */
import type { Decision, Range, View } from "../core/decision.js";
import { afterPrefix, historyKey, nodeKey, policyKey } from "../core/keys.js";
import type { Policy } from "../core/limits.js";
import {
  type ClaimCall,
  type ClaimReply,
  claimKeys,
  decideClaim,
  type NodeCall,
} from "../core/nodes/claim.js";
import { type ClaimMany, claimManyKeys, decideClaimMany } from "../core/nodes/claim-many.js";
import {
  decideAddEdge,
  decideBehind,
  decideRemoveEdge,
  type EdgeCall,
  type EdgeReply,
  edgeKeys,
} from "../core/nodes/edges.js";
import {
  decideCreateNode,
  decideLookNode,
  decideLookPolicy,
  decideSetPolicy,
  decideUnpark,
  decideUpdateNode,
  type NewNode,
  type NodeUpdate,
  type PolicyChange,
  type PolicyNow,
  type Unpark,
} from "../core/nodes/edit.js";
import { decideGiveBack } from "../core/nodes/give-back.js";
import {
  decideExtendNode,
  decideReleaseNode,
  decideReleaseNodes,
  decideRenewNode,
  decideRenewNodes,
  decideReserveNode,
  type ExtendedNode,
  nodeCallKeys,
  type ReleaseNodeReply,
  type RenewNodeReply,
  type ReservedNode,
} from "../core/nodes/lease-calls.js";
import type { NodeNow } from "../core/nodes/node-now.js";
import { assignedPrefix, readyPrefix, takenPrefix } from "../core/nodes/rank.js";
import type { HistoryRecord, NodeRecord } from "../core/nodes/records.js";
import type { NodeRefusal } from "../core/nodes/refusal.js";
import { decideStatus, type StatusCall, type StatusReply } from "../core/nodes/status.js";
import { systemTimer, type Timer } from "../store/clock.js";
import { StoreError } from "../store/store.js";
import { fitting, stepMaxOf } from "./bulk.js";
import type { Leases } from "./leases.js";
import { NextWork } from "./next-work.js";

/** A page of nodes in the order of an index. */
export interface NodeQuery {
  readonly range: Omit<Range, "limit">;
  readonly after: string | null;
  readonly limit: number;
  readonly accept: (node: NodeRecord) => boolean;
}

export interface NodePage {
  readonly nodes: readonly NodeNow[];
  /** Where the next page begins, or null. */
  readonly next: string | null;
}

/** One reply of many: what was decided, or why it is not known to be. */
export type EachReply<Reply> = Reply | { readonly failed: unknown };

/** Nodes looked at for one page of a filtered list; a page may be short, its cursor goes on. */
const listScanMax = 4096;
const listChunk = 256;
/** Characters of summaries and edges in one page, about: nodes may be large, and a page is kept until it was sent. */
const pageCharsMax = 1_000_000;
const edgeChars = 200;
/** Calls of a bulk route that share one step, where the store takes so many. */
const bulkStep = 64;
/** A node, its lease, and perhaps a request. */
const reliesOfCall = 3;

export const allNodes = (space: string, prefix: string): NodeQuery["range"] =>
  indexRange("node", `${space}/${prefix}`);
export const readyNodes = (space: string, type: string | null): NodeQuery["range"] =>
  indexRange("ready", readyPrefix(space, type));
export const takenNodes = (space: string, type: string | null): NodeQuery["range"] =>
  indexRange("taken", takenPrefix(space, type));
export const assignedNodes = (space: string, principal: string): NodeQuery["range"] =>
  indexRange("assigned", assignedPrefix(space, principal));
export const parkedNodes = (space: string): NodeQuery["range"] => indexRange("parked", `${space}/`);

const indexRange = (index: Range["index"], prefix: string): NodeQuery["range"] => ({
  index,
  from: prefix,
  to: afterPrefix(prefix),
});

export class Nodes {
  readonly work: NextWork;
  readonly policy: Policy;

  constructor(
    readonly leases: Leases,
    after: Timer = systemTimer,
  ) {
    this.policy = leases.policy;
    this.work = new NextWork(
      leases,
      (call) => this.#run(nodeCallKeys(call), (view) => decideGiveBack(view, call, this.policy)),
      after,
    );
  }

  create(call: NewNode): Promise<NodeRecord | NodeRefusal> {
    return this.#run([nodeKey(call.space, call.id), policyKey(call.space)], (view) =>
      decideCreateNode(view, call, this.policy),
    );
  }

  look(space: string, id: string): Promise<NodeNow | NodeRefusal> {
    return this.#run(nodeCallKeys({ space, id }), (view) => decideLookNode(view, space, id, this.policy));
  }

  update(call: NodeUpdate): Promise<NodeRecord | NodeRefusal> {
    return this.#run(nodeCallKeys(call), (view) => decideUpdateNode(view, call, this.policy));
  }

  /** A chain of blocks may be longer than one decision has rounds: what lies behind the target is collected first. */
  async addEdge(call: EdgeCall): Promise<EdgeReply | NodeRefusal> {
    const behind = new Set<string>();
    let level: readonly string[] = call.type === "blocks" ? [call.to] : [];
    while (level.length > 0) {
      for (const id of level) behind.add(id);
      const ids = level;
      level = await this.#run([], (view) => decideBehind(view, call.space, ids, behind, this.policy));
    }
    const keys = [...edgeKeys(call), ...[...behind].map((id) => nodeKey(call.space, id))];
    return this.#run(keys, (view) => decideAddEdge(view, call, this.policy));
  }

  removeEdge(call: EdgeCall): Promise<EdgeReply | NodeRefusal> {
    return this.#run(edgeKeys(call), (view) => decideRemoveEdge(view, call, this.policy));
  }

  async claim(call: ClaimCall): Promise<ClaimReply> {
    return this.#counted(await this.#run(claimKeys(call), (view) => decideClaim(view, call, this.policy)));
  }

  claimMany(many: ClaimMany): Promise<readonly EachReply<ClaimReply>[]> {
    return this.#eachInSteps(many.calls, async (calls) => {
      const some = { ...many, calls };
      const replies = await this.#run(claimManyKeys(some), (view) =>
        decideClaimMany(view, some, this.policy),
      );
      return replies.map((reply) => this.#counted(reply));
    });
  }

  #counted(reply: ClaimReply): ClaimReply {
    if ("refused" in reply) this.leases.counters.refused++;
    return reply;
  }

  renew(call: NodeCall): Promise<RenewNodeReply> {
    return this.#run(nodeCallKeys(call), (view) => decideRenewNode(view, call, this.policy));
  }

  renewMany(calls: readonly NodeCall[]): Promise<readonly EachReply<RenewNodeReply>[]> {
    return this.#eachInSteps(calls, (some) =>
      this.#run(some.flatMap(nodeCallKeys), (view) => decideRenewNodes(view, some, this.policy)),
    );
  }

  extend(call: NodeCall & { readonly ms: number }): Promise<ExtendedNode | NodeRefusal> {
    return this.#run(nodeCallKeys(call), (view) => decideExtendNode(view, call, this.policy));
  }

  reserve(call: NodeCall): Promise<ReservedNode | NodeRefusal> {
    return this.#run(nodeCallKeys(call), (view) => decideReserveNode(view, call, this.policy));
  }

  release(call: NodeCall): Promise<ReleaseNodeReply> {
    return this.#run(nodeCallKeys(call), (view) => decideReleaseNode(view, call, this.policy));
  }

  releaseMany(calls: readonly NodeCall[]): Promise<readonly EachReply<ReleaseNodeReply>[]> {
    return this.#eachInSteps(calls, (some) =>
      this.#run(some.flatMap(nodeCallKeys), (view) => decideReleaseNodes(view, some, this.policy)),
    );
  }

  setStatus(call: StatusCall): Promise<StatusReply | NodeRefusal> {
    return this.#run(claimKeys(call), (view) => decideStatus(view, call, this.policy));
  }

  unpark(call: Unpark): Promise<NodeRecord | NodeRefusal> {
    return this.#run(nodeCallKeys(call), (view) => decideUnpark(view, call, this.policy));
  }

  lookPolicy(space: string): Promise<PolicyNow> {
    return this.#run([policyKey(space)], (view) => decideLookPolicy(view, space, this.policy));
  }

  setPolicy(call: PolicyChange): Promise<PolicyNow | NodeRefusal> {
    return this.#run([policyKey(call.space)], (view) => decideSetPolicy(view, call, this.policy));
  }

  /** Entries after `after`, oldest first; null: there is no such node. */
  async history(
    space: string,
    id: string,
    after: number,
    limit: number,
  ): Promise<{ readonly entries: readonly HistoryRecord[]; readonly next: number | null } | null> {
    const node = await this.look(space, id);
    if ("refused" in node) return null;
    const last = Math.min(node.node.history, after + limit);
    const keys = Array.from({ length: Math.max(0, last - after) }, (_, i) =>
      historyKey(space, id, after + 1 + i),
    );
    const entries = await this.#run(keys, (view) => ({
      reply: keys.flatMap((key) => view.get(key) ?? []),
      writes: [],
      events: [],
    }));
    return { entries, next: last < node.node.history ? last : null };
  }

  /** What is over is settled first, so a list never shows a lease that is. */
  async list(query: NodeQuery): Promise<NodePage> {
    await this.leases.upkeep.settleDue();
    const { index, to } = query.range;
    const nodes: NodeRecord[] = [];
    let chars = 0;
    let from =
      query.after === null || query.after < query.range.from ? query.range.from : `${query.after}\u0000`;
    const page = async (next: string | null): Promise<NodePage> => ({ nodes: await this.#now(nodes), next });
    for (let scanned = 0; scanned < listScanMax; ) {
      const limit = Math.min(listChunk, query.limit + 1);
      const rows = await this.leases.store.list({ index, from, to, limit });
      for (const { sort, record } of rows) {
        if (nodes.length === query.limit || chars > pageCharsMax) return page(from.slice(0, -1));
        from = `${sort}\u0000`;
        scanned++;
        if (record.kind !== "node" || !query.accept(record)) continue;
        nodes.push(record);
        chars += (record.summary?.length ?? 0) + edgeChars * record.edges.length;
      }
      if (rows.length < limit) return page(null);
    }
    return page(from.slice(0, -1));
  }

  /** The listed nodes with their leases, both as of one step. */
  async #now(nodes: readonly NodeRecord[]): Promise<readonly NodeNow[]> {
    const found = await this.#inSteps(nodes, (some) =>
      Promise.all(some.map(({ space, id }) => this.look(space, id))),
    );
    return found.flatMap((node) => ("refused" in node ? [] : [node]));
  }

  /** How many of the range are accepted, looking at `most` of it. */
  async count(
    range: NodeQuery["range"],
    accept: (node: NodeRecord) => boolean,
    most: number,
  ): Promise<{ readonly count: number; readonly isLeast: boolean }> {
    let count = 0;
    let { from } = range;
    for (let left = most; ; ) {
      const limit = Math.min(listChunk, left + 1);
      const rows = await this.leases.store.list({ ...range, from, limit });
      for (const { sort, record } of rows) {
        // One more than are counted tells whether that was all.
        if (left-- === 0) return { count, isLeast: true };
        from = `${sort}\u0000`;
        if (record.kind === "node" && accept(record)) count++;
      }
      if (rows.length < limit) return { count, isLeast: false };
    }
  }

  #run<Reply>(keys: Parameters<Leases["run"]>[0], decide: (view: View) => Decision<Reply>): Promise<Reply> {
    return this.leases.run(keys, decide);
  }

  /**
   * Each call's reply, a step for some of them at a time. Once a step is done the call as a whole can neither be undone nor
   * fail: what fails later is told of the calls that it is true of. Those after it are not tried.
   */
  async #eachInSteps<Call, Reply>(
    calls: readonly Call[],
    step: (some: readonly Call[]) => Promise<readonly Reply[]>,
  ): Promise<readonly EachReply<Reply>[]> {
    const replies: EachReply<Reply>[] = [];
    const stepMax = Math.min(bulkStep, stepMaxOf(this.leases.store, reliesOfCall));
    for (let at = 0; at < calls.length; at += stepMax) {
      const some = calls.slice(at, at + stepMax);
      try {
        replies.push(...(await fitting(some, step)));
      } catch (error) {
        if (at === 0) throw error;
        const untried = new StoreError("unavailable", "the ones before it failed, so it was not tried");
        for (const _ of some) replies.push({ failed: error });
        while (replies.length < calls.length) replies.push({ failed: untried });
        return replies;
      }
    }
    return replies;
  }

  async #inSteps<Call, Reply>(
    calls: readonly Call[],
    step: (some: readonly Call[]) => Promise<readonly Reply[]>,
  ): Promise<readonly Reply[]> {
    const replies: Reply[] = [];
    for (let at = 0; at < calls.length; at += bulkStep)
      replies.push(...(await step(calls.slice(at, at + bulkStep))));
    return replies;
  }
}
