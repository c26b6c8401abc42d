/**
 * Many nodes claimed at once, each decided for itself. A request id covers the whole call: each node has a record of its
 * own under it, so that a repeat finds each as it was granted, and the call has one as well, so that the same id with
 * other nodes, or on another route, is found out.
 */
import type { Decision, View } from "../decision.js";
import { type Draft, deciding } from "../draft.js";
import { type Key, requestKey } from "../keys.js";
import { type Claim, remember } from "../lease.js";
import type { Policy } from "../limits.js";
import { type ClaimCall, type ClaimReply, claimKeys, claimNode } from "./claim.js";

/** Of one caller. */
export interface ClaimMany {
  readonly space: string;
  readonly principal: string;
  readonly calls: readonly Omit<ClaimCall, "request">[];
  readonly request: Claim["request"];
}

const wholeKey = ({ space, principal, request }: ClaimMany): Key[] =>
  request === null ? [] : [requestKey(space, principal, request.id)];

/** No request id of a caller has a tab in it. */
const requestOf = ({ request }: ClaimMany, id: string): Claim["request"] =>
  request === null ? null : { ...request, id: `${request.id}\t${id}` };

const callsOf = (many: ClaimMany): ClaimCall[] =>
  many.calls.map((call) => ({ ...call, request: requestOf(many, call.id) }));

export const claimManyKeys = (many: ClaimMany): Key[] => [
  ...wholeKey(many),
  ...callsOf(many).flatMap(claimKeys),
];

export function decideClaimMany(
  view: View,
  many: ClaimMany,
  policy: Policy,
): Decision<readonly ClaimReply[]> {
  return deciding(view, policy, (draft) => {
    draft.require(claimManyKeys(many));
    const calls = callsOf(many);
    const known = many.request === null ? null : wholeOf(draft, many);
    if (known !== null && known.fingerprint !== many.request?.fingerprint)
      return calls.map((): ClaimReply => ({ refused: "request_reused" }));
    const replies: ClaimReply[] = [];
    draft.first(calls, (call) => void replies.push(claimNode(draft, call)));
    if (known === null) rememberWhole(draft, many, calls, replies);
    return replies;
  });
}

const wholeOf = (draft: Draft, { space, principal, request }: ClaimMany) =>
  draft.get(requestKey(space, principal, request?.id ?? ""));

/** Only grants are recorded: the first of them stands for the call. */
function rememberWhole(
  draft: Draft,
  { request }: ClaimMany,
  calls: readonly ClaimCall[],
  replies: readonly ClaimReply[],
): void {
  for (const [nth, reply] of replies.entries()) {
    if ("refused" in reply || reply.holding.lock.lease.id !== calls[nth]?.leaseId) continue;
    const { space, name, token, lease } = reply.holding.lock;
    const { principal, id: leaseId } = lease;
    remember(draft, { space, principal, name, leaseId, request }, token, reply.holding.expiresAt);
    return;
  }
}
