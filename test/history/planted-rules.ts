// Bugs in the rules: a decision that looks at the wrong thing, or says or writes something else than it should.

import type { Decided, Decision, View } from "../../src/core/decision.js";
import { noHeirs } from "../../src/core/heirs.js";
import type { AnyRecord, LockRecord, SessionRecord } from "../../src/core/records.js";
import type { Bug } from "./planted.js";
import { rules } from "./service.js";

/** A view that shows some records as they are not. */
const showing = (view: View, change: (record: AnyRecord) => AnyRecord | null): View => ({
  now: view.now,
  earliest: view.earliest,
  range: (range) => view.range(range),
  get: (key) => {
    const record = view.get(key);
    return (record ? change(record) : record) as typeof record;
  },
});

/** A view whose clock is off by so much. */
const atAnotherTime = (view: View, ms: number): View => ({
  ...showing(view, (record) => record),
  now: view.now + ms,
  earliest: view.earliest + ms,
});

const showingLocks = (view: View, change: (lock: LockRecord) => LockRecord): View =>
  showing(view, (record) => (record.kind === "lock" ? change(record) : record));

const showingSessions = (view: View, change: (session: SessionRecord) => SessionRecord): View =>
  showing(view, (record) => (record.kind === "session" ? change(record) : record));

/** The decision, changed once it is made. */
const changed = <Reply>(
  decision: Decision<Reply>,
  change: (decided: Decided<Reply>) => Decided<Reply>,
): Decision<Reply> => ("need" in decision ? decision : change(decision));

/** The decision with other locks written than it says. */
const writing = <Reply>(
  decision: Decision<Reply>,
  change: (lock: LockRecord) => LockRecord,
): Decision<Reply> =>
  changed(decision, (decided) => ({
    ...decided,
    writes: decided.writes.map((write) =>
      write.record?.kind === "lock" ? { ...write, record: change(write.record) } : write,
    ),
  }));

const unwritten = <Reply>(decision: Decision<Reply>): Decision<Reply> =>
  changed(decision, (decided) => ({ ...decided, writes: [], events: [] }));

const free = (lock: LockRecord): LockRecord => ({ ...lock, lease: null, availableAt: 0, dueAt: 0 });
const alive = (session: SessionRecord): SessionRecord => ({
  ...session,
  ended: null,
  expiresAt: Number.MAX_SAFE_INTEGER,
  dueAt: session.createdAt,
});

/** True for one in `n` ids. */
const sometimes = (id: string, n: number): boolean => Number(id.replace(/\D/g, "")) % n === 0;

const acquiring: readonly Bug[] = [
  {
    bug: "grants a name that is held",
    breaks: ["I2"],
    rules: {
      acquire: (view, claim, ...rest) =>
        rules.acquire(sometimes(claim.leaseId, 9) ? showingLocks(view, free) : view, claim, ...rest),
    },
  },
  {
    bug: "takes leases for over 300 ms early",
    breaks: ["I2", "I22"],
    rules: {
      acquire: (view, ...rest) => rules.acquire(atAnotherTime(view, 300), ...rest),
    },
  },
  {
    bug: "does not wait out a lock delay",
    breaks: ["I2"],
    rules: {
      acquire: (view, ...rest) =>
        rules.acquire(
          showingLocks(view, (lock) => ({ ...lock, availableAt: 0 })),
          ...rest,
        ),
    },
  },
  {
    bug: "says held of a free name",
    breaks: ["I22", "I28"],
    rules: {
      acquire: (view, claim, ...rest) =>
        changed(rules.acquire(view, claim, ...rest), (decided) => {
          const { outcome } = decided.reply;
          if (
            "refused" in outcome ||
            outcome.how !== "new" ||
            outcome.granted.lock.token < 2 ||
            !sometimes(claim.leaseId, 5)
          )
            return decided;
          const { lock } = outcome.granted;
          const holding = { ...outcome.granted, lock: { ...lock, token: lock.token - 1 } };
          return { reply: { outcome: { refused: "held", holding }, heirs: [] }, writes: [], events: [] };
        }),
    },
  },
  {
    bug: "gives a holder that asks again a new lease",
    breaks: ["I12"],
    rules: {
      acquire: (view, claim, policy, ...rest) => {
        const decision = rules.acquire(view, claim, policy, ...rest);
        const isAgain =
          !("need" in decision) && "how" in decision.reply.outcome && decision.reply.outcome.how === "again";
        return isAgain ? rules.acquire(showingLocks(view, free), claim, policy, noHeirs) : decision;
      },
    },
  },
  {
    bug: "lets overlapping names be held at once",
    breaks: ["I1"],
    rules: {
      acquire: (view, claim, ...rest) =>
        rules.acquire(
          showingLocks(view, (lock) => (lock.name === claim.name ? lock : free(lock))),
          claim,
          ...rest,
        ),
    },
  },
  {
    bug: "grants half of the TTL that it answers",
    breaks: ["I2", "I22"],
    rules: {
      acquire: (view, claim, ...rest) =>
        writing(rules.acquire(view, claim, ...rest), (lock) => {
          if (lock.lease?.id !== claim.leaseId || claim.ttlMs === null || lock.lease.expiresAt === null)
            return lock;
          const expiresAt = lock.lease.expiresAt - Math.floor(claim.ttlMs / 2);
          return { ...lock, dueAt: Math.min(lock.dueAt, expiresAt), lease: { ...lock.lease, expiresAt } };
        }),
    },
  },
  {
    bug: "answers a longer TTL than was asked for",
    breaks: ["I18"],
    rules: {
      acquire: (...call) =>
        changed(rules.acquire(...call), (decided) => {
          const { outcome } = decided.reply;
          if ("refused" in outcome) return decided;
          const granted = { ...outcome.granted, expiresAt: outcome.granted.expiresAt + 700 };
          return { ...decided, reply: { ...decided.reply, outcome: { ...outcome, granted } } };
        }),
    },
  },
  {
    bug: "answers a token that JSON cannot carry",
    breaks: ["I13"],
    rules: {
      acquire: (...call) =>
        changed(rules.acquire(...call), (decided) => {
          const { outcome } = decided.reply;
          if ("refused" in outcome) return decided;
          const lock = { ...outcome.granted.lock, token: outcome.granted.lock.token + 2 ** 53 };
          return {
            ...decided,
            reply: { ...decided.reply, outcome: { ...outcome, granted: { ...outcome.granted, lock } } },
          };
        }),
    },
  },
  {
    bug: "grants to a session that is over",
    breaks: ["I5"],
    rules: {
      acquire: (view, ...rest) =>
        changed(rules.acquire(showingSessions(view, alive), ...rest), (decided) => ({
          ...decided,
          writes: decided.writes.map((write) => {
            const truth = view.get(write.key);
            if (write.record?.kind !== "session" || truth?.kind !== "session") return write;
            return { ...write, record: { ...truth, leases: write.record.leases } };
          }),
        })),
    },
  },
];

const repeating: readonly Bug[] = [
  {
    bug: "does not remember request ids",
    breaks: ["I19"],
    rules: {
      acquire: (view, ...rest) =>
        rules.acquire(
          showing(view, (record) => (record.kind === "request" ? null : record)),
          ...rest,
        ),
    },
  },
  {
    bug: "forgets a request id with its lease",
    breaks: ["I19"],
    rules: {
      acquire: (view, claim, ...rest) => {
        const decision = rules.acquire(view, claim, ...rest);
        const isSpent =
          !("need" in decision) &&
          "refused" in decision.reply.outcome &&
          decision.reply.outcome.refused === "request_spent";
        return isSpent ? rules.acquire(view, { ...claim, request: null }, ...rest) : decision;
      },
    },
  },
  {
    bug: "answers another request under a used id",
    breaks: ["I21"],
    rules: {
      acquire: (view, claim, ...rest) =>
        rules.acquire(
          view,
          { ...claim, request: claim.request && { ...claim.request, fingerprint: "any" } },
          ...rest,
        ),
    },
  },
];

const holding: readonly Bug[] = [
  {
    bug: "renews with a new token",
    breaks: ["I12"],
    rules: {
      renew: (...call) =>
        changed(
          writing(rules.renew(...call), (lock) => ({ ...lock, token: lock.token + 1 })),
          (decided) => {
            const { outcome } = decided.reply;
            if ("refused" in outcome) return decided;
            const lock = { ...outcome.renewed.lock, token: outcome.renewed.lock.token + 1 };
            return {
              ...decided,
              reply: { ...decided.reply, outcome: { ...outcome, renewed: { ...outcome.renewed, lock } } },
            };
          },
        ),
    },
  },
  {
    bug: "shortens a lease that is renewed",
    breaks: ["I18"],
    rules: {
      renew: (view, call, ...rest) => rules.renew(view, { ...call, ttlMs: call.ttlMs ?? 150 }, ...rest),
    },
  },
  {
    bug: "answers a renewal and forgets it",
    breaks: ["I2", "I16", "I22"],
    rules: { renew: (...call) => unwritten(rules.renew(...call)) },
  },
  {
    bug: "renews a lease 400 ms after it ran out",
    breaks: ["I16"],
    rules: {
      renew: (view, ...rest) =>
        rules.renew(
          showingLocks(view, (lock) => {
            const expiresAt = lock.lease?.expiresAt ?? 0;
            if (lock.lease === null || expiresAt === 0 || view.now > expiresAt + 400) return lock;
            return { ...lock, lease: { ...lock.lease, expiresAt: Math.max(expiresAt, view.now) } };
          }),
          ...rest,
        ),
      sweep: (view, ...rest) => rules.sweep(atAnotherTime(view, -400), ...rest),
    },
  },
  {
    bug: "lets a stranger release",
    breaks: ["I15"],
    rules: {
      release: (view, call, ...rest) =>
        rules.release(
          showingLocks(view, (lock) =>
            lock.lease?.id === call.leaseId
              ? { ...lock, lease: { ...lock.lease, principal: call.principal } }
              : lock,
          ),
          call,
          ...rest,
        ),
    },
  },
  {
    bug: "ends the successor of a lease that is released late",
    breaks: ["I17"],
    rules: {
      release: (view, call, ...rest) =>
        rules.release(
          showingLocks(view, (lock) =>
            lock.lease !== null && lock.previous?.leaseId === call.leaseId
              ? { ...lock, lease: { ...lock.lease, id: call.leaseId, principal: call.principal } }
              : lock,
          ),
          call,
          ...rest,
        ),
    },
  },
  {
    bug: "starts a lock delay after an own release",
    breaks: ["I3"],
    rules: {
      release: (view, ...rest) =>
        writing(rules.release(view, ...rest), (lock) =>
          lock.lease === null ? { ...lock, availableAt: view.now + 600, dueAt: view.now + 600 } : lock,
        ),
    },
  },
  {
    bug: "forgets to start a lock delay when forced",
    breaks: ["I2"],
    rules: { force: (...call) => writing(rules.force(...call), (lock) => ({ ...lock, availableAt: 0 })) },
  },
];

const sessions: readonly Bug[] = [
  {
    bug: "answers a keepalive and forgets it",
    breaks: ["I2", "I22"],
    rules: { keepalive: (...call) => unwritten(rules.keepalive(...call)) },
  },
  {
    bug: "keeps a session alive that is over",
    breaks: ["I16"],
    rules: {
      keepalive: (view, ...rest) =>
        rules.keepalive(
          showingSessions(view, (session) => ({
            ...session,
            ended: null,
            expiresAt: Math.max(session.expiresAt, view.now),
            dueAt: session.createdAt,
          })),
          ...rest,
        ),
    },
  },
  {
    bug: "says that it ended a session, and did not",
    breaks: ["I3", "I5", "I16"],
    rules: { end: (...call) => unwritten(rules.end(...call)) },
  },
];

const queueing: readonly Bug[] = [
  {
    bug: "wakes who stands in line when somebody else asks, and not at a release",
    breaks: ["I26"],
    rules: { release: (view, call, policy) => rules.release(view, call, policy, noHeirs) },
  },
  {
    bug: "wakes nobody who stands in line",
    breaks: ["I25", "I26"],
    rules: {
      acquire: (view, claim, policy, _, isQueued) => rules.acquire(view, claim, policy, noHeirs, isQueued),
      release: (view, call, policy) => rules.release(view, call, policy, noHeirs),
      sweep: (view, policy) => rules.sweep(view, policy, noHeirs),
    },
  },
];

export const bugsInRules: readonly Bug[] = [...acquiring, ...repeating, ...holding, ...sessions, ...queueing];
