/** What a space says about its work: how long claims last, which types there are, what their statuses mean. */
import type { NodeRecord, Phase } from "./records.js";

/** Durations in ms. */
export interface ClaimTimes {
  /** How long a claim lasts without a heartbeat. */
  readonly claimTtlMs: number;
  /** How far an extend may reach from now. */
  readonly claimTtlMaxMs: number;
  /** How long a reserved claim is kept without heartbeats. */
  readonly reserveGraceMs: number;
  /** After more reclaims than this without a clean release the work is parked. */
  readonly reclaimsMax: number;
}

/** One type of node; times that it does not name are the space's. */
export interface TypePolicy extends Partial<ClaimTimes> {
  /** The first planned one is what a new node gets. */
  readonly statuses: Readonly<Record<string, Phase>>;
}

export interface NodePolicy extends ClaimTimes {
  readonly types: Readonly<Record<string, TypePolicy>>;
}

/** The policy of a space that has set its own. */
export interface PolicyRecord {
  readonly kind: "policy";
  readonly space: string;
  /** 1 with the first change; 0 stands for what the server's configuration says. */
  readonly revision: number;
  readonly values: NodePolicy;
  readonly by: string;
  readonly at: number;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

export const nodePolicyDefault: NodePolicy = {
  claimTtlMs: 45 * minuteMs,
  claimTtlMaxMs: 8 * hourMs,
  reserveGraceMs: 48 * hourMs,
  reclaimsMax: 5,
  types: {
    task: { statuses: { open: "planned", active: "active", done: "terminal", abandoned: "terminal" } },
    issue: { statuses: { open: "planned", active: "active", resolved: "terminal" } },
    question: { statuses: { open: "planned", answered: "terminal" } },
  },
};

/** The rules for one type, all filled in. */
export interface TypeRules extends ClaimTimes {
  readonly statuses: Readonly<Record<string, Phase>>;
  /** Has a status in which there is something to do. */
  readonly isWork: boolean;
}

/** null: there is no such type. */
export function rulesOf(policy: NodePolicy, type: string): TypeRules | null {
  return Object.hasOwn(policy.types, type) ? filledIn(policy, policy.types[type] as TypePolicy) : null;
}

const filledIn = (policy: NodePolicy, own: TypePolicy): TypeRules => ({
  claimTtlMs: own.claimTtlMs ?? policy.claimTtlMs,
  claimTtlMaxMs: own.claimTtlMaxMs ?? policy.claimTtlMaxMs,
  reserveGraceMs: own.reserveGraceMs ?? policy.reserveGraceMs,
  reclaimsMax: own.reclaimsMax ?? policy.reclaimsMax,
  statuses: own.statuses,
  isWork: Object.values(own.statuses).some((phase) => phase !== "terminal"),
});

/** What the usual words mean, for nodes of a type that the policy has no more. */
const usualStatuses: TypePolicy["statuses"] = Object.assign(
  {},
  ...Object.values(nodePolicyDefault.types).map(({ statuses }) => statuses),
);

/**
 * The rules for one node, whatever became of its type. Its last status keeps its meaning until the next one, so what is
 * not over can be claimed, kept and ended though the policy made its type a record, or dropped it: a node that stands in
 * the queue and cannot be taken would stop everybody.
 */
export function rulesFor(policy: NodePolicy, node: Pick<NodeRecord, "type" | "status" | "phase">): TypeRules {
  const rules = rulesOf(policy, node.type);
  const isOpen = node.phase !== "terminal";
  if (rules !== null) return isOpen && !rules.isWork ? { ...rules, isWork: true } : rules;
  const statuses = { ...usualStatuses, [node.status]: node.phase };
  return { ...filledIn(policy, { statuses }), isWork: true };
}

export const phaseOf = (rules: TypeRules, status: string): Phase | null =>
  Object.hasOwn(rules.statuses, status) ? (rules.statuses[status] as Phase) : null;

/** Why these values cannot be a policy, or null. Shapes are the wire's business; this is what must fit together. */
export function policyProblem(policy: NodePolicy): string | null {
  for (const type of Object.keys(policy.types)) {
    const rules = rulesOf(policy, type);
    if (rules === null) continue;
    const number = Object.keys(rules.statuses).find((status) => /^[0-9]+$/.test(status));
    if (number !== undefined)
      return `${type}: a status needs a letter in its name, not ${number}: names that are numbers do not stay in their order, and the first planned one is what new nodes get`;
    if (rules.claimTtlMs > rules.claimTtlMaxMs)
      return `${type}: claim_ttl_ms (${rules.claimTtlMs}) is above claim_ttl_max_ms (${rules.claimTtlMaxMs})`;
    if (rules.isWork && !Object.values(rules.statuses).includes("planned"))
      return `${type}: a type with an active status needs a planned one, which new nodes get`;
  }
  const { claimTtlMs, claimTtlMaxMs } = policy;
  return claimTtlMs > claimTtlMaxMs
    ? `claim_ttl_ms (${claimTtlMs}) is above claim_ttl_max_ms (${claimTtlMaxMs})`
    : null;
}
