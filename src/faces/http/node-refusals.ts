/**
 * Refusals of the work graph as HTTP answers, in one total table. Each says what happened, who is on the node and until
 * when, and what to do next.
 */
import { nearest } from "../../core/nearest.js";
import { nodeIdOf } from "../../core/nodes/node.js";
import type { NodeRecord } from "../../core/nodes/records.js";
import type { NodeHolding, NodeRefusal, NodeRefusalCode } from "../../core/nodes/refusal.js";
import type { Ended } from "../../core/records.js";
import { hasRole } from "../../service/identity.js";
import type { Answer } from "./answer.js";
import type { Call } from "./call.js";
import { leaseView, seesNode } from "./node-views.js";
import { remaining, retryAfter } from "./present.js";
import { nodeProblem } from "./v1-errors.js";

type Of<Code extends NodeRefusalCode> = Extract<NodeRefusal, { refused: Code }>;
type Table = { readonly [Code in NodeRefusalCode]: (refusal: Of<Code>, call: Call) => Answer };

/** Who is on it, and until when. */
function onIt(call: Call, { node: { id, claim }, holding }: NodeHolding): string {
  const run = claim.session === null ? "" : `, run ${JSON.stringify(claim.session)}`;
  const kept = claim.reserved ? "reserved" : "claimed";
  return `${id} is ${kept} by ${claim.by}${run} until ${call.desk.present.instants.text(holding.expiresAt)} (token ${claim.token}).`;
}

const stop = "Stop the work that this claim guarded.";

const holderOf = (call: Call, held: NodeHolding) => ({
  holder: leaseView(call, held),
  retryAfterMs: retryAfter(held.holding.expiresAt, held.holding.now),
});

const ownRun = {
  session:
    "That is your own claim, bound to another run: claim it with rebind: true to move it here, or let that run finish.",
  dispatch: "That is your own claim, made by another dispatch: leave it to that one.",
} as const;

const lostBy = {
  token: "The token that you sent is not that of the live lease: the claim that you mean is over.",
  session: "The lease is bound to another run of yours than the one you name.",
} as const;

/** How the caller's own claim ended. By force: who did it, and why. */
function howItEnded(call: Call, { token, endedAt, how, by, reason }: Ended): string {
  const at = call.desk.present.instants.text(endedAt);
  const ended = how === "expired" ? `ran out at ${at}` : `was released at ${at}`;
  return how === "forced"
    ? `Your claim (token ${token}) was ended by ${by ?? "an admin"} at ${at}: ${reason ?? "no reason given"}.`
    : `Your claim (token ${token}) ${ended}.`;
}

function whatNow({ id, status, phase, parked }: NodeRecord): string {
  if (phase === "terminal") return `${id} is ${status}: there is nothing left to do.`;
  return parked === null ? "Claim it again to go on." : `It is parked now: ${parked.reason}.`;
}

function leaseLost({ node, held, differs, previous }: Of<"lease_lost">, call: Call): Answer {
  const ended = previous === null ? "" : `${howItEnded(call, previous)} `;
  const details = {
    ...(differs === null ? {} : { differs }),
    ...(previous === null ? {} : { previous: call.desk.present.previous(previous) }),
  };
  if (held === null)
    return nodeProblem(
      "lease_lost",
      `You hold no claim of ${node.id}, and nobody is on it now. ${ended}${stop} ${whatNow(node)}`,
      { details },
    );
  const why = differs === null ? "" : `${lostBy[differs]} `;
  return nodeProblem(
    "lease_lost",
    `${why}${ended}${onIt(call, held)} ${differs === "session" ? "Leave the work to that run." : stop}`,
    { holder: leaseView(call, held), details },
  );
}

function alreadyClaimed({ held, differs }: Of<"already_claimed">, call: Call): Answer {
  return nodeProblem(
    "already_claimed",
    `${onIt(call, held)} ${differs === null ? wayOut(call, held) : ownRun[differs]}`,
    { ...holderOf(call, held), ...(differs === null ? {} : { details: { differs } }) },
  );
}

/** What whoever is refused can do: wait, let go of it itself, or have it ended. */
function wayOut(call: Call, { node: { id, claim } }: NodeHolding): string {
  if (claim.by === call.identity.principal)
    return `That is your own claim, and the edge goes with it: end both with POST /v1/nodes/${id}/release.`;
  return hasRole(call.identity, "admin")
    ? `Take other work, or try again then. As an admin you may set a terminal status with a reason, or free it with DELETE /locks/node:${id} and a reason.`
    : `Take other work, or try again then; if nobody works on it any more, an admin frees it with DELETE /locks/node:${id}.`;
}

function unknownStatus({ status, known, dropped }: Of<"unknown_status">): Answer {
  const gone = dropped === null ? "" : ` The policy has no type ${dropped} any more: its nodes take these.`;
  return nodeProblem(
    "invalid_node",
    `There is no status ${status} here${didYouMean(status, known)}.${gone}`,
    { details: { known } },
  );
}

function didYouMean(word: string, known: readonly string[]): string {
  const near = nearest(word, known);
  return `${near === undefined ? "" : `, did you mean ${near}?`} (known: ${known.join(", ")})`;
}

function notReady({ why, node }: Of<"not_ready">, call: Call): Answer {
  const details = { why };
  if (why === "terminal")
    return nodeProblem(
      "not_ready",
      `${node.id} is ${node.status}: there is nothing left to do. To open it again, give it another status with POST /v1/nodes/${node.id}/status.`,
      { details },
    );
  if (why === "blocked") {
    const blockers = blockersOf(call, node);
    return nodeProblem(
      "not_ready",
      `${node.id} is blocked by ${blockers.text}. It can be taken once that is over; POST /v1/queue/next gives you other work.`,
      { details: { ...details, blocked_by: blockers.seen } },
    );
  }
  const at = call.desk.present.instants.text(node.parked?.at ?? 0);
  return nodeProblem(
    "not_ready",
    `${node.id} is parked since ${at}: ${node.parked?.reason ?? ""}. Once the cause is mended, POST /v1/nodes/${node.id}/unpark with a reason puts it back into the queue.`,
    { details: { ...details, parked: { at, reason: node.parked?.reason ?? "", carriers: node.carriers } } },
  );
}

function blockersOf(call: Call, node: NodeRecord): { text: string; seen: string[] } {
  const ids = node.blockedBy.filter(({ live }) => live).map(({ id }) => id);
  const seen = ids.filter((id) => seesNode(call, id));
  const hidden = ids.length - seen.length;
  const others = hidden === 0 ? [] : [`${hidden} that your scopes do not cover`];
  return { text: [...seen, ...others].join(", "), seen };
}

const table = {
  unknown_node: ({ id }, { space }) =>
    nodeProblem("not_found", `There is no node ${id} in the space ${space}. POST /v1/nodes creates one.`),
  node_exists: ({ id }) =>
    nodeProblem(
      "conflict",
      `There is a node ${id} already. Read it with GET /v1/nodes/${id}, change it with PUT /v1/nodes/${id}, or choose another id.`,
    ),
  unknown_type: ({ type, known }) =>
    nodeProblem(
      "invalid_node",
      `There is no type ${type}${didYouMean(type, known)}. GET /v1/policy tells more.`,
      {
        details: { known },
      },
    ),
  unknown_status: unknownStatus,
  active_at_birth: ({ status }) =>
    nodeProblem(
      "invalid_node",
      `A new node cannot be ${status}: nobody is on it yet. Create it without a status, then claim it or set the status.`,
    ),
  revision: ({ revision }) =>
    nodeProblem(
      "conflict",
      `The node has changed since it was read: its revision is ${revision}. Read it again, and change what is there now.`,
      { details: { revision } },
    ),
  not_work: ({ id, type }) =>
    nodeProblem(
      "invalid_node",
      `${id} is of type ${type}, which is a record, not work: nobody can be on it.`,
    ),
  already_claimed: alreadyClaimed,
  lease_lost: leaseLost,
  not_ready: notReady,
  not_parked: ({ id }) => nodeProblem("conflict", `${id} is not parked: there is nothing to put back.`),
  edge_to_itself: ({ type }) => nodeProblem("invalid_node", `An edge (${type}) cannot lead to its own node.`),
  edge_to_nothing: ({ to }) =>
    nodeProblem("invalid_node", `There is no node ${to} to point to. Create it first with POST /v1/nodes.`),
  edge_cycle: ({ path }, call) => {
    const way = path.map((id) => (seesNode(call, id) ? id : "another"));
    return nodeProblem(
      "conflict",
      `This would close a circle of blocks, and none of them could ever be taken: ${way.join(" → ")}.`,
      { details: { path: way } },
    );
  },
  edge_too_deep: ({ limit }) =>
    nodeProblem(
      "conflict",
      `More than ${limit} nodes lie behind the target: it cannot be told in one step that this closes no circle.`,
    ),
  edges_full: ({ on, limit }, call) =>
    nodeProblem(
      "conflict",
      `${seesNode(call, on) ? on : "The target"} has ${limit} edges of this kind, and no more are kept. Remove some first.`,
    ),
  assigned_to_other: ({ id, to }) =>
    nodeProblem("conflict", `${id} is assigned to ${to}. Remove that edge first, or claim the node.`, {
      details: { assigned_to: to },
    }),
  policy_revision: ({ revision }) =>
    nodeProblem(
      "conflict",
      `The policy has changed since it was read: its revision is ${revision}. Read it again.`,
      {
        details: { revision },
      },
    ),
  request_spent: ({ name, leaseId, previous }, call) => {
    const id = nodeIdOf(name) ?? name;
    const own = previous?.leaseId === leaseId ? previous : null;
    const ended = own === null ? "That claim is over." : howItEnded(call, own);
    return nodeProblem(
      "lease_lost",
      `This request id was granted ${id}. ${ended} ${stop} Use a new request id to claim again.`,
      { details: { node_id: id, ...(own === null ? {} : { previous: call.desk.present.previous(own) }) } },
    );
  },
  out_of_scope: (_, { identity }) =>
    nodeProblem(
      "forbidden",
      `This request id was granted a node that the scopes of this token (${identity.scopes.join(" ")}) do not cover. Use a new request id to claim another.`,
    ),
  request_reused: () =>
    nodeProblem(
      "invalid_input",
      "This request id was used for another request. Use a new one for each new request.",
      { status: 422 },
    ),
  delayed: ({ availableAt, now }, call) => {
    const at = call.desk.present.instants.text(availableAt);
    return nodeProblem(
      "not_ready",
      `Nothing can be claimed before ${at}: the server was restored from a backup and waits until claims made before are over.`,
      { details: { why: "restore", available_at: at }, retryAfterMs: remaining(availableAt, now) + 1 },
    );
  },
} satisfies Table;

export function nodeRefusal(call: Call, refusal: NodeRefusal): Answer {
  const row = table[refusal.refused] as (refusal: NodeRefusal, call: Call) => Answer;
  return row(refusal, call);
}

/** As `nodeRefusal`; a request that is spent says who is on its node now. */
export async function claimRefusal(call: Call, refusal: NodeRefusal): Promise<Answer> {
  const answer = nodeRefusal(call, refusal);
  if (refusal.refused !== "request_spent") return answer;
  const now = await call.desk.nodes.look(call.space, nodeIdOf(refusal.name) ?? "");
  if ("refused" in now || now.held === null) return answer;
  const { error } = answer.body as { error: { message: string; details: Record<string, unknown> } };
  return nodeProblem("lease_lost", `${error.message} ${onIt(call, now.held)}`, {
    details: error.details,
    holder: leaseView(call, now.held),
  });
}
