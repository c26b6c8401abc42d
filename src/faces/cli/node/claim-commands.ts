/** `holdfast node next|claim|renew|extend|reserve|release|status`: who is on a node. */
import type { Client } from "../../../client/client.js";
import type { WaitingForWork } from "../../../client/nodes-next.js";
import type { NodeExtended, NodeLease, NothingFree } from "../../../client/nodes-replies.js";
import { connect } from "../connect.js";
import { CliError, durationMs, exitCodes, waitSecondsOf } from "../failure.js";
import { Interruption } from "../lock/interruption.js";
import { durationText, instantText, printLines, warn } from "../output.js";
import { oneInstantForm, wireFields } from "../wording.js";
import type { NodeFlags } from "./node-commands.js";
import { hiddenText, leaseLines, printReply } from "./node-text.js";

interface RunFlags extends NodeFlags {
  readonly session?: string;
}

interface LeaseFlags extends RunFlags {
  readonly fencingToken?: string;
}

/** The run's label, unless it has none: then any run of the token's may go on with the claim. */
function sessionOf({ session }: RunFlags): string | undefined {
  if (session === "")
    throw new CliError("--session must not be empty: give the run's own name", exitCodes.usage);
  return session ?? (process.env["HOLDFAST_SESSION"] || undefined);
}

interface Proof {
  readonly session: string | undefined;
  readonly token: number | undefined;
}

function proofOf(flags: LeaseFlags): Proof {
  const { fencingToken: token } = flags;
  if (token !== undefined && !/^\d{1,15}$/.test(token))
    throw new CliError(`--fencing-token ${token}: give the number that the claim printed`, exitCodes.usage);
  return { session: sessionOf(flags), token: token === undefined ? undefined : Number(token) };
}

export interface NextFlags extends RunFlags {
  readonly type?: string;
  readonly wait?: string;
}

export async function nextCommand(flags: NextFlags): Promise<void> {
  const session = sessionOf(flags);
  const wait = waitSecondsOf(flags.wait);
  const { client } = await connect(flags, "server");
  const reply = await uninterrupted((signal) =>
    client.nodes.next({ type: flags.type, session, wait, signal, onWaiting: waitingLine() }),
  );
  if (reply.status === "empty") throw nothingToDo(flags, reply, wait);
  if (flags.json === true) return printReply(reply);
  printLines("Node claimed", ...leaseLines(reply.lease, reply.node));
}

/** Interrupted, the client gives back what may have been claimed meanwhile. */
async function uninterrupted<Reply>(ask: (signal: AbortSignal) => Promise<Reply>): Promise<Reply> {
  const interruption = new Interruption();
  try {
    return await ask(interruption.signal);
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    throw interruption.error(
      "interrupted while asking for work: what was claimed meanwhile was given back, or ends by itself if the server could not be asked",
    );
  } finally {
    interruption.end();
  }
}

/** A line on standard error whenever it changes. */
function waitingLine(): (waiting: WaitingForWork) => void {
  let shown = "";
  return (waiting) => {
    const why =
      waiting.status === "trouble"
        ? `${waiting.error.message.replace(/ Try again[^.]*\.$/, "")} Trying again.`
        : `nothing is free.${hiddenText(waiting)}`;
    const text = `Waiting for work: ${why}`;
    if (text !== shown) warn(text);
    shown = text;
  };
}

/** Nothing is claimed, so a loop over `next` ends here, whether it waited or not. */
function nothingToDo({ type }: NextFlags, nothing: NothingFree, waitedSeconds: number): CliError {
  const waited = waitedSeconds === 0 ? "" : ` within ${durationText(waitedSeconds * 1000)}`;
  const what = type === undefined ? "no node" : `no ${type}`;
  const { hidden, hiddenAtLeast } = nothing;
  return new CliError(
    `Nothing to do: ${what} was free${waited}.${hiddenText(nothing)}`,
    exitCodes.notInTime,
    {
      code: "empty",
      details: wireFields({ hidden, ...(hiddenAtLeast === undefined ? {} : { hiddenAtLeast }) }),
    },
  );
}

export interface ClaimFlags extends LeaseFlags {
  readonly dispatch?: string;
  readonly rebind?: boolean;
}

export async function claimCommand(id: string, flags: ClaimFlags): Promise<void> {
  const { dispatch, rebind } = flags;
  const proof = proofOf(flags);
  const { client } = await connect(flags, "server");
  const reply = await client.nodes.claim(id, { ...proof, dispatch, rebind });
  show(reply.status === "claimed" ? "Node claimed" : "Claim renewed", reply, flags);
}

/** Commands on the own claim differ in what they ask for. */
async function onLease<Reply extends { readonly lease: NodeLease }>(
  flags: LeaseFlags,
  title: (reply: Reply) => string,
  ask: (nodes: Client["nodes"], proof: Proof) => Promise<Reply>,
): Promise<void> {
  const proof = proofOf(flags);
  const { client } = await connect(flags, "server");
  const reply = await ask(client.nodes, proof);
  show(title(reply), reply, flags);
}

function show(title: string, reply: { readonly lease: NodeLease }, { json }: NodeFlags): void {
  if (json === true) printReply(reply);
  else printLines(title, ...leaseLines(reply.lease));
}

export const renewCommand = (id: string, flags: LeaseFlags): Promise<void> =>
  onLease(
    flags,
    () => "Claim renewed",
    (nodes, proof) => nodes.renew(id, proof),
  );

export async function extendCommand(id: string, flags: LeaseFlags & { readonly by: string }): Promise<void> {
  const seconds = durationMs(flags.by, "--by") / 1000;
  await onLease(
    flags,
    ({ claimTtlMaxMs: max }: NodeExtended) =>
      max === undefined
        ? "Claim extended"
        : `Claim extended, as far as the policy allows (${durationText(max)})`,
    (nodes, proof) => nodes.extend(id, seconds, proof),
  );
}

export const reserveCommand = (id: string, flags: LeaseFlags): Promise<void> =>
  onLease(
    flags,
    () => "Claim reserved: it is kept without heartbeats",
    (nodes, proof) => nodes.reserve(id, proof),
  );

export async function releaseCommand(id: string, flags: LeaseFlags): Promise<void> {
  const proof = proofOf(flags);
  const { client } = await connect(flags, "server");
  const reply = await client.nodes.release(id, proof);
  if (flags.json === true) return printReply(reply);
  printLines(reply.edge === "removed" ? "Node released" : "Nothing to release", `  Node: ${id}`);
}

export interface StatusFlags extends LeaseFlags {
  readonly reason?: string;
}

export async function statusCommand(id: string, status: string, flags: StatusFlags): Promise<void> {
  const proof = proofOf(flags);
  const { client } = await connect(flags, "server");
  const reply = await client.nodes.setStatus(id, status, { ...proof, reason: flags.reason });
  const { lease, revision } = reply;
  // Whoever goes on after exit code 0 must be the one that is on it.
  if (lease !== undefined && "error" in lease)
    throw new CliError(
      `${id} is ${status} now, but not yours: ${oneInstantForm(lease.message)}`,
      exitCodes.conflict,
      { code: lease.error, details: wireFields({ id, revision, status, holder: lease.holder ?? null }) },
    );
  if (flags.json === true) return printReply(reply);
  printLines(
    "Status set",
    `  Node: ${id}`,
    `  Status: ${status}`,
    ...(lease === undefined ? [] : [`  Token: ${lease.token}`, `  Expires: ${instantText(lease.expiresAt)}`]),
  );
}
