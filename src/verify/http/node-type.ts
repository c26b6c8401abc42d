/**
 * A type of nodes of a run's own: added to the policy of the space, with short claim times, and taken out again. What
 * else the policy says stays as it is. Only an admin's token may do that.
 */
import { randomBytes } from "node:crypto";
import { graphStatuses } from "../node-calls.js";
import { monotonicMs, sleep } from "./clock.js";
import type { Exchange, Heard } from "./exchange.js";
import type { Principal } from "./lab.js";

/** In ms: short, so that a minute sees many leases run out, and none outlasts the longest lease of other workloads. */
export const claimTimes = { claimTtlMs: 1500, claimTtlMaxMs: 4000, reserveGraceMs: 2500 } as const;

const rules = {
  statuses: graphStatuses,
  claim_ttl_ms: claimTimes.claimTtlMs,
  claim_ttl_max_ms: claimTimes.claimTtlMaxMs,
  reserve_grace_ms: claimTimes.reserveGraceMs,
  // Nodes that are abandoned again and again are what a run is made of.
  reclaims_max: 1000,
};

const timeoutMs = 5000;
/** Somebody else changes the policy, the service restarts, or its disk is full: it is asked again for so long, in ms. */
const patienceMs = 20_000;
const pauseMs = 150;
/** In ms: who wants more is not asked again in time. */
const silenceMaxMs = 5000;

interface Policy {
  readonly revision: number;
  readonly types: Readonly<Record<string, object>>;
}

/** Adds the type and resolves with its name. */
export async function addNodeType(exchange: Exchange, admin: Principal): Promise<string> {
  const type = `verify-${randomBytes(4).toString("hex")}`;
  await change(exchange, admin, (types) => ({ ...types, [type]: rules }));
  return type;
}

export const removeNodeType = (exchange: Exchange, admin: Principal, type: string): Promise<void> =>
  change(exchange, admin, ({ [type]: _, ...others }) => others);

async function change(
  exchange: Exchange,
  { bearer }: Principal,
  to: (types: Policy["types"]) => Policy["types"],
): Promise<void> {
  let last = "";
  for (const until = monotonicMs() + patienceMs; monotonicMs() < until; ) {
    const heard = await exchange.ask(bearer, { method: "GET", path: "/v1/policy" }, { timeoutMs });
    const policy = policyIn(heard);
    let askedMs = askedFor(heard);
    if (policy !== null) {
      const body = { ...policy, types: to(policy.types) };
      const set = await exchange.ask(bearer, { method: "PUT", path: "/v1/policy", body }, { timeoutMs });
      if (policyIn(set) !== null) return;
      last = said(set);
      askedMs = askedFor(set);
      // One whose reply was lost may have been done: the next look tells.
    } else last = said(heard);
    await sleep(Math.max(pauseMs, askedMs));
  }
  throw new Error(`the policy of the space could not be changed: ${last}`);
}

function policyIn(heard: Heard): Policy | null {
  if (heard.kind !== "reply" || heard.status !== 200) return null;
  const { revision, types } = heard.body as Partial<Policy>;
  return typeof revision === "number" && types !== undefined ? (heard.body as Policy) : null;
}

/** How long the service wants to be left alone. */
const askedFor = (heard: Heard): number =>
  heard.kind === "reply" && heard.status === 429 ? Math.min(heard.retryAfterMs, silenceMaxMs) : 0;

const said = (heard: Heard): string => (heard.kind === "reply" ? String(heard.status) : heard.why);

const roleIn = (heard: Heard): unknown =>
  heard.kind === "reply" ? (heard.body as { readonly role?: unknown } | null | undefined)?.role : undefined;

/** Where a run may work on nodes, and who does. */
export interface GraphPlace {
  /** Adds the type. */
  readonly admin: Principal;
  readonly principals: readonly Principal[];
  /** Null: that of the bearer tokens. */
  readonly space: string | null;
}

/**
 * Where these can work on nodes, or why nowhere. The operator has a space of the run's own, in which nobody else is;
 * an admin only that of the tokens, where whoever asks for the next node may be handed one of the run's: only if that is
 * `wanted`.
 */
export async function graphPlace(
  exchange: Exchange,
  principals: readonly Principal[],
  ownSpace: string,
  wanted: boolean,
): Promise<GraphPlace | { readonly why: string }> {
  let admin: Principal | null = null;
  const operators: Principal[] = [];
  for (const principal of principals) {
    const { bearer, name } = principal;
    const ask = (path: string): Promise<Heard> =>
      exchange.ask(bearer, { method: "GET", path }, { timeoutMs });
    const policy = await ask("/v1/policy");
    if (policyIn(policy) === null)
      return { why: `the server has no work graph (GET /v1/policy answered ${said(policy)})` };
    // A node that is not there is unknown to who may touch it, and forbidden to others.
    const node = await ask(`/v1/nodes/verify-${randomBytes(4).toString("hex")}`);
    if (node.kind !== "reply" || node.status !== 404)
      return { why: `the token of ${name} does not cover node:verify-*` };
    const who = await ask("/whoami");
    if (roleIn(who) === "operator") operators.push(principal);
    if (roleIn(who) === "admin") admin ??= principal;
  }
  const [operator] = operators;
  if (operator !== undefined) return { admin: operator, principals: operators, space: ownSpace };
  if (admin === null)
    return { why: "it sets short claim times for a type of nodes of its own, which takes an admin's token" };
  if (!wanted)
    return {
      why: "an admin's token has it work in this space, where a worker that asks for the next node may be handed one of its nodes: use the operator's token, or name it with --workloads where nobody asks",
    };
  return { admin, principals, space: null };
}
