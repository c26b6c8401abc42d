/** Reading the locks that matter to a repository's paths: all of `path:`, and `repo:global`. The only place that asks. */
import type { Client } from "../../../client/client.js";
import type { Lock } from "../../../client/replies.js";
import { repoGlobal } from "../../../core/names.js";
import { covers } from "../../../service/identity.js";
import { connect } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import { placeText } from "../place.js";
import { isOfLock, unreadableAt, unreadableText } from "../repository/unreadable.js";
import type { ServerFlags } from "../settings.js";
import type { HeldLock } from "./judgement.js";

export interface Reading {
  /** Whose token it was read with. */
  readonly me: string;
  readonly locks: readonly HeldLock[];
  /** What the token may not see, in words; null: it sees all that counts. */
  readonly unseen: string | null;
  /** Records of a repository that may be locks of these paths, in words; null: all could be read. */
  readonly unreadable: string | null;
}

/** A commit waits for it: a server that does not answer must not hold it up for minutes. */
const withinMs = 20_000;
/** How many names are asked for at once. */
const pageSize = 500;
const pathNames = "path:";

export async function readLocks(flags: ServerFlags): Promise<Reading> {
  const { client, place } = await connect(flags);
  const signal = AbortSignal.timeout(withinMs);
  try {
    const reading = await readWith(client, signal);
    const [first] = ((await unreadableAt(place)) ?? []).filter(isOfLock);
    return { ...reading, unreadable: first === undefined ? null : unreadableText(first) };
  } catch (error) {
    if (!signal.aborted) throw error;
    const late = `No complete answer from ${placeText(place)} within ${withinMs / 1000} s. Check its address and the network`;
    throw new CliError(late, exitCodes.storage, { code: "unreachable" });
  }
}

async function readWith(client: Client, signal: AbortSignal): Promise<Omit<Reading, "unreadable">> {
  const [{ principal, scopes }, below, global] = await Promise.all([
    client.whoami({ signal }),
    heldWith(client, pathNames, signal),
    heldWith(client, repoGlobal, signal),
  ]);
  const hidden = [`${pathNames}*`, repoGlobal].filter((name) => !covers({ scopes }, name));
  return {
    me: principal,
    locks: [...below, ...global.filter(({ name }) => name === repoGlobal)],
    unseen: hidden.length === 0 ? null : hidden.join(" and "),
  };
}

async function heldWith(client: Client, prefix: string, signal: AbortSignal): Promise<HeldLock[]> {
  const found: HeldLock[] = [];
  for await (const lock of client.locks.each({ prefix, limit: pageSize, signal })) {
    const held = heldLock(lock);
    if (held !== null) found.push(held);
  }
  return found;
}

const heldLock = ({ name, holder, expiresAt, metadata }: Lock): HeldLock | null =>
  holder === null
    ? null
    : {
        name,
        principal: holder.principal,
        owner: holder.owner ?? null,
        since: holder.since,
        expiresAt,
        metadata,
      };
