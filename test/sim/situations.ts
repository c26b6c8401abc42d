// What a simulated run must be able to reach to show anything: each situation in a sentence, and how often runs got
// there. A suite of runs in which one of them never happened fails.
export const situations = {
  "takeover after expiry": "a name was granted after its last lease had run out",
  "takeover after force": "a name was granted after an operator had ended its last lease",
  "session expiry ended leases": "a lease was over because its session was",
  "repeat answered with the same lease": "a request id came again and got the lease it had been granted",
  "repeat of a spent request id": "a request id came again after its lease was over",
  "request id with another body": "a request id came again with another request and was refused",
  "grant to a waiter": "a step of somebody else granted a name to who stood in line",
  "place in line taken over": "a waiting request came again and its first call was told so",
  "waiter gone before its grant": "a waiter left while it stood in line",
  "wait in vain": "a waiter's time was up before its turn",
  "ghost taken back": "a grant that reached nobody was released by the service",
  "lock delay waited out": "a name was granted to a waiter once its lock delay was over",
  "refused during a lock delay": "a name was free but its lock delay ran",
  "overlap refused": "another's lease above or below the name stood in the way",
  "token above the floor": "a name was granted after clean-up had forgotten it",
  "lost reply that had committed": "something was done and its caller never heard",
  "late request that took effect": "a request was served after its caller had given up on it",
  "duplicate delivered": "the network delivered a request twice",
  "unknown commit that was written": "a commit failed, and was written all the same",
  "unknown commit that was not written": "a commit failed without a trace",
  "commit certainly refused": "a commit failed and was certainly not written",
  "crash kept the commit on its way":
    "the server died while it committed, and the commit had reached the disk",
  "crash lost the commit on its way":
    "the server died while it committed, and the commit had not reached the disk",
  "restart with waiters": "the server ended while somebody stood in line",
  "stall past a lease's end": "the server stood still until after a lease was over",
  "watch resumed": "a broken stream went on where it was",
  "watch reset": "a stream was told that its place is no longer known",
} as const;

export type Situation = keyof typeof situations;

/** What was done to a run, by kind. */
export const faults = [
  "kill",
  "stop",
  "stall",
  "wall clock step",
  "disk failure",
  "slow disk",
  "network cut",
  "request lost",
  "reply lost",
  "request late",
  "request twice",
  "connection closed",
  "stream cut",
] as const;

export type Fault = (typeof faults)[number];

/** Counts of one run, or of many together. */
export class Tally {
  readonly #counts = new Map<Situation | Fault, number>();

  constructor(readonly tell: (what: string) => void = () => undefined) {}

  readonly note = (what: Situation | Fault, times = 1): void => {
    this.#counts.set(what, this.of(what) + times);
    this.tell(what);
  };

  of(what: Situation | Fault): number {
    return this.#counts.get(what) ?? 0;
  }

  add(other: Iterable<readonly [Situation | Fault, number]>): void {
    for (const [what, times] of other) this.note(what, times);
  }

  entries(): [Situation | Fault, number][] {
    return [...this.#counts];
  }

  /** Situations that were never reached and faults that were never made. */
  missing(): (Situation | Fault)[] {
    const all = [...(Object.keys(situations) as Situation[]), ...faults];
    return all.filter((what) => this.of(what) === 0);
  }
}
