/** `holdfast watch`: a live table on a terminal; in a pipe a line per event, as it happens, until it is ended. */
import type { HoldfastError } from "../../../client/errors.js";
import type { WatchEvent } from "../../../client/replies.js";
import { connect } from "../connect.js";
import { exitCodes } from "../failure.js";
import { jsonText, printLines, warn } from "../output.js";
import { placeText } from "../place.js";
import type { ServerFlags } from "../settings.js";
import { ownerText, wireKeys } from "./held.js";
import { liveTable } from "./live.js";
import { canDraw } from "./screen.js";

export interface WatchFlags extends ServerFlags {
  readonly json?: boolean;
  readonly lines?: boolean;
}

export async function watchCommand(prefix: string | undefined, flags: WatchFlags): Promise<number> {
  const { client, place } = await connect(flags);
  const query = prefix === undefined ? {} : { prefix };
  if (flags.json !== true && flags.lines !== true && canDraw())
    return liveTable(client, query, placeText(place));
  // Following tries for ever; what is wrong from the start is told now.
  await client.whoami();
  const stop = new AbortController();
  // Nobody reads any more.
  process.stdout.once("error", () => stop.abort());
  const isJson = flags.json === true;
  const onConnection = isJson ? sayConnection : warnOfConnection;
  for await (const event of client.watch({ ...query, onConnection, signal: stop.signal })) {
    if (isJson) sayJson(wireKeys(event));
    else sayPlainly(event);
  }
  return exitCodes.done;
}

const sayJson = (event: unknown): void => void process.stdout.write(`${jsonText(event)}\n`);

/** A stream on which nothing happens looks like one that is broken, unless it is told. */
function sayConnection(trouble: HoldfastError | null): void {
  const event =
    trouble === null ? { event: "connected" } : { event: "disconnected", details: trouble.message };
  sayJson({ ...event, observed_at: new Date() });
}

function warnOfConnection(trouble: HoldfastError | null): void {
  warn(
    trouble === null
      ? "holdfast: connected again"
      : `holdfast: the connection is lost, and is tried again until it is back: ${trouble.message}`,
  );
}

function sayPlainly(event: WatchEvent): void {
  if (!("name" in event)) {
    if (event.event === "reset") warn("holdfast: some events were missed; what is held now follows");
    return;
  }
  const { observedAt, name, holder, fencingToken } = event;
  const owner = holder === null ? "-" : ownerText(holder);
  printLines(`${observedAt.toISOString()} ${event.event.padEnd(8)} ${name} ${fencingToken} ${owner}`);
}
