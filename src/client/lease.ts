/** The lease on a lock, in the hand of whoever works under it. */
import { HeldLease } from "./held-lease.js";
import type { LeaseState } from "./lease-state.js";
import type { CallSignal, Locks } from "./locks.js";
import type { Acquired } from "./replies.js";

export class Lease extends HeldLease {
  readonly metadata: string | null;
  readonly #leaseId: string;
  readonly #locks: Locks;

  constructor(
    acquired: Acquired,
    state: LeaseState,
    locks: Locks,
    /** Begins to renew; told what to call when the lease is lost. Returns how to stop. */
    renew: (lost: (why: string) => void) => () => void,
  ) {
    super(acquired.name, acquired.fencingToken, state, renew);
    this.#leaseId = acquired.leaseId;
    this.metadata = acquired.metadata;
    this.#locks = locks;
  }

  /** Secret: whoever has it can renew and release. So it is not shown where a lease is printed. */
  get leaseId(): string {
    return this.#leaseId;
  }

  protected giveBack(options: CallSignal): Promise<void> {
    return this.#locks.release(this.name, this.leaseId, options);
  }
}
