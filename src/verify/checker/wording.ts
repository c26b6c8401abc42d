/** Operations and instants in words: a person must be able to check an accusation against the history. */
import { nodeCallText, nodeReplyText } from "../node-calls.js";
import type { Noted } from "./ledger.js";

/** Records a broken promise about a name, with the operations that show it. */
export type Accuse = (invariant: string, name: string, shown: readonly Noted[], says: string) => void;

export const at = (instant: number): string =>
  instant === Number.POSITIVE_INFINITY ? "the end" : `${instant.toFixed(1)} ms`;

/** A process, and the principal that it acts for. */
export const who = ({ process, principal }: Noted): string =>
  process === principal ? process : `${process} (${principal})`;

/** Who did what, when, and what was answered. */
export function told(noted: Noted): string {
  const { began, ended } = noted;
  const when = ended === Number.POSITIVE_INFINITY ? `from ${at(began)}` : `${at(began)} to ${at(ended)}`;
  return `${who(noted)} ${asked(noted)}, ${when}, and ${answered(noted)}`;
}

function asked({ call }: Noted): string {
  switch (call.op) {
    case "acquire": {
      const wait = call.waitMs > 0 ? `, waiting up to ${call.waitMs} ms` : "";
      const id = call.requestId === null ? "" : ` under request id ${call.requestId}`;
      const session = call.session === null ? "" : ` for session ${call.session}`;
      const proof = call.lease === null ? "" : ` with lease ${call.lease}`;
      return `asked for ${call.name}${session}${proof}${id}${wait}`;
    }
    case "renew":
      return `renewed lease ${call.lease}${call.ttlMs === null ? "" : ` for ${call.ttlMs} ms`}`;
    case "release":
      return `released lease ${call.lease}`;
    case "force":
      return `forced ${call.name} free`;
    case "read":
      return `read ${call.name}`;
    case "open":
      return `opened a session of ${call.ttlMs} ms`;
    case "keepalive":
      return `kept session ${call.session} alive`;
    case "end":
      return `ended session ${call.session}`;
    case "node":
      return `asked: ${nodeCallText(call)}`;
  }
}

function answered({ reply }: Noted): string {
  switch (reply.kind) {
    case "granted":
      return `got lease ${reply.lease} with token ${reply.token} for ${reply.leftMs} ms`;
    case "held":
      return reply.token === null
        ? `was told that ${reply.overlapping ?? "an overlapping name"} is held`
        : `was told that token ${reply.token} holds it`;
    case "state":
      return reply.held ? `saw it held by token ${reply.token}` : `saw it free after token ${reply.token}`;
    case "refused":
      return `was refused (${reply.code})`;
    case "unknown":
      return `never learnt what became of it (${reply.why})`;
    case "opened":
      return `got session ${reply.session}`;
    case "delayed":
    case "lost":
    case "done":
    case "gone":
    case "reused":
      return `was answered "${reply.kind}"`;
    default:
      return `was answered "${nodeReplyText(reply)}"`;
  }
}
