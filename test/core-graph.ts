/**
 * A work graph for testing its rules alone, and what must be true of it after every step, stated a second time: what can
 * be taken is found by looking at every node, edge and lease, never by the index or the fields that the rules keep.
 */
import assert from "node:assert/strict";
import type { Decision, View } from "../src/core/decision.js";
import { historyKey, type Key, lockKey, policyKey } from "../src/core/keys.js";
import { type Policy, policyDefault } from "../src/core/limits.js";
import { type ClaimCall, claimKeys, decideClaim, type NodeCall } from "../src/core/nodes/claim.js";
import { claimManyKeys, decideClaimMany } from "../src/core/nodes/claim-many.js";
import { decideAddEdge, decideRemoveEdge } from "../src/core/nodes/edges.js";
import {
  decideCreateNode,
  decideLookNode,
  decideSetPolicy,
  decideUnpark,
  decideUpdateNode,
} from "../src/core/nodes/edit.js";
import { decideGiveBack } from "../src/core/nodes/give-back.js";
import {
  decideExtendNode,
  decideReleaseNode,
  decideRenewNode,
  decideReserveNode,
  nodeCallKeys,
} from "../src/core/nodes/lease-calls.js";
import { decideNext, nextKeys } from "../src/core/nodes/next.js";
import type { NodePolicy } from "../src/core/nodes/policy.js";
import { readyPrefix } from "../src/core/nodes/rank.js";
import type { EdgeType, HistoryRecord, NodeRecord, Priority } from "../src/core/nodes/records.js";
import { decideStatus } from "../src/core/nodes/status.js";
import { decideForceRelease } from "../src/core/release.js";
import { decideSweep } from "../src/core/sweep.js";
import { World } from "./core-world.js";

export const space = "default";

/** Short times, so that a history of small ticks sees all of them. */
export const graphPolicy: Policy = {
  ...policyDefault,
  nodes: {
    ...policyDefault.nodes,
    claimTtlMs: 10,
    claimTtlMaxMs: 40,
    reserveGraceMs: 60,
    reclaimsMax: 2,
  },
};

type Labels = Partial<Pick<ClaimCall, "session" | "dispatch" | "rebind" | "token" | "request">>;

export class Graph {
  readonly world = new World(graphPolicy);
  #leases = 0;
  #audits = 0;

  get now(): number {
    return this.world.now;
  }

  tick(ms: number): void {
    this.world.now += ms;
  }

  create(id: string, more: { type?: string; priority?: Priority; status?: string } = {}) {
    const { type = "task", priority = null, status = null } = more;
    const call = {
      space,
      principal: "ann",
      id,
      type,
      title: id,
      summary: null,
      status,
      priority,
      project: null,
    };
    return this.#step([], (view, policy) => decideCreateNode(view, call, policy));
  }

  #claimCall(principal: string, id: string, labels: Labels): ClaimCall {
    const plain = { session: null, dispatch: null, rebind: false, token: null, request: null };
    return { space, principal, id, leaseId: `lease-${++this.#leases}`, ...plain, ...labels };
  }

  claim(principal: string, id: string, labels: Labels = {}) {
    const call = this.#claimCall(principal, id, labels);
    return this.#step(claimKeys(call), (view, policy) => decideClaim(view, call, policy));
  }

  claimMany(principal: string, ids: readonly string[], request: ClaimCall["request"]) {
    const many = { space, principal, calls: ids.map((id) => this.#claimCall(principal, id, {})), request };
    return this.#step(claimManyKeys(many), (view, policy) => decideClaimMany(view, many, policy));
  }

  next(principal: string, type: string | null = null, accepts: ((id: string) => boolean) | null = null) {
    const { outcome } = this.ask(principal, { type, accepts });
    assert.ok(!("refused" in outcome), "what stands in the queue can be taken");
    return { outcome };
  }

  ask(
    principal: string,
    more: {
      type?: string | null;
      accepts?: ((id: string) => boolean) | null;
      request?: ClaimCall["request"];
    } = {},
  ) {
    const plain = { type: null, accepts: null, from: "", rows: 2 };
    const call = { ...this.#claimCall(principal, "", {}), ...plain, ...more };
    return this.#step(nextKeys(call), (view, policy) => decideNext(view, call, policy));
  }

  /** Gives the node back as one that its claimer never heard of; null: the token of its live claim. */
  giveBack(principal: string, id: string, token: number | null = null): boolean {
    const unheard = [this.#lease(id)?.id ?? ""];
    const call = { space, principal, id, token: token ?? this.node(id)?.claim?.token ?? 0, unheard };
    return this.#step(nodeCallKeys(call), (view, policy) => decideGiveBack(view, call, policy)).isGivenBack;
  }

  /** Takes the next node and gives it back: what it was before is what it is. */
  nextUnheard(principal: string): void {
    const before = new Map(this.nodes().map((node) => [node.id, unnumbered(node)]));
    const { outcome } = this.ask(principal);
    if (!("edge" in outcome)) return;
    const { id } = outcome.node;
    assert.ok(this.giveBack(principal, id), "nobody has named it since");
    assert.deepEqual(unnumbered(this.node(id) as NodeRecord), before.get(id));
  }

  #call(principal: string, id: string, labels: Partial<NodeCall>): NodeCall {
    return { space, principal, id, session: null, token: null, ...labels };
  }

  renew(principal: string, id: string, labels: Partial<NodeCall> = {}) {
    const call = this.#call(principal, id, labels);
    return this.#step(nodeCallKeys(call), (view, policy) => decideRenewNode(view, call, policy));
  }

  extend(principal: string, id: string, ms: number) {
    return this.extendWith(principal, id, null, ms);
  }

  extendWith(principal: string, id: string, token: number | null, ms = 1) {
    const call = { ...this.#call(principal, id, { token }), ms };
    return this.#step(nodeCallKeys(call), (view, policy) => decideExtendNode(view, call, policy));
  }

  reserve(principal: string, id: string) {
    const call = this.#call(principal, id, {});
    return this.#step(nodeCallKeys(call), (view, policy) => decideReserveNode(view, call, policy));
  }

  release(principal: string, id: string, labels: Partial<NodeCall> = {}) {
    const call = this.#call(principal, id, labels);
    return this.#step(nodeCallKeys(call), (view, policy) => decideReleaseNode(view, call, policy));
  }

  status(principal: string, id: string, status: string, more: string | Labels | null = null) {
    const force = typeof more === "string" ? more : null;
    const labels = typeof more === "string" ? {} : (more ?? {});
    const call = {
      ...this.#claimCall(principal, id, labels),
      status,
      reason: force,
      mayForce: force !== null,
    };
    return this.#step(claimKeys(call), (view, policy) => decideStatus(view, call, policy));
  }

  edge(does: "add" | "remove", id: string, type: EdgeType, to: string) {
    const call = { space, principal: "ann", id, type, to };
    const decide = does === "add" ? decideAddEdge : decideRemoveEdge;
    return this.#step([], (view, policy) => decide(view, call, policy));
  }

  setPriority(id: string, priority: Priority | null) {
    const call = { space, principal: "ann", id, revision: this.node(id)?.revision ?? 0, priority };
    return this.#step([], (view, policy) => decideUpdateNode(view, call, policy));
  }

  unpark(id: string) {
    const call = { space, principal: "ann", id, reason: "mended" };
    return this.#step([], (view, policy) => decideUnpark(view, call, policy));
  }

  /** Each type as it is said here, else as it was in the beginning; null: the policy has it no more. */
  setTypes(changes: Readonly<Record<string, NodePolicy["types"][string] | null>>) {
    const types = Object.entries({ ...graphPolicy.nodes.types, ...changes }).filter(
      ([, type]) => type !== null,
    );
    const values = { ...graphPolicy.nodes, types: Object.fromEntries(types) as NodePolicy["types"] };
    const revision = this.world.record(policyKey(space))?.revision ?? 0;
    const call = { space, principal: "root", revision, values, auditId: `policy-${revision}`, wallAt: 0 };
    return this.#step([], (view, policy) => decideSetPolicy(view, call, policy));
  }

  look(id: string) {
    return this.#step([], (view, policy) => decideLookNode(view, space, id, policy));
  }

  force(id: string) {
    const call = {
      space,
      name: `node:${id}`,
      by: "root",
      reason: "stuck",
      auditId: `a-${++this.#audits}`,
      wallAt: 0,
    };
    return this.#step([], (view, policy) => decideForceRelease(view, call, policy));
  }

  sweep() {
    return this.#step([], (view, policy) => decideSweep(view, policy));
  }

  #step<Reply>(keys: readonly Key[], decide: (view: View, policy: Policy) => Decision<Reply>): Reply {
    const { reply } = this.world.step(keys, (view) => decide(view, graphPolicy));
    this.check();
    return reply;
  }

  node(id: string): NodeRecord | undefined {
    return this.nodes().find((node) => node.id === id);
  }

  nodes(): NodeRecord[] {
    return [...this.world.records()].flatMap(([, record]) => (record.kind === "node" ? [record] : []));
  }

  history(id: string): HistoryRecord[] {
    const count = this.node(id)?.history ?? 0;
    return Array.from({ length: count }, (_, i) => {
      const entry = this.world.record(historyKey(space, id, i + 1));
      assert.ok(entry !== null, `history of ${id} has a gap at ${i + 1}`);
      return entry;
    });
  }

  /** The queue as the index has it: ids in order. */
  ready(type: string | null = null): string[] {
    const prefix = readyPrefix(space, type);
    return this.world
      .rows("ready")
      .filter(({ sort }) => sort.startsWith(prefix))
      .map(({ sort }) => sort.slice(sort.lastIndexOf("/") + 1));
  }

  check(): void {
    const nodes = this.nodes();
    const isLive = (id: string): boolean => nodes.some((node) => node.id === id && !isOver(node));
    const blocks = nodes.flatMap((node) =>
      node.edges.filter((edge) => edge.type === "blocks").map(({ to }) => ({ from: node.id, to })),
    );
    const order = (node: NodeRecord): [number, number, number, string] => [
      node.priority === null ? 9 : Number(node.priority[1]),
      -blocks.filter(({ from, to }) => from === node.id && isLive(to)).length,
      node.createdAt,
      node.id,
    ];
    const free = nodes.filter(
      (node) =>
        !isOver(node) &&
        this.#lease(node.id) === null &&
        node.parked === null &&
        !blocks.some(({ from, to }) => to === node.id && isLive(from)),
    );
    const wanted = free.sort((one, other) => compare(order(one), order(other))).map(({ id }) => id);
    assert.deepEqual(this.ready(), wanted, "the queue differs from a look at everything");
    for (const type of ["task", "issue", "question"])
      assert.deepEqual(
        this.ready(type),
        wanted.filter((id) => this.node(id)?.type === type),
        `the queue of ${type}`,
      );
    for (const node of nodes) this.#checkNode(node);
  }

  #lease(id: string) {
    return this.world.record(lockKey(space, `node:${id}`))?.lease ?? null;
  }

  #checkNode(node: NodeRecord): void {
    const lock = this.world.record(lockKey(space, `node:${node.id}`));
    const lease = lock?.lease ?? null;
    assert.equal(node.claim === null, lease === null, `${node.id}: claim and lease go together`);
    const assigned = node.edges.filter((edge) => edge.type === "assigned");
    if (node.claim !== null && lock !== null) {
      assert.equal(node.claim.token, lock.token, `${node.id}: one token`);
      assert.equal(lease?.principal, node.claim.by, `${node.id}: one holder`);
      assert.equal(assigned[0]?.to, node.claim.by, `${node.id}: a lease without its edge`);
    }
    const history = this.history(node.id);
    const grants = history.filter(({ what }) => what === "claimed" || what === "taken_over");
    const tokens = grants.map(({ token }) => token ?? 0);
    assert.deepEqual(
      tokens,
      [...new Set(tokens)].sort((a, b) => a - b),
      `${node.id}: tokens rise`,
    );
    if (node.claim !== null)
      assert.equal(grants.at(-1)?.token, node.claim.token, `${node.id}: a claim without its history entry`);
    assert.equal(assigned[0]?.to, carrierBy(history), `${node.id}: the edge and what history says of it`);
  }
}

/** A node but for what counts its changes. */
function unnumbered(node: NodeRecord): object {
  const { revision, history, updatedAt, edges, ...rest } = node;
  return { ...rest, edges: edges.toSorted((one, other) => (one.type < other.type ? -1 : 1)) };
}

/** Whom the `assigned` edge must name, by what happened. */
function carrierBy(history: readonly HistoryRecord[]): string | undefined {
  let before: string | undefined;
  let now: string | undefined;
  for (const { what, by, edge } of history) {
    if (what === "claimed" || what === "taken_over") [before, now] = [now, by];
    else if (what === "released") now = undefined;
    else if (what === "given_back") {
      assert.equal(edge?.to, before, "the edge that the claim had found");
      now = before;
    } else if (edge?.type === "assigned") now = what === "edge_added" ? edge.to : undefined;
  }
  return now;
}

const isOver = (node: NodeRecord): boolean =>
  ["done", "abandoned", "resolved", "answered", "kept"].includes(node.status);

function compare(one: readonly (number | string)[], other: readonly (number | string)[]): number {
  for (const [i, value] of one.entries()) {
    const against = other[i] ?? 0;
    if (value !== against) return value < against ? -1 : 1;
  }
  return 0;
}
