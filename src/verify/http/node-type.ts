/**
 * A type of nodes of a run's own: added to the policy of the space, with short claim times, and taken out again. What
 * else the policy says stays as it is. Only an admin's token may do that.
 */
import { randomBytes } from "node:crypto";
import { graphStatuses } from "../node-calls.js";
import { sleep } from "./clock.js";
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
/** Somebody else changes the policy, or the service restarts. */
const triesMax = 40;
const pauseMs = 150;

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
  for (let tries = 0; tries < triesMax; tries++) {
    const heard = await exchange.ask(bearer, { method: "GET", path: "/v1/policy" }, { timeoutMs });
    const policy = policyIn(heard);
    if (policy !== null) {
      const body = { ...policy, types: to(policy.types) };
      const set = await exchange.ask(bearer, { method: "PUT", path: "/v1/policy", body }, { timeoutMs });
      if (policyIn(set) !== null) return;
      last = said(set);
      // One whose reply was lost may have been done: the next look tells.
    } else last = said(heard);
    await sleep(pauseMs);
  }
  throw new Error(`the policy of the space could not be changed: ${last}`);
}

function policyIn(heard: Heard): Policy | null {
  if (heard.kind !== "reply" || heard.status !== 200) return null;
  const { revision, types } = heard.body as Partial<Policy>;
  return typeof revision === "number" && types !== undefined ? (heard.body as Policy) : null;
}

const said = (heard: Heard): string => (heard.kind === "reply" ? String(heard.status) : heard.why);

const mayChangePolicy = (whoami: unknown): boolean => {
  const { role } = whoami as { readonly role?: unknown };
  return role === "admin" || role === "operator";
};

/** Who of these can add a type, or why nobody can work on nodes here. */
export async function graphAdmin(
  exchange: Exchange,
  principals: readonly Principal[],
): Promise<{ readonly admin: Principal } | { readonly why: string }> {
  let admin: Principal | null = null;
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
    if (who.kind === "reply" && mayChangePolicy(who.body)) admin ??= principal;
  }
  return admin === null
    ? { why: "it sets short claim times for a type of nodes of its own, which takes an admin's token" }
    : { admin };
}
