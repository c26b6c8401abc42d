// Histories as text, one operation or event a line:
//
//   0-5     a acquire k ttl=1000 | granted 1 L1     process a asks from 0 to 5 ms and gets lease L1 with token 1
//   7-?     b/p release k L1     | unknown          process b of principal p never hears of its release
//   @9      s acquired k 1                          stream s tells at 9 ms of token 1
//   @9      s opened 7                              it is asked for then, to go on after event 7 if that is said
//
//   9-11    b read k | holds 1 by=a left=990        who reads that is told more than the token, if that is said
//
// Acquires may say wait=, request=, session=, proof=, delay= and label=; a TTL is 1000 ms unless said, `ttl=session` none.
// What is left of a lease or session, in ms, may be said last; else it is all of it, for a lease as far as its session
// goes.
import type { Call, History, Holder, Operation, Reply, Seen } from "../../src/verify/history.js";

export function historyOf(lines: readonly string[], more: Partial<History> = {}): History {
  const sessions = new Sessions();
  const operations = lines
    .filter((line) => !line.startsWith("@"))
    .map((line) => sessions.cut(operationOf(line), line));
  const seen = lines.filter((line) => line.startsWith("@")).map(seenOf);
  return { operations, seen, clockBoundMs: 0, ...more };
}

/** Leases that live as long as their sessions, in the order of the lines. */
class Sessions {
  readonly #ttls = new Map<string, number>();
  readonly #ends = new Map<string, number>();
  readonly #leases = new Map<string, string>();

  cut(operation: Operation, line: string): Operation {
    const { call, reply, ended } = operation;
    if (reply.kind === "opened") this.#ttls.set(reply.session, "ttlMs" in call ? (call.ttlMs ?? 0) : 0);
    const kept = reply.kind === "opened" ? reply.session : call.op === "keepalive" ? call.session : null;
    if (kept !== null && reply.kind !== "gone" && ended < Number.POSITIVE_INFINITY)
      this.#ends.set(kept, ended + (this.#ttls.get(kept) ?? 0));
    if (reply.kind !== "granted") return operation;
    const session = call.op === "acquire" ? call.session : null;
    if (session !== null && !this.#leases.has(reply.lease)) this.#leases.set(reply.lease, session);
    const end = this.#ends.get(this.#leases.get(reply.lease) ?? "");
    if (end === undefined || /granted \d+ \S+ \S/.test(line)) return operation;
    const own = ("ttlMs" in call ? call.ttlMs : null) ?? Number.POSITIVE_INFINITY;
    return { ...operation, reply: { ...reply, leftMs: Math.min(own, end - ended) } };
  }
}

function operationOf(line: string): Operation {
  const [asked = "", answered = ""] = line.split("|").map((part) => part.trim());
  const [when = "", who = "", op = "", ...words] = asked.split(/\s+/);
  const [began = "", ended = ""] = when.split("-");
  const [process = "", principal = process] = who.split("/");
  const call = callOf(op, words);
  return {
    process,
    principal,
    call,
    began: Number(began),
    ended: ended === "?" ? Number.POSITIVE_INFINITY : Number(ended),
    reply: replyOf(answered.split(/\s+/), call),
  };
}

function callOf(op: string, words: readonly string[]): Call {
  const [first = "", second = ""] = words.filter((word) => !word.includes("="));
  const options = new Map(
    words.filter((word) => word.includes("=")).map((word) => word.split("=") as [string, string]),
  );
  const number = (option: string): number => Number(options.get(option) ?? 0);
  const ttlMs = options.has("ttl") ? number("ttl") : null;
  switch (op) {
    case "acquire":
      return {
        op,
        name: first,
        ttlMs: options.get("ttl") === "session" ? null : (ttlMs ?? 1000),
        waitMs: number("wait"),
        requestId: options.get("request") ?? null,
        session: options.get("session") ?? null,
        lease: options.get("proof") ?? null,
        delayMs: number("delay"),
        ...(options.has("label") ? { label: options.get("label") ?? "" } : {}),
      };
    case "renew":
      return { op, name: first, lease: second, ttlMs };
    case "release":
      return { op, name: first, lease: second };
    case "force":
    case "read":
      return { op, name: first };
    case "open":
      return { op, ttlMs: ttlMs ?? 1000 };
    case "keepalive":
    case "end":
      return { op, session: first };
    default:
      throw new Error(`no such call: ${op}`);
  }
}

function replyOf(all: readonly string[], call: Call): Reply {
  const [kind = "", first = "", second = "", third] = all.filter((word) => !word.includes("="));
  const ttlMs = "ttlMs" in call ? (call.ttlMs ?? 1000) : 1000;
  switch (kind) {
    case "granted":
      return { kind, token: Number(first), lease: second, leftMs: Number(third ?? ttlMs) };
    case "held":
      if (/^\d+$/.test(first)) return { kind, token: Number(first), ...holderIn(all) };
      return { kind, token: null, ...(first === "" ? {} : { overlapping: first }) };
    case "free":
    case "holds":
      return { kind: "state", held: kind === "holds", token: Number(first), ...holderIn(all) };
    case "opened":
      return { kind, session: first, leftMs: Number(second || ttlMs) };
    case "refused":
      return { kind, code: first };
    case "unknown":
      return { kind, why: "lost" };
    case "hollow":
      return { kind: "unknown", why: "nothing in it", isHollow: true };
    case "done":
      return first === "" ? { kind } : { kind, leftMs: Number(first) };
    case "delayed":
    case "lost":
    case "gone":
    case "reused":
      return { kind };
    default:
      throw new Error(`no such reply: ${kind}`);
  }
}

/** Who has it, as `by=`, `label=` and `left=` say. */
function holderIn(words: readonly string[]): { readonly holder?: Holder } {
  const said = (word: string): string | undefined =>
    words.find((one) => one.startsWith(`${word}=`))?.slice(word.length + 1);
  const principal = said("by");
  if (principal === undefined) return {};
  return { holder: { principal, label: said("label") ?? null, leftMs: Number(said("left") ?? 0) } };
}

function seenOf(line: string, index: number): Seen {
  const [when = "", stream = "", event = "", name = "", token = "0", id = `${index}`] = line
    .slice(1)
    .split(/\s+/);
  const seen = { stream, at: Number(when), event: event as Seen["event"] };
  if (event === "opened" || event === "closed")
    return { ...seen, id: name === "" ? null : name, name: "", token: 0 };
  return { ...seen, id, name, token: Number(token) };
}
