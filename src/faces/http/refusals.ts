/**
 * Refusals as HTTP answers: one total table for locks, one for jobs. Each says what happened, who holds it, and
 * what to do next.
 */
import type { Ended } from "../../core/records.js";
import type { Holding, Refusal, RefusalCode } from "../../core/refusal.js";
import { type Answer, ok, problem } from "./answer.js";
import { ownerOf, type Presenter, retryAfter } from "./present.js";

/** What a table row may need beyond the refusal itself. */
export interface Asked {
  readonly name: string;
  /** The lease that the caller spoke of. */
  readonly leaseId?: string | undefined;
  readonly waiters: number;
  readonly position?: number | undefined;
  readonly present: Presenter;
}

type Of<Code extends RefusalCode> = Extract<Refusal, { refused: Code }>;
type Table = { readonly [Code in RefusalCode]: (refusal: Of<Code>, asked: Asked) => Answer };

const shared = {
  request_reused: () =>
    problem(
      "invalid_input",
      "This request id was used for another request. Use a new one for each new request.",
    ),
  session_unknown: () =>
    problem(
      "not_found",
      "There is no such session for this token. Make one with POST /sessions, and keep its id.",
    ),
  session_expired: (refusal: Of<"session_expired">, { present }: Asked) =>
    problem(
      "session_expired",
      `The session ended at ${present.instants.text(refusal.endedAt)}, and its leases with it. Make a new one with POST /sessions.`,
    ),
  overlap_too_wide: (refusal: Of<"overlap_too_wide">) =>
    problem(
      "conflict",
      `${refusal.limit} or more leases lie below this name; it cannot be told in one step that all are yours. Release some, or take a narrower name.`,
    ),
};

const delayReasons = {
  restore: "the server was restored from a backup and waits until leases granted before are over",
  lock_delay: "its last lease ended without a release and a lock delay runs",
} satisfies Record<Of<"delayed">["why"], string>;

/** Why some names cannot be taken yet, each reason once. */
export const reasonsOf = (whys: readonly (keyof typeof delayReasons)[]): string =>
  [...new Set(whys.map((why) => delayReasons[why]))].join("; ");

const delayed = (refusal: Of<"delayed">, { name, present }: Asked, extra: object = {}): Answer => {
  const at = present.instants.text(refusal.availableAt);
  const why = delayReasons[refusal.why];
  return problem(
    "delayed",
    `${name} cannot be taken before ${at}: ${why}. Try again then, or use wait_seconds.`,
    {
      extra: { ...extra, status: "delayed", available_at: at },
      retryAfterMs: Math.max(1, refusal.availableAt - refusal.now + 1),
    },
  );
};

/** How the last lease ended, and whether that was the caller's own. */
function howItEnded(previous: Ended | null, { leaseId, present }: Asked): string {
  if (previous === null) return "";
  const at = present.instants.text(previous.endedAt);
  const which =
    previous.leaseId === leaseId ? "It" : `The last lease (${ownerOf(previous)}, token ${previous.token})`;
  if (previous.how === "forced")
    return ` ${which} was ended by ${previous.by ?? "an administrator"} at ${at}: ${previous.reason ?? "no reason given"}.`;
  return ` ${which} ended at ${at}: ${previous.how}.`;
}

const nowHeldBy = (holding: Holding, present: Presenter): string =>
  `It is held by ${ownerOf(holding.lock.lease)} until ${present.instants.text(holding.expiresAt)}${holding.lock.token === 0 ? "" : ` (token ${holding.lock.token})`}.`;

/** The same for programs. */
const nowHolding = (holding: Holding | null, present: Presenter): object =>
  holding === null
    ? {}
    : { holder: present.holder(holding), expires_at: present.instants.text(holding.expiresAt) };

const takenBy = (name: string, { lock }: Holding): string =>
  lock.name === name ? `${name} is taken.` : `${name} overlaps ${lock.name}, which is taken.`;

function lost(
  refusal: { readonly holding: Holding | null; readonly previous: Ended | null },
  asked: Asked,
): Answer {
  const { holding, previous } = refusal;
  const { name, present } = asked;
  const now = holding === null ? "Nobody holds it now." : nowHeldBy(holding, present);
  return problem(
    "lease_lost",
    `This lease on ${name} is over: stop the work it guards.${howItEnded(previous, asked)} ${now}`,
    {
      extra: {
        job_id: name,
        owner: holding === null ? null : ownerOf(holding.lock.lease),
        ...nowHolding(holding, present),
        ...(previous === null ? {} : { previous: present.previous(previous) }),
      },
    },
  );
}

/** What the request was granted may be another name than the one asked about, where it named several. */
const spent = (refusal: Of<"request_spent">, asked: Asked): Answer =>
  lost(refusal, { ...asked, name: refusal.name, leaseId: refusal.leaseId });

const lockTable: Table = {
  ...shared,
  held: ({ holding }, { name, waiters, position, present }) =>
    ok(present.held(name, holding, waiters, position)),
  delayed,
  queued: (_, { name }) =>
    problem("delayed", `${name} is free, but earlier waiters go first. Try again, or use wait_seconds.`, {
      extra: { status: "delayed" },
      retryAfterMs: 50,
    }),
  not_current: ({ holding, previous }, asked) => {
    const { name, leaseId, present } = asked;
    if (holding === null)
      return problem(
        "lease_not_current",
        `Nobody holds ${name} now.${howItEnded(previous, asked)} Acquire it again before going on.`,
      );
    const ended = previous !== null && previous.leaseId === leaseId ? howItEnded(previous, asked) : "";
    return problem(
      "lease_not_current",
      `This lease is not the current one of ${name}.${ended} ${nowHeldBy(holding, present)}`,
      { status: 400, extra: nowHolding(holding, present) },
    );
  },
  request_spent: spent,
};

const jobTable: Table = {
  ...shared,
  held: ({ holding }, { name, position, present }) =>
    problem("held", `${takenBy(name, holding)} ${nowHeldBy(holding, present)}`, {
      extra: {
        claimed: false,
        ...present.inTheWay(name, holding),
        ...(position === undefined ? {} : { position }),
      },
      retryAfterMs: retryAfter(holding.expiresAt, holding.now),
    }),
  delayed: (refusal, asked) =>
    delayed(refusal, asked, { claimed: false, ...asked.present.inTheWay(asked.name, null) }),
  queued: (_, { name, present }) =>
    problem("delayed", `${name} is free, but earlier waiters go first. Try again, or use wait_seconds.`, {
      extra: { claimed: false, ...present.inTheWay(name, null) },
      retryAfterMs: 50,
    }),
  not_current: lost,
  request_spent: spent,
};

function answer(table: Table, refusal: Refusal, asked: Asked): Answer {
  const row = table[refusal.refused] as (refusal: Refusal, asked: Asked) => Answer;
  return row(refusal, asked);
}

/**
 * A name that overlaps may lie outside what the caller may see: then it learns that the name is taken, and until
 * when, but neither by whom and for what nor the token of the other name.
 */
export function withinSight(refusal: Refusal, name: string, sees: (name: string) => boolean): Refusal {
  if (refusal.refused !== "held" || refusal.holding.lock.name === name || sees(refusal.holding.lock.name))
    return refusal;
  const { lock } = refusal.holding;
  const lease = { ...lock.lease, principal: "another", owner: null, sessionHash: null, metadata: null };
  return { refused: "held", holding: { ...refusal.holding, lock: { ...lock, name, token: 0, lease } } };
}

export const lockRefusal = (refusal: Refusal, asked: Asked): Answer => answer(lockTable, refusal, asked);
export const jobRefusal = (refusal: Refusal, asked: Asked): Answer => answer(jobTable, refusal, asked);
