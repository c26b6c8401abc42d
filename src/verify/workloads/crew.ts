/** The processes of a workload, and the steps that all of them take: asking, repeating, letting go. */
import type { Call, Reply } from "../history.js";
import type { Caller, Lab } from "../lab.js";
import { between } from "./chance.js";

export type AcquireCall = Extract<Call, { op: "acquire" }>;
export type Granted = Extract<Reply, { kind: "granted" }>;

/** Processes that run at once, numbered from 0. Ends when all have; fails if one did. */
export async function crew(count: number, work: (index: number) => Promise<void>): Promise<void> {
  const ended = await Promise.allSettled(Array.from({ length: count }, (_, index) => work(index)));
  for (const one of ended) if (one.status === "rejected") throw one.reason;
}

/** How many of these run here: two at least, for one alone meets nobody. */
export const few = ({ crewShare = 1 }: Lab, count: number): number =>
  Math.max(2, Math.round(count * crewShare));

/** Names of this workload's own: `count` of them. */
export const namesOf = (lab: Lab, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${lab.prefix}n${index}`);

export const acquiring = (
  name: string,
  ttlMs: number | null,
  more: Partial<Omit<AcquireCall, "op">> = {},
): AcquireCall => ({
  op: "acquire",
  name,
  ttlMs,
  waitMs: 0,
  requestId: null,
  session: null,
  lease: null,
  delayMs: 0,
  ...more,
});

/** Request ids that nobody else uses: the run's prefix is its own. */
export function requestIds(lab: Lab, process: string): () => string {
  let last = 0;
  return () => `${lab.prefix}${process}-${++last}`;
}

/** Asks, but stops listening `ms` after it has left: the reply is lost, and what it told may have happened all the same. */
export async function askBriefly(lab: Lab, caller: Caller, call: Call, ms: number): Promise<Reply> {
  const heard = new AbortController();
  const onLeave = (): AbortSignal => {
    const cut = new AbortController();
    void lab.sleep(ms, heard.signal).then(
      () => cut.abort(),
      () => undefined,
    );
    return cut.signal;
  };
  try {
    return await caller.call(call, onLeave);
  } finally {
    heard.abort();
  }
}

/** Nothing answers faster. */
const typicalMinMs = 0.1;

/**
 * Loses replies on purpose, in the time that replies take at present, so that some are lost after what they tell. The middle
 * of those times counts: on a busy machine their mean is that of the slowest, and nearly all would be heard.
 */
export class Haste {
  #typicalMs = 3;

  constructor(readonly lab: Lab) {}

  ask(caller: Caller, call: Call): Promise<Reply> {
    return this.#timed(caller, (timed) => timed.call(call));
  }

  /** `patience`: at 1 about half of the replies are lost at the least. */
  askBriefly(caller: Caller, call: Call, patience = 1.3): Promise<Reply> {
    const forMs = patience * this.#typicalMs * this.lab.random();
    return this.#timed(caller, (timed) => askBriefly(this.lab, timed, call, forMs));
  }

  async #timed(caller: Caller, ask: (timed: Caller) => Promise<Reply>): Promise<Reply> {
    let leftAt = this.lab.now();
    const call: Caller["call"] = (asked, onLeave) =>
      caller.call(asked, () => {
        leftAt = this.lab.now();
        return onLeave?.();
      });
    const reply = await ask({ ...caller, call });
    const step = this.lab.now() - leftAt > this.#typicalMs ? 1.1 : 1 / 1.1;
    if (isKnown(reply)) this.#typicalMs = Math.max(typicalMinMs, this.#typicalMs * step);
    return reply;
  }
}

const triesMax = 12;
/** When the run is over, nobody should wait long for a service that does not answer. */
const lastTriesMax = 3;

/** Repeats until it is known what became of it; after a while the last reply must do. */
export async function askUntilKnown(lab: Lab, caller: Caller, call: Call): Promise<Reply> {
  let reply = await caller.call(call);
  for (let tries = 1; !isKnown(reply) && tries < (lab.over.aborted ? lastTriesMax : triesMax); tries++) {
    await lab.sleep(between(lab, 20, 60) * tries);
    reply = await caller.call(call);
  }
  return reply;
}

export const isKnown = (reply: Reply): boolean => reply.kind !== "unknown" && reply.kind !== "refused";

/** So often, in ms, that replies show the service to be there. */
const lookEveryMs = 100;

/**
 * Reads until it is over: what is told or granted late is late only while somebody is answered. A name that nobody
 * wants, for who looks at a name wakes those who wait for it.
 */
export async function look(lab: Lab, isOver: () => boolean): Promise<void> {
  const caller = lab.caller("looking", 0);
  while (!isOver()) {
    await caller.call({ op: "read", name: `${lab.prefix}aside` });
    await lab.sleep(lookEveryMs);
  }
}

export const letGo = (lab: Lab, caller: Caller, name: string, lease: string): Promise<Reply> =>
  askUntilKnown(lab, caller, { op: "release", name, lease });

/** A repeat of a request whose reply was lost. */
export interface Repeated {
  readonly reply: Reply;
  /** The reply that was lost had told of a grant. */
  readonly hadCommitted: boolean;
}

/**
 * Asks again for what a lost reply may have told. A repeat that is told that its lease is over is not the grant itself,
 * nor is one that is granted with less than its whole TTL left; or, where a repeat renews, one that is granted what was
 * held before.
 */
export async function repeat(lab: Lab, caller: Caller, call: AcquireCall): Promise<Repeated> {
  const { name, ttlMs } = call;
  const before = lab.terms?.repeatRenews === true ? await caller.call({ op: "read", name }) : null;
  const reply = await askUntilKnown(lab, caller, call);
  if (reply.kind !== "granted") return { reply, hadCommitted: reply.kind === "lost" };
  const hadCommitted =
    before === null
      ? ttlMs !== null && reply.leftMs < ttlMs
      : before.kind === "state" && before.held && before.token === reply.token;
  return { reply, hadCommitted };
}

/** Leases that their holders left to run out: the next grant of such a name is a takeover. */
export class Abandoned {
  readonly #tokens = new Map<string, number>();

  leave(name: string, token: number): void {
    this.#tokens.set(name, token);
  }

  /** True once for each lease that was left and followed by this grant. */
  takenBy(name: string, token: number): boolean {
    const left = this.#tokens.get(name);
    if (left === undefined || left >= token) return false;
    return this.#tokens.delete(name);
  }
}
