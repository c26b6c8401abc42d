/**
 * With what a command proves that a lease is its own: the lease id that this session keeps, or one that is given. Never
 * by guess: a refused worker's clean-up must not end the winner's lease.
 */
import { type HoldfastError, isLoss, whoIs } from "../../../client/errors.js";
import type { Lock } from "../../../client/replies.js";
import { parseName } from "../../../core/names.js";
import { CliError, exitCodes } from "../failure.js";
import { instantText } from "../output.js";
import { recovered } from "./attempts.js";
import { type Desk, type DeskFlags, shellWord } from "./desk.js";
import type { Kept } from "./kept-leases.js";
import { fateOf } from "./processes.js";

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
  const proofs = await proofsFor(desk, resource, flags);
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
  throw refusal(desk, await desk.client.locks.get(resource), flags, command);
}

async function proofsFor(desk: Desk, resource: string, flags: ProofFlags): Promise<Proof[]> {
  if (flags.nonce !== undefined) return [{ leaseId: flags.nonce, kept: keptAs(desk, resource, flags.nonce) }];
  const kept = desk.kept.lease(resource) ?? (await recovered(desk, resource));
  const proofs: Proof[] = kept === null ? [] : [{ leaseId: kept.leaseId, kept }];
  const { HOLDFAST_LEASE_ID: given, HOLDFAST_NAME: name } = process.env;
  // Set by `holdfast run`, which says what it is the lease of.
  if (given && (!name || isSameName(name, resource)) && given !== kept?.leaseId)
    proofs.push({ leaseId: given, kept: null });
  if (flags.adopt === true)
    for (const left of leftBehind(desk, resource)) proofs.push({ leaseId: left.leaseId, kept: left });
  return proofs;
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
  new CliError(`the lease on ${resource} is lost: ${message}`, exitCodes.conflict, {
    code: "lease_lost",
    details: { resource, ...fields },
  });

/** Nothing was changed; who holds it, and the next command to type. */
function refusal(desk: Desk, lock: Lock, { adopt }: ProofFlags, command: string): CliError {
  const { name: resource, holder, expiresAt } = lock;
  const session = `this session (${desk.session.label})`;
  if (holder === null || expiresAt === null)
    return new CliError(
      `nobody holds ${resource}: there is nothing to ${command.split(" ")[1]} for ${session}. Commands of several shells are one session with the same HOLDFAST_SESSION`,
      exitCodes.notFound,
      { details: { resource } },
    );
  const typed = `holdfast ${command} ${command.startsWith("lock") ? "--resource " : ""}${shellWord(resource)}`;
  const keeper = desk.kept
    .leasesOfOthers()
    .find((kept) => kept.resource === resource && kept.token === lock.fencingToken);
  const isLeft = keeper?.sessionKind === "process" && fateOf(keeper.caller) === "gone";
  const next = isLeft ? `${typed} --adopt` : `HOLDFAST_SESSION=NAME ${typed}`;
  const taker = isLeft
    ? `It was taken by ${keeper.sessionLabel}, which has ended. If that was you: ${next} (and set HOLDFAST_SESSION, so that commands of several shells are one session)`
    : `${adopt === true ? "No process that took it has ended. " : ""}If it is yours, name the session it was acquired in: ${next}, or prove it with --nonce`;
  return new CliError(
    `${resource} is held by ${whoIs(holder.principal, holder.owner)} until ${instantText(expiresAt)}, not by ${session}: nothing was changed. ${taker}`,
    exitCodes.conflict,
    {
      code: "not_owner",
      details: { resource, owner: holder.principal, expires_unix_ms: expiresAt.getTime(), next },
    },
  );
}
