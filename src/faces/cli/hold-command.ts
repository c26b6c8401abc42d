/** `holdfast hold NAME`: keeps a lease until it is told to stop, and says what happens, one JSON object per line. */
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { LeaseLostError } from "../../client/errors.js";
import { Lease } from "../../client/lease.js";
import { LeaseState } from "../../client/lease-state.js";
import { Locks, type Waiting } from "../../client/locks.js";
import { Renewal } from "../../client/renewal.js";
import { Transport } from "../../client/transport.js";
import { connect } from "./connect.js";
import { CliError, exitCodes } from "./failure.js";
import { instantText, jsonText } from "./output.js";
import { endpointOf, type Place } from "./place.js";
import { isThere } from "./process-stat.js";
import { startOf } from "./run/processes.js";
import { Signals } from "./run/signals.js";
import { durationsOf, maybeHeld, type TakeFlags, type Taken, take } from "./run/take.js";
import type { ServerFlags } from "./settings.js";
import { inLine, notGranted, whyLost } from "./wording.js";

export interface HoldFlags extends ServerFlags, TakeFlags {
  readonly whilePid?: string;
}

/** How often a process that the lease is tied to is looked at. */
const lookMs = 200;
/** How long an attempt to release may take once it is time to go, and how many follow the first. */
const releaseTry = { timeoutMs: 2000, retries: 2 };

/** How long what was said last may wait for its reader once all is over. */
const unreadMaxMs = 1000;

/** Why it was told to stop before anything was granted, as an exit code. */
const processEnded = "the process has ended";
const readerGone = "nobody reads the output";

/** Returns the exit code: 0 when it was told to stop, 4 when the lease was lost. */
export async function holdCommand(name: string, flags: HoldFlags): Promise<number> {
  try {
    return await takeAndHold(name, flags);
  } finally {
    // Lines that a full pipe does not take would keep this process for ever. It leaves with the exit code set by then.
    setTimeout(() => process.exit(), unreadMaxMs).unref();
  }
}

async function takeAndHold(name: string, flags: HoldFlags): Promise<number> {
  const { ttlSeconds, waitMs } = durationsOf(flags);
  const stop = stopSignal(flags.whilePid === undefined ? null : processOf(flags.whilePid));
  const { client, place } = await connect(flags);
  const onWaiting = (waiting: Waiting): void => say({ event: "waiting", name, ...waitingFields(waiting) });
  const begunAt = Date.now();
  const { metadata } = flags;
  const exitCode = exitCodes.conflict;
  const wanted = { name, ttlSeconds, waitMs, metadata, exitCode, onWaiting, signal: stop };
  const taken = await take(client, wanted);
  if ("reply" in taken) return held(taken, place, stop);
  if (taken.status === "interrupted") return stoppedEarly(name, stop, taken.isClean);
  say({ event: taken.status, name, ...waitingFields(taken) });
  const waited = { wantedMs: waitMs, waitedMs: Date.now() - begunAt };
  throw notGranted(name, taken, waited, exitCode);
}

/** Until it is told to stop, or the lease is lost. */
async function held(taken: Taken, place: Place, stop: AbortSignal): Promise<number> {
  const { name, leaseId, fencingToken, expiresAt } = taken.reply;
  const lease = kept(taken, place);
  say({ event: "acquired", name, lease_id: leaseId, fencing_token: fencingToken, expires_at: expiresAt });
  await either(stop, lease.signal);
  if (!lease.held) throw lossOf(taken, lease.signal.reason);
  const until = instantText(lease.safeUntil);
  try {
    await lease.release();
  } catch (error) {
    const { message } = error as Error;
    throw new CliError(
      `${name} could not be released, and ends by itself after ${until}: ${message}`,
      exitCodes.storage,
      { details: { resource: name, token: fencingToken } },
    );
  }
  say({ event: "released", name });
  return exitCodes.done;
}

function lossOf({ reply: { name, fencingToken } }: Taken, reason: unknown): CliError {
  const why = whyLost(name, reason instanceof LeaseLostError ? reason.why : String(reason));
  say({ event: "lost", name, details: why });
  return new CliError(`the lease on ${name} is lost: ${why}`, exitCodes.conflict, {
    code: "lease_lost",
    details: { resource: name, token: fencingToken, reason: why },
  });
}

/** Renewed from here on. */
function kept({ reply, sentAt }: Taken, place: Place): Lease {
  const { name, leaseId, renewAfterMs, expiresInMs } = reply;
  const state = new LeaseState();
  state.renewed(sentAt, expiresInMs);
  const options = { ...endpointOf(place), space: undefined };
  const locks = new Locks(new Transport({ ...options, ...releaseTry }));
  return new Lease(reply, state, locks, (lost) => {
    const renewal = new Renewal(options, { name, leaseId, renewAfterMs, sentAt }, state, lost, () => {
      // A reader that is behind finds the next one: nothing piles up here.
      if (process.stdout.writableLength === 0) say({ event: "renewed", name, safe_until: state.safeUntil });
    });
    return () => renewal.stop();
  });
}

/** Nothing is held, as far as the server could be asked. */
function stoppedEarly(name: string, stop: AbortSignal, isClean: boolean): number {
  const why = String(stop.reason);
  const doubt = isClean ? "" : `. ${maybeHeld}`;
  say({ event: "stopped", name, details: `${why}${doubt}` });
  if (why === readerGone) return exitCodes.done;
  if (why === processEnded)
    throw new CliError(
      `the process of --while-pid has ended: ${name} was not taken${doubt}`,
      exitCodes.notFound,
    );
  throw new CliError(
    `interrupted while waiting for ${name}: nothing was taken${doubt}`,
    128 + constants.signals[why as NodeJS.Signals],
    { code: "interrupted" },
  );
}

function say(event: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${jsonText({ ...event, at: new Date() })}\n`);
}

function waitingFields(waiting: Waiting): Record<string, unknown> {
  if (waiting.status === "trouble") return { details: waiting.error.message };
  if (waiting.status === "delayed") return { available_at: waiting.availableAt };
  const { holder, expiresAt, metadata, position } = waiting;
  return {
    holder: holder.principal,
    since: holder.since,
    expires_at: expiresAt,
    metadata,
    position,
    waiters: inLine(waiting),
  };
}

/** Aborted by a signal, by the end of the other process, or when nobody reads what is said any more. */
function stopSignal(other: Other | null): AbortSignal {
  const stop = new AbortController();
  const { stop: signalled } = new Signals();
  signalled.addEventListener("abort", () => stop.abort(signalled.reason), { once: true });
  process.stdout.on("error", () => stop.abort(readerGone));
  if (other !== null) void whenGone(other).then(() => stop.abort(processEnded));
  return stop.signal;
}

interface Other {
  readonly pid: number;
  /** Another process may get the same number. Null where that is not shown. */
  readonly startedAt: number | null;
}

function processOf(text: string): Other {
  const pid = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(pid) || pid < 1)
    throw new CliError(`--while-pid ${text}: give the number of a process`, exitCodes.usage);
  const other = { pid, startedAt: startOf(pid) };
  if (!isAlive(other))
    throw new CliError(`--while-pid ${text}: there is no such process`, exitCodes.notFound);
  return other;
}

async function whenGone(other: Other): Promise<void> {
  while (isAlive(other)) await sleep(lookMs, undefined, { ref: false });
}

function isAlive({ pid, startedAt }: Other): boolean {
  // One that has ended and is not yet reaped shows no start any more.
  if (process.platform === "linux") return startedAt !== null && startOf(pid) === startedAt;
  return isThere(pid);
}

function either(one: AbortSignal, other: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of [one, other]) {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
    }
  });
}
