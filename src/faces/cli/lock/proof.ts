/**
 * With what a command proves that a lease is its own: the lease id that this session keeps, or one that is given. Never
 * by guess: a refused worker's clean-up must not end the winner's lease.
 */
import { type HoldfastError, isLoss, whoIs } from "../../../client/errors.js";
import type { Lock } from "../../../client/replies.js";
import { parseName } from "../../../core/names.js";
import { CliError, exitCodes } from "../failure.js";
import { instantText } from "../output.js";
import { reasonClause, whyLost, wireFields } from "../wording.js";
import { recovered } from "./attempts.js";
import { type Desk, type DeskFlags, repeated, shellWord } from "./desk.js";
import type { Kept } from "./kept-leases.js";
import { fateOf } from "./process-mark.js";

export interface ProofFlags extends DeskFlags {
  /** The lease id, as acquire printed it. */
  readonly nonce?: string;
  /** Take over what a process that has ended left behind. */
  readonly adopt?: boolean;
}

export interface Proof {
  readonly leaseId: string;
  /** null: it was given, not kept here. */
  readonly kept: Kept | null;
}

/** Does what `use` does with the first proof that the server accepts. `command`: the words that were typed. */
export async function withProof<Reply>(
  desk: Desk,
  resource: string,
  flags: ProofFlags,
  command: string,
  use: (leaseId: string) => Promise<Reply>,
): Promise<{ readonly reply: Reply; readonly proof: Proof }> {
  const isRelease = command.endsWith(" release");
  const proofs = await proofsFor(desk, resource, flags, isRelease);
  let lost: HoldfastError | null = null;
  for (const proof of proofs) {
    try {
      return { reply: await use(proof.leaseId), proof };
    } catch (error) {
      if (!isLoss(error)) throw error;
      lost = error;
      if (proof.kept !== null) desk.kept.forget(proof.kept);
    }
  }
  // Releasing twice by the same given id: there is nothing held, and nothing of this session's was lost.
  const isSpent =
    command === "lock release" && lost?.status === 404 && proofs.every(({ kept }) => kept === null);
  if (lost !== null && !isSpent) throw lostError(resource, lost);
  const lock = await desk.client.locks.get(resource);
  if (isRelease && lock.holder !== null && isOfRunAround(resource, lock.fencingToken))
    throw keptByRun(resource, flags, command);
  throw refusal(desk, lock, flags, command);
}

async function proofsFor(
  desk: Desk,
  resource: string,
  flags: ProofFlags,
  isRelease: boolean,
): Promise<Proof[]> {
  if (flags.nonce !== undefined) return [{ leaseId: flags.nonce, kept: keptAs(desk, resource, flags.nonce) }];
  const kept = desk.kept.lease(resource) ?? (await recovered(desk, resource));
  const proofs: Proof[] = kept === null ? [] : [{ leaseId: kept.leaseId, kept }];
  const { HOLDFAST_LEASE_ID: given, HOLDFAST_NAME: name } = process.env;
  // With a name beside it, it is that of the `holdfast run` around: no proof for a release, see below.
  if (given && given !== kept?.leaseId && (name ? isSameName(name, resource) && !isRelease : true))
    proofs.push({ leaseId: given, kept: null });
  if (flags.adopt === true)
    for (const left of leftBehind(desk, resource)) proofs.push({ leaseId: left.leaseId, kept: left });
  return proofs;
}

/**
 * Whether the lease with this token is that of the `holdfast run` which started this command. `run` says what it holds by
 * HOLDFAST_NAME. Its lease may be renewed from inside; it is released by `run` alone, for every script below it has the
 * same variables, and one that was refused the lock would free it in its clean-up.
 */
export function isOfRunAround(resource: string, token: number): boolean {
  const { HOLDFAST_NAME: name, HOLDFAST_FENCING_TOKEN: held } = process.env;
  return Boolean(name) && isSameName(name ?? "", resource) && Number(held) === token;
}

/**
 * The same, by the lease's id. Its keeper counts on the TTL that the run was started with: a shorter one from inside would
 * let the lease pass to another while the command still works, so that it is only ever lengthened.
 */
export function isLeaseOfRun(resource: string, leaseId: string): boolean {
  const { HOLDFAST_NAME: name, HOLDFAST_LEASE_ID: held } = process.env;
  return Boolean(name) && isSameName(name ?? "", resource) && held === leaseId;
}

function isSameName(raw: string, name: string): boolean {
  const parsed = parseName(raw);
  return "name" in parsed && parsed.name === name;
}

function keptAs(desk: Desk, resource: string, leaseId: string): Kept | null {
  const kept = desk.kept.lease(resource);
  return kept?.leaseId === leaseId ? kept : null;
}

/**
 * Leases taken from here by processes that have ended. What a named session or a CI's job took is not among them: its
 * commands end, and it goes on.
 */
export const leftBehind = (desk: Desk, resource?: string): Kept[] =>
  desk.kept
    .leasesOfOthers()
    .filter(
      (kept) =>
        (resource === undefined || kept.resource === resource) &&
        kept.sessionKind === "process" &&
        fateOf(kept.caller) === "gone",
    );

const lostError = (resource: string, { message, fields }: HoldfastError): CliError =>
  new CliError(`the lease on ${resource} is lost: ${whyLost(resource, message)}`, exitCodes.conflict, {
    code: "lease_lost",
    details: { resource, ...(wireFields(fields) as object) },
  });

/** As it was typed, for the same resource and server. */
const typed = (command: string, resource: string, flags: ProofFlags): string =>
  `holdfast ${command} ${command.startsWith("lock") ? "--resource " : ""}${shellWord(resource)}${repeated(flags)}`;

function keptByRun(resource: string, flags: ProofFlags, command: string): CliError {
  const next = `${typed(command, resource, flags)} --nonce "$HOLDFAST_LEASE_ID"`;
  return new CliError(
    `${resource} is held by the holdfast run that started this command, which releases it at the end: nothing was changed. To give it up before, and have the command ended: ${next}`,
    exitCodes.conflict,
    { code: "not_owner", details: { resource, held_by_run_around: true, next } },
  );
}

/** Nothing was changed; who holds it, and the next command to type. */
function refusal(desk: Desk, lock: Lock, flags: ProofFlags, command: string): CliError {
  const { name: resource, holder, expiresAt, metadata } = lock;
  const session = `this session (${desk.session.label})`;
  if (holder === null || expiresAt === null)
    return new CliError(
      `nobody holds ${resource}: there is nothing to ${command.split(" ")[1]} for ${session}. Commands of several shells are one session with the same HOLDFAST_SESSION`,
      exitCodes.notFound,
      { details: { resource } },
    );
  const keeper = desk.kept
    .leasesOfOthers()
    .find((kept) => kept.resource === resource && kept.token === lock.fencingToken);
  const isLeft = keeper?.sessionKind === "process" && fateOf(keeper.caller) === "gone";
  const next = isLeft ? adopting(command, resource, flags) : inSession(command, resource, flags);
  const taker = isLeft
    ? `It was taken by ${keeper.sessionLabel}, which has ended. If that was you: ${next} (and set HOLDFAST_SESSION, so that commands of several shells are one session)`
    : `${flags.adopt === true ? "No process that took it has ended. " : ""}If it is yours, name the session it was acquired in: ${next}, or prove it with --nonce`;
  const until = `${instantText(expiresAt)}${reasonClause(metadata)}`;
  return new CliError(
    `${resource} is held by ${whoIs(holder.principal, holder.owner)} until ${until}, not by ${session}: nothing was changed. ${taker}`,
    exitCodes.conflict,
    {
      code: "not_owner",
      details: {
        resource,
        owner: holder.principal,
        metadata,
        expires_unix_ms: expiresAt.getTime(),
        next,
      },
    },
  );
}

function adopting(command: string, resource: string, flags: ProofFlags): string {
  const session = flags.session === undefined ? "" : ` --session ${shellWord(flags.session)}`;
  return `${typed(command, resource, flags)}${session} --adopt`;
}

/** The flag outranks the variable: where it was given, it is the one to change. */
const inSession = (command: string, resource: string, flags: ProofFlags): string =>
  flags.session === undefined
    ? `HOLDFAST_SESSION=NAME ${typed(command, resource, flags)}`
    : `${typed(command, resource, flags)} --session NAME`;
