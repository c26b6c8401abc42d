/** A caller that waits: for how long, and how it is noticed that it left. */
import type { Wait } from "../../service/waiting.js";
import { refuse } from "./answer.js";
import type { Call } from "./call.js";
import { onDeparture } from "./departure.js";

/** The wait that a call asks for; null: it wants an answer at once. */
export const waitOf = (call: Call, waitSeconds: number): Wait | null =>
  waitSeconds === 0 ? null : { ms: waitMs(call, waitSeconds), gone: goneSignal(call) };

/** What a waiting caller is told if its token ended meanwhile. */
export function refuseRevoked(call: Call): void {
  if (call.identity.revoked.aborted)
    refuse("authentication_failed", "This token was revoked while it waited. Nothing was granted.");
}

/** Nobody waits beyond the end of its token. */
function waitMs(call: Call, waitSeconds: number): number {
  const { expiresAt } = call.identity;
  const ms = waitSeconds * 1000;
  return expiresAt === null ? ms : Math.max(1, Math.min(ms, expiresAt - call.desk.leases.store.now()));
}

/** Aborted when the connection closes, or the token is revoked, before the reply was written. */
function goneSignal(call: Call): AbortSignal {
  const gone = new AbortController();
  const { raw } = call.reply;
  const { revoked } = call.identity;
  const leave = (): void => gone.abort();
  const closed = (): void => {
    // The token outlives the call: nothing of the call may stay with it.
    revoked.removeEventListener("abort", leave);
    if (!raw.writableFinished) leave();
  };
  revoked.addEventListener("abort", leave, { once: true });
  if (revoked.aborted) leave();
  onDeparture(call.reply, closed);
  return gone.signal;
}
