/** `holdfast status`: who holds what. A live table on a terminal, else one look. */
import type { Lock } from "../../../client/replies.js";
import { connect } from "../connect.js";
import { exitCodes } from "../failure.js";
import { printJson, printLines, warn } from "../output.js";
import { placeText } from "../place.js";
import { unreadableAt, unreadableText } from "../repository/unreadable.js";
import type { ServerFlags } from "../settings.js";
import { heldTable, wireKeys } from "./held.js";
import { liveTable } from "./live.js";
import { canDraw } from "./screen.js";

export interface StatusFlags extends ServerFlags {
  readonly json?: boolean;
  readonly mine?: boolean;
  readonly once?: boolean;
}

/** How many names are asked for at once. */
const pageSize = 500;

export async function statusCommand(prefix: string | undefined, flags: StatusFlags): Promise<number> {
  const { client, place } = await connect(flags);
  const query = {
    ...(prefix === undefined ? {} : { prefix }),
    ...(flags.mine === true ? { mine: true } : {}),
  };
  if (flags.json !== true && flags.once !== true && canDraw())
    return liveTable(client, query, placeText(place));
  const locks: Lock[] = [];
  for await (const lock of client.locks.each({ ...query, limit: pageSize })) locks.push(lock);
  warn(...((await unreadableAt(place)) ?? []).map((one) => `holdfast: ${unreadableText(one)}`));
  if (flags.json === true) printJson({ locks: locks.map(wireKeys), total: locks.length });
  else if (locks.length === 0) printLines("Nothing is held.");
  else printLines(...heldTable(locks, canDraw() ? (process.stdout.columns ?? null) : null));
  return exitCodes.done;
}
