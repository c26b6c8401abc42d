/** The heartbeat of a node's lease: one call, for whoever renews by hand and for what renews behind the scenes. */

import type { NodeRenewed } from "./nodes-replies.js";
import { segment } from "./path.js";
import type { Transport } from "./transport.js";

/** Which lease is meant: one of another run, or with another token, is not renewed. */
export interface NodeLeaseProof {
  readonly nodeId: string;
  readonly session: string | undefined;
  readonly token: number | undefined;
}

/** The name of a node's lease among all leases. */
export const leaseNameOf = (nodeId: string): string => `node:${nodeId}`;

export const renewNode = (
  transport: Transport,
  { nodeId, session, token }: NodeLeaseProof,
  signal: AbortSignal | undefined,
): Promise<NodeRenewed> =>
  transport.ask<NodeRenewed>({
    method: "POST",
    path: `/v1/nodes/${segment(nodeId, "invalid_node")}/renew`,
    body: { session, token },
    signal,
    resource: leaseNameOf(nodeId),
    expects: ["status", "lease"],
  });
