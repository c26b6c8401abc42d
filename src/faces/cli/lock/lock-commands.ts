/** `holdfast lock acquire|renew|release`. */
import { HoldfastError, isLoss, whoIs } from "../../../client/errors.js";
import type { Delayed, Held } from "../../../client/replies.js";
import { newRequestId } from "../../../client/request-id.js";
import { CliError, exitCodes, ttlSecondsOf, waitSecondsOf } from "../failure.js";
import { instantText, printJson, printLines } from "../output.js";
import { WaitingLine } from "../waiting-line.js";
import { inTheWay, reasonOf, refusedDetails } from "../wording.js";
import { ask, grantIn, recovered } from "./attempts.js";
import { type Desk, type DeskFlags, nameOf, openDesk, repeated, shellWord } from "./desk.js";
import type { Grant, Kept } from "./kept-leases.js";
import { isLeaseOfRun, isOfRunAround, leftBehind, type ProofFlags, withProof } from "./proof.js";

export interface AcquireFlags extends DeskFlags {
  readonly resource?: string;
  readonly ttl?: string;
  readonly wait?: string;
  readonly reason?: string;
  readonly metadata?: string;
}

const ttlDefault = "5m";

export async function acquireCommand(given: string | undefined, flags: AcquireFlags): Promise<void> {
  const resource = resourceOf(given, flags.resource, "acquire");
  const ttlSeconds = ttlSecondsOf(flags.ttl ?? ttlDefault);
  const waitSeconds = waitSecondsOf(flags.wait);
  const metadata = metadataOf(flags);
  const desk = await openDesk(flags);
  const grant =
    (await regained(desk, resource, ttlSeconds)) ??
    (await taken(desk, { resource, ttlSeconds, waitSeconds, metadata, flags }));
  show("Lock acquired", desk, grant, ttlSeconds, flags);
}

/** What an earlier acquire of this session was granted, and was killed before it could say so. */
async function regained(desk: Desk, resource: string, ttlSeconds: number): Promise<Grant | null> {
  const kept = await recovered(desk, resource);
  if (kept === null) return null;
  try {
    const grant = await renewed(desk, resource, kept.leaseId, ttlSeconds);
    moved(desk, kept, grant, ttlSeconds);
    return grant;
  } catch (error) {
    if (!isLoss(error)) throw error;
    desk.kept.forget(kept);
    return null;
  }
}

interface Wanted {
  readonly resource: string;
  readonly ttlSeconds: number;
  readonly waitSeconds: number;
  readonly metadata: string | null;
  /** As they were typed. */
  readonly flags: AcquireFlags;
}

async function taken(desk: Desk, wanted: Wanted): Promise<Grant> {
  const { resource, ttlSeconds, metadata } = wanted;
  const line = new WaitingLine(resource);
  const begunAt = Date.now();
  const own = desk.kept.lease(resource);
  // Only a session that was named may ask twice: what merely shares a process may be two callers.
  const proof = own !== null && desk.session.kind === "named" ? { leaseId: own.leaseId } : {};
  for (;;) {
    const waitedMs = Date.now() - begunAt;
    const requestId = newRequestId();
    const wish = {
      kind: "lock",
      resources: [resource],
      requestId,
      ttlSeconds,
      metadata,
      owner: null,
    } as const;
    try {
      const reply = await ask(desk, wish, (signal) =>
        desk.client.locks.acquire(resource, {
          ttl: ttlSeconds,
          wait: Math.max(0, Math.ceil(wanted.waitSeconds - waitedMs / 1000)),
          ...(metadata === null ? {} : { metadata }),
          ...proof,
          requestId,
          onWaiting: (waiting) => line.show(waiting),
          signal,
        }),
      );
      const grant = grantIn(reply);
      if (grant !== null) return grant;
      throw conflict(wanted, reply as Held | Delayed, Date.now() - begunAt, own);
    } catch (error) {
      // It was granted, the reply was lost, and by now the lease is over: stand in line anew.
      const isOver = Date.now() - begunAt >= wanted.waitSeconds * 1000;
      if (!(error instanceof HoldfastError) || error.code !== "lease_lost" || isOver) throw error;
    } finally {
      line.clear();
    }
  }
}

function conflict(wanted: Wanted, reply: Held | Delayed, waitedMs: number, own: Kept | null): CliError {
  const { resource } = wanted;
  const isOwn = reply.status === "held" && own !== null && own.token === reply.fencingToken;
  const isAround = reply.status === "held" && isOfRunAround(resource, reply.fencingToken);
  return new CliError(`Lock conflict: ${inTheWay(resource, reply, waitedMs)}`, exitCodes.conflict, {
    code: reply.status,
    lines: [
      "Error: Lock conflict",
      `Resource: ${resource}`,
      ...(reply.status === "held" ? holderLines(reply) : availableLines(reply)),
      ...(isOwn ? [`Yours: this session holds it; ${renewOf(wanted)} extends it`] : []),
      ...(isAround ? ["Yours: the holdfast run that started this command holds it while it runs"] : []),
    ],
    details: {
      ...refusedDetails(resource, reply),
      ...(reply.status === "held" ? { held_by_this_session: isOwn } : {}),
      ...(isAround ? { held_by_run_around: true } : {}),
    },
  });
}

function holderLines(reply: Held): string[] {
  const { holder, expiresAt, metadata } = reply;
  const reason = reasonOf(metadata);
  const other = (reply as { conflictsWith?: string }).conflictsWith;
  return [
    `Owner: ${whoIs(holder.principal, holder.owner)}`,
    `Expires: ${instantText(expiresAt)}`,
    ...(reason === null ? [] : [`Reason: ${reason}`]),
    ...(other === undefined ? [] : [`Overlaps: ${other}`]),
  ];
}

/** A server that has earlier waiters to serve first names no time. */
const availableLines = ({ availableAt }: { readonly availableAt?: Date }): string[] => [
  `Available: ${availableAt === undefined ? "soon; earlier waiters go first" : instantText(availableAt)}`,
];

function renewOf({ resource, flags: { ttl, ...flags } }: Wanted): string {
  // The default is no wish: renewing without one keeps what was asked for when it was acquired.
  const wished = ttl === undefined || ttl === ttlDefault ? flags : { ...flags, ttl };
  const session = flags.session === undefined ? "" : ` --session ${shellWord(flags.session)}`;
  return `holdfast lock renew --resource ${shellWord(resource)}${repeated(wished)}${session}`;
}

export interface RenewFlags extends ProofFlags {
  readonly resource?: string;
  readonly ttl?: string;
}

export async function renewCommand(given: string | undefined, flags: RenewFlags): Promise<void> {
  const resource = resourceOf(given, flags.resource, "renew");
  const ttlSeconds = flags.ttl === undefined ? null : ttlSecondsOf(flags.ttl);
  const desk = await openDesk(flags);
  const { reply, proof } = await withProof(desk, resource, flags, "lock renew", (leaseId) =>
    renewed(desk, resource, leaseId, ttlSeconds),
  );
  const kept = proof.kept === null ? null : moved(desk, proof.kept, reply, ttlSeconds);
  const wished = isLeaseOfRun(resource, proof.leaseId) ? null : (ttlSeconds ?? kept?.ttlSeconds);
  const seconds = wished ?? Math.round((reply.expiresAt - Date.now()) / 1000);
  show("Lock renewed", desk, reply, seconds, flags);
}

async function renewed(
  desk: Desk,
  resource: string,
  leaseId: string,
  ttlSeconds: number | null,
): Promise<Grant> {
  const { locks } = desk.client;
  const { fencingToken, expiresAt } =
    ttlSeconds !== null && isLeaseOfRun(resource, leaseId)
      ? await locks.extend(resource, leaseId, ttlSeconds)
      : await locks.renew(resource, leaseId, ttlSeconds === null ? {} : { ttl: ttlSeconds });
  return { resource, leaseId, token: fencingToken, expiresAt: expiresAt.getTime() };
}

/** The kept lease as it is after a renewal; one that was adopted is this session's from now on. */
export function moved(desk: Desk, kept: Kept, grant: Grant, ttlSeconds: number | null): Kept {
  const now = desk.kept.keep({ ...kept, ...grant, ttlSeconds: ttlSeconds ?? kept.ttlSeconds });
  if (now.file !== kept.file) desk.kept.forget(kept);
  return now;
}

export interface ReleaseFlags extends ProofFlags {
  readonly resource?: string;
  readonly mine?: boolean;
  readonly all?: boolean;
}

export async function releaseCommand(given: string | undefined, flags: ReleaseFlags): Promise<void> {
  if (flags.mine === true || flags.all === true) return releaseAll(given, flags);
  const resource = resourceOf(given, flags.resource, "release");
  const desk = await openDesk(flags);
  const { proof } = await withProof(desk, resource, flags, "lock release", (leaseId) =>
    desk.client.locks.release(resource, leaseId),
  );
  if (proof.kept !== null) desk.kept.forget(proof.kept);
  if (flags.json === true) printJson({ lock: { resource, owner: desk.principal }, released: true });
  else printLines("Lock released", `  Resource: ${resource}`);
}

/** Everything that this session holds; with --adopt also what sessions that have ended left behind. */
async function releaseAll(given: string | undefined, flags: ReleaseFlags): Promise<void> {
  if (flags.mine !== true || flags.all !== true || given !== undefined || flags.resource !== undefined)
    throw new CliError(
      "release one lock by its name, or all of this session's with: holdfast lock release --mine --all",
      exitCodes.usage,
    );
  const desk = await openDesk(flags);
  for (const { resources } of desk.kept.attempts())
    for (const resource of resources) await recovered(desk, resource);
  const leases = [...desk.kept.leases(), ...(flags.adopt === true ? leftBehind(desk) : [])];
  const released: string[] = [];
  const lost: string[] = [];
  let trouble: unknown = null;
  for (const kept of leases) {
    try {
      await desk.client.locks.release(kept.resource, kept.leaseId);
      released.push(kept.resource);
    } catch (error) {
      if (!isLoss(error)) {
        trouble = error;
        continue;
      }
      lost.push(kept.resource);
    }
    desk.kept.forget(kept);
  }
  if (trouble !== null) throw trouble;
  if (flags.json === true) return printJson({ released, lost, total: released.length });
  printLines(
    `Released ${released.length} ${released.length === 1 ? "lock" : "locks"}`,
    ...released.map((resource) => `  ${resource}`),
    ...lost.map((resource) => `  ${resource} (was over already)`),
  );
}

function show(
  title: string,
  desk: Desk,
  { resource, leaseId, token, expiresAt }: Grant,
  ttlSeconds: number,
  { json }: DeskFlags,
): void {
  const lock = { resource, owner: desk.principal, nonce: leaseId, token, expires_unix_ms: expiresAt };
  if (json === true) printJson({ lock: { ...lock, ttl_seconds: ttlSeconds } });
  else printLines(title, `  Resource: ${resource}`, `  Expires: ${instantText(new Date(expiresAt))}`);
}

/** `--resource R`, or R by itself. */
export function resourceOf(given: string | undefined, named: string | undefined, verb: string): string {
  if (given !== undefined && named !== undefined && given !== named)
    throw new CliError(`${given} and --resource ${named} are two names: give one of them`, exitCodes.usage);
  const raw = named ?? given;
  if (raw === undefined)
    throw new CliError(`name the resource: holdfast lock ${verb} --resource issue:8057324b`, exitCodes.usage);
  return nameOf(raw);
}

function metadataOf({ reason, metadata }: AcquireFlags): string | null {
  if (reason !== undefined && metadata !== undefined)
    throw new CliError("--reason and --metadata are the same text: give one of them", exitCodes.usage);
  return reason ?? metadata ?? null;
}
