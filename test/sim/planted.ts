// Bugs planted in the simulated server, one at a time, where a real one could be: in what the store keeps, in its
// clock, in what the service answers, in whom it wakes. They are what the simulation is measured by, and exist only
// here.
import type { Decide, Write } from "../../src/core/decision.js";
import { noHeirs } from "../../src/core/heirs.js";
import type { InspectReply } from "../../src/core/inspect.js";
import type { Key } from "../../src/core/keys.js";
import type { Leases } from "../../src/service/leases.js";
import { type Change, type Store, StoreError } from "../../src/store/store.js";
import type { Plant } from "./machine.js";

export interface Bug {
  readonly bug: string;
  /** A verdict names one of these invariants. */
  readonly breaks: readonly string[];
  readonly plant: Plant;
}

/** The store with some of its verbs replaced; the others run on the store itself. */
const storing =
  (change: (store: Store) => Partial<Store>) =>
  (store: Store): Store => ({
    facts: store.facts,
    transact: (...args) => store.transact(...args),
    list: (range) => store.list(range),
    changes: (after, signal) => store.changes(after, signal),
    head: () => store.head(),
    now: () => store.now(),
    ping: () => store.ping(),
    gauges: () => store.gauges(),
    backup: (path) => store.backup(path),
    close: () => store.close(),
    ...change(store),
  });

/** Writes something else than what was decided. */
const writing = (change: (writes: readonly Write[]) => readonly Write[]) =>
  storing((store) => ({
    transact: (keys, decide, signal) =>
      store.transact(
        keys,
        (view) => {
          const decision = decide(view);
          return "need" in decision ? decision : { ...decision, writes: change(decision.writes) };
        },
        signal,
      ),
  }));

const hasty = storing((store) => ({
  transact: <Reply>(keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply> => {
    const replies: Reply[] = [];
    const durable = store.transact(
      keys,
      (view) => {
        const decision = decide(view);
        if (!("need" in decision)) replies.push(decision.reply);
        return decision;
      },
      signal,
    );
    durable.catch(() => undefined);
    return replies.length === 0 ? durable : Promise.resolve(replies[0] as Reply);
  },
}));

const sure = storing((store) => ({
  transact: (keys, decide, signal) =>
    store.transact(keys, decide, signal).catch((error: unknown) => {
      throw error instanceof StoreError ? new StoreError("unavailable", error.message) : error;
    }),
}));

const stuttering = storing((store) => ({
  changes: async function* (after, signal): AsyncGenerator<Change> {
    let told = 0;
    for await (const change of store.changes(after, signal)) {
      yield change;
      if (++told % 7 === 0) yield change;
    }
  },
}));

/** The service with some of its calls replaced. */
const calling = (change: (leases: Leases) => Partial<Leases>) => (leases: Leases) =>
  Object.assign(leases, change(leases));

const lagging = calling((leases) => {
  const inspect = leases.inspect.bind(leases);
  const last = new Map<string, InspectReply>();
  return {
    inspect: async (space, name) => {
      const before = last.get(name);
      const now = await inspect(space, name);
      last.set(name, now);
      return before ?? now;
    },
  };
});

const lenient = calling((leases) => {
  const release = leases.release.bind(leases);
  return {
    release: async (call) => {
      const { holding } = await leases.inspect(call.space, call.name);
      const lease = holding?.lock.lease;
      return release(lease === undefined ? call : { ...call, leaseId: lease.id, principal: lease.principal });
    },
  };
});

/** Whoever knows the id of a lease is taken for its holder. */
const trusting = calling((leases) => {
  const renew = leases.renew.bind(leases);
  return {
    renew: async (call) => {
      const { holding } = await leases.inspect(call.space, call.name);
      const lease = holding?.lock.lease;
      return renew(lease?.id === call.leaseId ? { ...call, principal: lease.principal } : call);
    },
  };
});

/** Whoever knows the id of a session is taken for its owner. */
const open = (leases: Leases): Leases => {
  const { sessions } = leases;
  const owners = new Map<string, string>();
  const [start, keepalive] = [sessions.start.bind(sessions), sessions.keepalive.bind(sessions)];
  Object.assign(sessions, {
    start: (call: Parameters<typeof start>[0]) => {
      owners.set(call.id, call.principal);
      return start(call);
    },
    keepalive: (call: Parameters<typeof keepalive>[0]) =>
      keepalive({ ...call, principal: owners.get(call.id) ?? call.principal }),
  });
  return leases;
};

const generous = calling((leases) => {
  const renew = leases.renew.bind(leases);
  return {
    renew: async (call) => {
      const { lock, holding } = await leases.inspect(call.space, call.name);
      const outcome = await renew(call);
      const isOver =
        lock !== null && lock.previous?.leaseId === call.leaseId && lock.previous.how === "expired";
      if (!("refused" in outcome) || !isOver || holding !== null) return outcome;
      return leases
        .acquire(revived(call, call.ttlMs ?? 1000), null)
        .then(({ outcome: again }) =>
          "granted" in again ? { renewed: again.granted, capped: false } : outcome,
        );
    },
  };
});

const revived = (call: Parameters<Leases["renew"]>[0], ttlMs: number): Parameters<Leases["acquire"]>[0] => ({
  ...call,
  owner: null,
  metadata: null,
  ttlMs,
  delayMs: 0,
  sessionId: null,
  proof: null,
  reentrant: false,
  request: null,
});

/** Nobody in line is served by another's step. */
const deaf = (leases: Leases): Leases => {
  Object.assign(leases.queues, { successors: noHeirs });
  return leases;
};

export const bugs: readonly Bug[] = [
  {
    bug: "answers before its commit is durable",
    breaks: ["I1", "I2", "I9", "I10", "I19", "I20", "I22"],
    plant: { store: hasty },
  },
  { bug: "says certainly not done of what may be", breaks: ["I20", "I22", "I27"], plant: { store: sure } },
  {
    bug: "forgets request ids",
    breaks: ["I19"],
    plant: { store: writing((writes) => writes.filter(({ record }) => record?.kind !== "request")) },
  },
  {
    bug: "cleans up without a floor",
    breaks: ["I9", "I10"],
    plant: {
      store: writing((writes) =>
        writes.some(({ record, key }) => record === null && key.startsWith("lock/"))
          ? writes.filter(({ record }) => record?.kind !== "floor")
          : writes,
      ),
    },
  },
  {
    bug: "forgets to index a session that has ended",
    breaks: ["rest"],
    plant: {
      store: writing((writes) =>
        writes.map((write) =>
          write.record?.kind === "session" && write.record.ended !== null ? { ...write, add: [] } : write,
        ),
      ),
    },
  },
  { bug: "has a clock that runs fast", breaks: ["I2", "I16", "I22"], plant: { clockRate: 1.25 } },
  { bug: "has a clock that runs slow", breaks: ["I3", "I16", "I28"], plant: { clockRate: 0.8 } },
  { bug: "tells events twice", breaks: ["I29"], plant: { store: stuttering } },
  { bug: "reads what was a moment ago", breaks: ["I28"], plant: { leases: lagging } },
  { bug: "releases whoever holds it", breaks: ["I15", "I17", "I22"], plant: { leases: lenient } },
  { bug: "renews a lease for a stranger who knows its id", breaks: ["I15"], plant: { leases: trusting } },
  { bug: "keeps a session alive for a stranger who knows its id", breaks: ["I15"], plant: { leases: open } },
  {
    bug: "brings back a lease that had run out",
    breaks: ["I9", "I10", "I12", "I16"],
    plant: { leases: generous },
  },
  { bug: "wakes nobody", breaks: ["I25", "I26"], plant: { leases: deaf } },
];
