/** Everything that a call on the work graph can be refused for, as one union of values. */
import type { Ended } from "../records.js";
import type { Holding, Refusal } from "../refusal.js";
import type { EdgeType, NodeRecord } from "./records.js";

/** A node that somebody is on. */
export interface NodeHolding {
  readonly node: NodeRecord & { readonly claim: NonNullable<NodeRecord["claim"]> };
  readonly holding: Holding;
}

export type NodeRefusal =
  | { readonly refused: "unknown_node"; readonly id: string }
  | { readonly refused: "node_exists"; readonly id: string }
  | { readonly refused: "unknown_type"; readonly type: string; readonly known: readonly string[] }
  | {
      readonly refused: "unknown_status";
      readonly status: string;
      readonly known: readonly string[];
      /** The node's type, where the policy has it no more. */
      readonly dropped: string | null;
    }
  /** A new node begins with something to do, or as a record of what is over. */
  | { readonly refused: "active_at_birth"; readonly status: string }
  | { readonly refused: "revision"; readonly revision: number }
  /** Nothing of this type can be worked on. */
  | { readonly refused: "not_work"; readonly id: string; readonly type: string }
  | {
      readonly refused: "already_claimed";
      readonly held: NodeHolding;
      /** Of the same person: which of its labels differs. */
      readonly differs: "session" | "dispatch" | null;
    }
  | {
      readonly refused: "lease_lost";
      readonly node: NodeRecord;
      readonly held: NodeHolding | null;
      readonly differs: "token" | "session" | null;
      /** How the caller's own last claim ended, if that was the last one. */
      readonly previous: Ended | null;
    }
  | {
      readonly refused: "not_ready";
      readonly why: "terminal" | "blocked" | "parked";
      readonly node: NodeRecord;
    }
  | { readonly refused: "not_parked"; readonly id: string }
  | { readonly refused: "edge_to_itself"; readonly type: EdgeType }
  | { readonly refused: "edge_to_nothing"; readonly to: string }
  | { readonly refused: "edge_cycle"; readonly path: readonly string[] }
  /** So much lies behind the target that one step cannot tell whether the edge closes a circle. */
  | { readonly refused: "edge_too_deep"; readonly limit: number }
  | { readonly refused: "edges_full"; readonly on: string; readonly limit: number }
  | { readonly refused: "assigned_to_other"; readonly id: string; readonly to: string }
  | { readonly refused: "policy_revision"; readonly revision: number }
  /** The request id was granted a node that its caller may not touch any more. */
  | { readonly refused: "out_of_scope" }
  /** The lease rules themselves: a repeated request id, or the quiet after a restore. */
  | Extract<Refusal, { readonly refused: "request_spent" | "request_reused" | "delayed" }>;

export type NodeRefusalCode = NodeRefusal["refused"];
