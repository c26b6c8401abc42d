/**
 * Working on a node: its claim in the hand of whoever works, renewed behind the scenes, and what becomes of the node when
 * the work ends.
 */
import { onAbort } from "./aborting.js";
import { type Duration, toMs } from "./durations.js";
import { isLoss } from "./errors.js";
import { HeldLease } from "./held-lease.js";
import { LeaseState } from "./lease-state.js";
import type { CallSignal } from "./locks.js";
import type { Nodes } from "./nodes.js";
import { nextFrom, type WaitingForWork } from "./nodes-next.js";
import { leaseNameOf } from "./nodes-renewal.js";
import type { NextClaimed, NodeReserved, WorkNode } from "./nodes-replies.js";
import { Renewal } from "./renewal.js";

export interface WorkOptions extends CallSignal {
  /** Only nodes of this type. */
  readonly type?: string | undefined;
  /** The caller's own label for this run. */
  readonly session?: string | undefined;
  /** How long to wait for work. Until there is some, if left out. */
  readonly wait?: Duration | undefined;
  /** Told that there is nothing, again and again while waiting. */
  readonly onWaiting?: ((waiting: WaitingForWork) => void) | undefined;
}

/** A node that was worked on. */
export interface Worked {
  /** As it was when it was claimed. */
  readonly node: WorkNode;
  readonly token: number;
  /** What the work returned; null: it was handed back, or the work decided otherwise. */
  readonly status: string | null;
}

/** A claimed node. `signal` is aborted also when the signal is that was given to `work`. */
export class NodeClaim extends HeldLease {
  /** As it was when it was claimed. */
  readonly node: WorkNode;
  readonly session: string | null;
  readonly #nodes: Nodes;
  /** The server knows what became of it. */
  #isSettled = false;

  constructor(
    { node, lease }: NextClaimed,
    state: LeaseState,
    nodes: Nodes,
    renew: (lost: (why: string) => void) => () => void,
  ) {
    super(leaseNameOf(node.id), lease.token, state, renew);
    this.node = node;
    this.session = lease.session;
    this.#nodes = nodes;
  }

  /** Sets the status that says how it ended, and ends the claim. After one that is not terminal it is free for others. */
  async finish(status: string): Promise<void> {
    this.assertHeld();
    this.letGo(`its status was set to ${status}`);
    // What a status means is the policy's to say, and may change: the reply tells whether the claim goes on.
    const { lease } = await this.#nodes.setStatus(this.node.id, status, this.#proof());
    if (lease !== undefined && "token" in lease) await this.giveBack({}).catch(unlessLost);
    this.#isSettled = true;
  }

  /** Ends the work and keeps the claim, without heartbeats, for as long as the policy grants. */
  async reserve(): Promise<NodeReserved> {
    this.assertHeld();
    this.letGo("it was reserved");
    const reserved = await this.#nodes.reserve(this.node.id, this.#proof());
    this.#isSettled = true;
    return reserved;
  }

  protected async giveBack(options: CallSignal): Promise<void> {
    if (!this.#isSettled) await this.#nodes.release(this.node.id, { ...this.#proof(), ...options });
  }

  /** Lets a signal of the caller's end the work. Returns how to call that off. */
  stopOn(signal: AbortSignal | undefined): () => void {
    return onAbort(signal, () => this.askToStop(signal?.reason));
  }

  #proof(): { readonly session: string | undefined; readonly token: number } {
    return { session: this.session ?? undefined, token: this.token };
  }
}

const unlessLost = (error: unknown): void => {
  if (!isLoss(error)) throw error;
};

/** Returns the status that says how it ended, as `done`; nothing: it is handed back. */
export type WorkTask = (
  claim: NodeClaim,
) => Promise<string | undefined> | Promise<undefined> | string | undefined;

/** See Nodes.work. */
export async function workOnNext(nodes: Nodes, options: WorkOptions, task: WorkTask): Promise<Worked | null> {
  const waitMs = options.wait === undefined ? Number.POSITIVE_INFINITY : toMs(options.wait, "wait");
  const { reply, sentAt } = await nextFrom(nodes.transport, options, waitMs);
  if (reply.status === "empty") return null;
  const { nodeId, token, expiresInMs } = reply.lease;
  const state = new LeaseState();
  state.renewed(sentAt, expiresInMs);
  const granted = { nodeId, token, session: options.session, renewAfterMs: 0, sentAt };
  const claim = new NodeClaim(reply, state, nodes, (lost) => {
    const renewal = new Renewal(nodes.transport.options, granted, state, lost);
    return () => renewal.stop();
  });
  const forget = claim.stopOn(options.signal);
  try {
    claim.assertHeld();
    const status = (await task(claim)) ?? null;
    if (status !== null && typeof status !== "string")
      throw new TypeError(`work must return a status as "done", or nothing: got a ${typeof status}`);
    if (!claim.released) {
      claim.assertHeld();
      await (status === null ? claim.release() : claim.finish(status));
    }
    return { node: reply.node, token, status };
  } catch (error) {
    // What cannot be released now ends by itself; why the work failed matters more.
    await claim.release().catch(() => undefined);
    throw error;
  } finally {
    forget();
  }
}
