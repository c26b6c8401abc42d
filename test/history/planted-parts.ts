// Bugs around the rules: an engine that loses, repeats or mixes up what was decided, and a queue without order.
import type { Decided } from "../../src/core/decision.js";
import type { Key } from "../../src/core/keys.js";
import { type AnyRecord, type FeedEvent, isLeaseEvent } from "../../src/core/records.js";
import { StoreError } from "../../src/store/store.js";
import { type About, Engine, type Records } from "./engine.js";
import type { Bug } from "./planted.js";
import { Queue, type Waiter } from "./service.js";

/** Counts to `n` and is true then. */
class Every {
  #count = 0;

  constructor(readonly n: number) {}

  get next(): boolean {
    return ++this.#count % this.n === 0;
  }
}

/** Does not write every n-th step of a kind. */
const losing = (about: About, n: number) =>
  class extends Engine {
    readonly #every = new Every(n);

    protected override commit(decided: Decided<unknown>, of: About): void {
      // Not where it serves somebody else as well.
      const [event, ...others] = decided.events;
      if (of === about && event !== undefined && others.length === 0 && this.#every.next) return;
      super.commit(decided, of);
    }
  };

/** Tells its events differently. */
const telling = (n: number, change: (events: readonly FeedEvent[]) => readonly FeedEvent[]) =>
  class extends Engine {
    readonly #every = new Every(n);

    protected override tell(events: readonly FeedEvent[]): void {
      super.tell(events.length > 0 && this.#every.next ? change(events) : events);
    }
  };

/** Tells everything so much later. */
const tellingLate = (ms: number) =>
  class extends Engine {
    readonly #kept: { readonly at: number; readonly events: readonly FeedEvent[] }[] = [];

    protected override tell(events: readonly FeedEvent[]): void {
      this.#kept.push({ at: this.clock(), events });
      while ((this.#kept[0]?.at ?? Number.POSITIVE_INFINITY) <= this.clock() - ms)
        super.tell(this.#kept.shift()?.events ?? []);
    }
  };

class FallsSilent extends Engine {
  protected override tell(events: readonly FeedEvent[]): void {
    if (this.feed.length < 20) super.tell(events);
  }
}

class ForgetsPlaces extends Engine {
  readonly #every = new Every(20);

  protected override tell(events: readonly FeedEvent[]): void {
    super.tell(events);
    if (events.length > 0 && this.#every.next) this.feed = [];
  }
}

class ForgetfulAtCrash extends Engine {
  #earlier: Records = [];
  #latest: Records = [];
  #takenAt = 0;

  protected override commit(decided: Decided<unknown>, about: About): void {
    if (this.clock() - this.#takenAt > 500) {
      this.#earlier = this.#latest;
      this.#latest = this.backup();
      this.#takenAt = this.clock();
    }
    super.commit(decided, about);
  }

  override crash(): void {
    this.become(this.#earlier);
  }
}

/** Its clock is off after a restart. */
const steppedAtCrash = (ms: number) =>
  class extends Engine {
    #off = 0;

    override now(): number {
      return this.clock() + this.#off;
    }

    override crash(): void {
      this.#off += ms;
    }
  };

class StaleReads extends Engine {
  readonly #before = new Map<Key, AnyRecord | null>();

  protected override commit(decided: Decided<unknown>, about: About): void {
    if (about === "read") return;
    for (const { key } of decided.writes) this.#before.set(key, this.record(key));
    super.commit(decided, about);
  }

  protected override load(key: Key, about: About): AnyRecord | null {
    return about === "read" ? (this.#before.get(key) ?? null) : super.load(key, about);
  }
}

class LateRefusal extends Engine {
  readonly #every = new Every(12);

  override transact: Engine["transact"] = (keys, decide, about) => {
    const decided = super.transact(keys, decide, about);
    if (about === "acquire" && decided.writes.length > 0 && this.#every.next)
      throw new StoreError("unavailable", "written, and refused");
    return decided;
  };
}

class CleansTooMuch extends Engine {
  protected override commit({ writes, ...decided }: Decided<unknown>, about: About): void {
    const kept = writes.map((write) =>
      write.record?.kind === "lock" && write.record.lease === null
        ? { ...write, record: null, add: [] }
        : write,
    );
    super.commit({ ...decided, writes: kept }, about);
  }
}

class NeverOver extends Engine {
  protected override load(key: Key, about: About): AnyRecord | null {
    const record = super.load(key, about);
    if (record?.kind !== "lock" || record.lease === null || record.lease.expiresAt === null) return record;
    return { ...record, lease: { ...record.lease, expiresAt: record.lease.expiresAt + 5000 } };
  }
}

class LastFirst extends Queue {
  override nth(name: string, nth: number): Waiter | undefined {
    return this.waiters.filter(({ claim }) => claim.name === name).reverse()[nth];
  }
}

class NeverGivesUp extends Queue {
  override giveUp(waiter: Waiter): boolean {
    return this.waiters.includes(waiter);
  }
}

export const bugsInParts: readonly Bug[] = [
  { bug: "answers a release and does not write it", breaks: ["I22"], engine: losing("release", 5) },
  {
    bug: "answers a grant and does not write it",
    breaks: ["I2", "I10", "I22"],
    engine: losing("acquire", 9),
  },
  {
    bug: "loses what it acknowledged when it crashes",
    breaks: ["I9", "I10", "I22"],
    engine: ForgetfulAtCrash,
  },
  { bug: "jumps ahead when it is started again", breaks: ["I2", "I22"], engine: steppedAtCrash(1500) },
  { bug: "goes back in time when it is started again", breaks: ["I3", "I16"], engine: steppedAtCrash(-4000) },
  { bug: "reads from a copy that lags behind", breaks: ["I28"], engine: StaleReads },
  { bug: "refuses an acquire that it wrote", breaks: ["I20", "I27"], engine: LateRefusal },
  { bug: "forgets the token of a free name", breaks: ["I9", "I10"], engine: CleansTooMuch },
  { bug: "lets no lease run out", breaks: ["I3"], engine: NeverOver },
  { bug: "serves who came last first", breaks: ["I25"], queue: LastFirst },
  { bug: "grants to waiters that were told to go", breaks: ["I27"], queue: NeverGivesUp },
  { bug: "tells some events never", breaks: ["I29"], engine: telling(9, (events) => events.slice(1)) },
  { bug: "tells some events twice", breaks: ["I29"], engine: telling(9, (events) => [...events, ...events]) },
  { bug: "tells everything three seconds late", breaks: ["I29"], engine: tellingLate(3000) },
  { bug: "falls silent on its streams", breaks: ["I29"], engine: FallsSilent },
  { bug: "does not know the place that a stream was told", breaks: ["I29"], engine: ForgetsPlaces },
  {
    bug: "tells events of one step in the wrong order",
    breaks: ["I29"],
    engine: telling(1, (events) => [...events].reverse()),
  },
  {
    bug: "tells of ends as expiry",
    breaks: ["I29"],
    engine: telling(1, (events) =>
      events.map((event) => (event.type === "released" ? { ...event, type: "expired" } : event)),
    ),
  },
  {
    bug: "tells of grants that never were",
    breaks: ["I29"],
    engine: telling(7, (events) =>
      events.map((event) => (isLeaseEvent(event) ? { ...event, token: event.token + 1 } : event)),
    ),
  },
];
