/** `holdfast lock status` and `holdfast lock gc`. */
import type { Lock } from "../../../client/replies.js";
import { durationText, printJson, printLines, warn } from "../output.js";
import type { Place } from "../place.js";
import { unreadableAt, unreadableText } from "../repository/unreadable.js";
import { type Desk, type DeskFlags, openDesk } from "./desk.js";
import { type Attempt, type Kept, writtenAt } from "./kept-leases.js";
import { resourceOf } from "./lock-commands.js";
import { fateOf } from "./process-mark.js";
import { rowsIn, shortOwner } from "./rows.js";

export interface StatusFlags extends DeskFlags {
  readonly resource?: string;
  readonly prefix?: string;
  /** What this session holds. */
  readonly mine?: boolean;
}

export async function statusCommand(given: string | undefined, flags: StatusFlags): Promise<void> {
  const isOne = given !== undefined || flags.resource !== undefined;
  const resource = isOne ? resourceOf(given, flags.resource, "status") : null;
  const desk = await openDesk(flags);
  const found = resource === null ? await allLocks(desk, flags) : [await desk.client.locks.get(resource)];
  const held = found.filter(({ status, name }) => status === "held" && name.startsWith(flags.prefix ?? ""));
  const locks = flags.mine === true ? held.filter((lock) => isOfSession(desk, lock)) : held;
  const isRepository = desk.place.kind === "repository";
  // One lock that is asked for by its name could be read, or the command has failed.
  const damaged = isRepository && resource !== null ? [] : await unreadableAt(desk.place);
  warn(...(damaged ?? []).map((one) => `holdfast: ${unreadableText(one)}`));
  if (flags.json === true)
    return printJson({
      locks: locks.map((lock) => ({ ...lockFields(lock), mine: isOfSession(desk, lock) })),
      conflicts: [],
      ...(damaged === null
        ? {}
        : { damaged: damaged.map(({ resource, ref, details }) => ({ resource, ref, details })) }),
      total: locks.length,
    });
  if (locks.length === 0) printLines(flags.mine === true ? "No locks of this session" : "No active locks");
  else printLines("Active Locks:", ...rowsOf(locks));
  const others = held.length - locks.length;
  if (others > 0)
    warn(
      `${others} more held by ${desk.principal} in other sessions; this one is ${desk.session.label} (HOLDFAST_SESSION names another)`,
    );
}

async function allLocks(desk: Desk, { prefix, mine }: StatusFlags): Promise<Lock[]> {
  const locks: Lock[] = [];
  const query = { ...(prefix === undefined ? {} : { prefix }), ...(mine === true ? { mine } : {}) };
  for await (const lock of desk.client.locks.each(query)) locks.push(lock);
  return locks;
}

/** By its token: a lease that was kept and is over does not count. */
function isOfSession({ kept, principal }: Desk, { name, holder, fencingToken }: Lock): boolean {
  return holder?.principal === principal && kept.lease(name)?.token === fencingToken;
}

function lockFields(lock: Lock): Record<string, unknown> {
  const { name, holder, fencingToken, expiresAt, expiresInMs, metadata, waiters } = lock;
  return {
    resource: name,
    owner: holder?.principal ?? null,
    session: holder?.session ?? null,
    token: fencingToken,
    since_unix_ms: holder?.since.getTime() ?? null,
    expires_unix_ms: expiresAt?.getTime() ?? null,
    expires_in_ms: expiresInMs,
    metadata,
    waiters,
  };
}

/** `  issue:8057324b  64d15a2c  expires in 25m` */
const rowsOf = (locks: readonly Lock[]): string[] =>
  rowsIn(
    locks.map(({ name, holder, expiresInMs }) => [
      name,
      shortOwner(holder?.principal ?? ""),
      `expires in ${durationText(expiresInMs ?? 0)}`,
    ]),
  );

/**
 * A server removes what has expired by itself; a repository's locks are cleaned up here. In both cases so are files of
 * leases that are over, and of attempts whose command was killed.
 */
export async function gcCommand(flags: DeskFlags): Promise<void> {
  const desk = await openDesk(flags);
  const cleaned = await cleanRepository(desk.place);
  const begunAt = Date.now();
  const { leases, attempts } = desk.kept.everything();
  const locks = await allLocks(desk, {});
  const isHeld = (resource: string, token?: number): boolean =>
    locks.some(
      ({ name, holder, fencingToken }) =>
        name === resource && holder?.principal === desk.principal && (token ?? fencingToken) === fencingToken,
    );
  // One that was written after the list was asked for says nothing of it.
  const isEarlier = ({ file }: Kept | Attempt): boolean => writtenAt(file) < begunAt;
  const staleLeases = leases.filter((kept) =>
    desk.kept.isOurs(kept) ? isEarlier(kept) && !isHeld(kept.resource, kept.token) : isLongOver(kept),
  );
  const staleAttempts = attempts.filter(
    (attempt) =>
      desk.kept.isOurs(attempt) &&
      isEarlier(attempt) &&
      fateOf(attempt.command) === "gone" &&
      !attempt.resources.some((resource) => isHeld(resource)),
  );
  for (const kept of staleLeases) desk.kept.forget(kept);
  for (const attempt of staleAttempts) desk.kept.discard(attempt);
  const files = staleLeases.length + staleAttempts.length;
  const kept = locks.length;
  if (flags.json === true)
    return printJson({
      removed: cleaned?.removed ?? 0,
      kept,
      ...(cleaned === null ? {} : { expired: cleaned.settled }),
      local_files_removed: files,
    });
  printLines(
    cleaned === null
      ? `Removed 0 expired locks, kept ${kept}: a server removes them by itself`
      : `Ended ${cleaned.settled} expired locks, removed ${cleaned.removed} records of locks long free, kept ${kept} that are held`,
    ...(files === 0 ? [] : [`  Removed ${files} ${files === 1 ? "file" : "files"} of leases that are over`]),
  );
}

/** Ends what has expired and removes what has long been free; null at a server. */
async function cleanRepository(place: Place): Promise<{ settled: number; removed: number } | null> {
  if (place.kind === "server") return null;
  const [{ access }, { space }] = await Promise.all([
    import("../repository/access.js"),
    import("../repository/routes.js"),
  ]);
  return (await access(place)).leases.clean(space);
}

/** Of another server, or another principal: it cannot be asked about now. */
const longMs = 7 * 86_400_000;
const isLongOver = ({ expiresAt }: Kept): boolean => Date.now() - expiresAt > longMs;
