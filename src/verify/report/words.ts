/** Operations and results in words, for reports. */
import type { Call, Operation, Reply, Seen } from "../history.js";
import { nodeCallText, nodeReplyText } from "../node-calls.js";
import type { Dismissed, LossRate, Outcome, Result, WorkloadResult } from "../result.js";

export const grouped = (value: number): string => value.toLocaleString("en-US");
export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${grouped(value)} ${value === 1 ? one : many}`;
export const secondsText = (ms: number): string => `${(ms / 1000).toFixed(3)} s`;
export const msText = (ms: number): string => (ms < 10 ? ms.toFixed(1) : grouped(Math.round(ms)));

export function callText(call: Call): string {
  switch (call.op) {
    case "acquire":
      return [
        "acquire",
        call.ttlMs === null ? "" : `for ${call.ttlMs / 1000} s`,
        call.waitMs === 0 ? "" : `waiting ${call.waitMs / 1000} s`,
        call.requestId === null ? "" : `as ${call.requestId}`,
        call.session === null ? "" : `in session ${call.session}`,
        call.lease === null ? "" : `with lease ${call.lease}`,
        call.delayMs === 0 ? "" : `with a delay of ${call.delayMs / 1000} s`,
      ]
        .filter((part) => part !== "")
        .join(" ");
    case "renew":
      return `renew lease ${call.lease}${call.ttlMs === null ? "" : ` for ${call.ttlMs / 1000} s`}`;
    case "release":
      return `release lease ${call.lease}`;
    case "force":
      return "force a release";
    case "read":
      return "read";
    case "open":
      return `open a session of ${call.ttlMs / 1000} s`;
    case "keepalive":
      return `keep session ${call.session} alive`;
    case "end":
      return `end session ${call.session}`;
    case "node":
      return nodeCallText(call);
  }
}

export function replyText(reply: Reply): string {
  switch (reply.kind) {
    case "granted":
      return `granted: lease ${reply.lease}, token ${reply.token}, ${reply.leftMs} ms left`;
    case "held":
      return reply.token === null
        ? `held by a lease that overlaps${reply.overlapping ? `: ${reply.overlapping}` : ""}`
        : `held by token ${reply.token}`;
    case "delayed":
      return "delayed";
    case "lost":
      return "lost: that lease is over";
    case "state":
      return `${reply.held ? "held" : "free"}, token ${reply.token}`;
    case "done":
      return "done";
    case "opened":
      return `session ${reply.session}, ${reply.leftMs} ms left`;
    case "gone":
      return "the session is over";
    case "reused":
      return "refused: the request id was used for something else";
    case "refused":
      return `refused: ${reply.code}`;
    case "unknown":
      return `no answer that counts: ${reply.why}`;
    default:
      return nodeReplyText(reply);
  }
}

export const seenText = ({ event, name, token }: Seen): string =>
  `${event}${name === "" ? "" : ` ${name}, token ${token}`}`;

export const spanText = ({ began, ended }: Operation): string =>
  `${secondsText(began)} – ${Number.isFinite(ended) ? secondsText(ended) : "?"}`;

const outcomes: Readonly<Record<Outcome, string>> = {
  ok: "No violation found",
  violated: "Violated",
  unknown: "Not decided",
  "too little": "Showed too little",
};

export const outcomeText = (outcome: Outcome): string => outcomes[outcome];

/** Why it ended before its time; empty where it did not. */
export function endText({ interrupted, endedEarly }: Result): string {
  if (interrupted) return "interrupted";
  return endedEarly ? "ended at the first violation" : "";
}

export const rateText = ({ lost, writes }: LossRate): string =>
  `${grouped(lost)} of ${grouped(writes)} (${writes === 0 ? "0" : ((100 * lost) / writes).toFixed(1)} %)`;

/** `lostGrants` as `lost grants`. */
export const situationText = (situation: string): string =>
  situation.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** What keeps a result from being ok, worst first, a sentence each. */
export function complaints(result: Result): string[] {
  const { workloads, leftBehind } = result;
  const each = (of: (workload: WorkloadResult) => string[]): string[] => workloads.flatMap(of);
  const cutShort = [...result.dismissed.map(dismissedText), ...unreachableTexts(result)];
  return [
    ...each(({ workload, verdict }) =>
      verdict.violations.map(({ invariant, name, says }) => `${invariant} ${workload}, ${name}: ${says}`),
    ),
    ...cutShort,
    ...each(({ workload, verdict }) =>
      verdict.unknown.map(
        (name) => `undecided ${workload}, ${name}: the search ended at its bound without an answer`,
      ),
    ),
    ...(leftBehind ?? []).map((name) => `left behind ${name}: still held after the run let go and waited`),
    // What cut the run short explains the rest.
    ...(cutShort.length > 0
      ? []
      : [
          ...(leftBehind === null ? ["left behind: the service did not say what is still held"] : []),
          ...each(shortages),
        ]),
  ];
}

const shortages = ({ workload, tooLittle }: WorkloadResult): string[] =>
  tooLittle.map(
    ({ situation, reached, needed }) =>
      `too little ${workload}: ${situationText(situation)} ${reached} times, and it takes ${needed} to show anything`,
  );

const dismissedText = ({ token, principal, fromMs }: Dismissed): string =>
  `refused (401) ${token} (${principal}) from ${briefSeconds(fromMs)} on: it was revoked or has expired, so the run ended there`;

const unreachableTexts = ({ unreachable }: Result): string[] =>
  unreachable === null
    ? []
    : [
        `unreachable: the server could not be reached from ${briefSeconds(unreachable.fromMs)} on (${plural(unreachable.calls, "call")})`,
      ];

/** What is worth knowing though it accuses nobody. */
export function remarks(result: Result): string[] {
  const { outcome, rateLimited, unsent, unreachable, workloads, leftOut = [], lateness } = result;
  const isShort = workloads.some(({ tooLittle }) => tooLittle.length > 0);
  const advice =
    outcome === "ok" || !isShort
      ? ""
      : ". Raise the limit (HOLDFAST_RATE_LIMIT), give more tokens or fewer workloads, or a longer duration";
  return [
    ...leftOut.map(({ workload, why }) => `${workload} was left out: ${why}`),
    ...(lateness === undefined
      ? []
      : [
          `the servers share a clock: leases may last ${lateness.statedMs} ms longer, as they state, and ${lateness.seenMs} ms by which it fell behind`,
        ]),
    ...(rateLimited === 0 ? [] : [`${plural(rateLimited, "call")} refused by the rate limit (429)${advice}`]),
    ...(unsent === 0 || unreachable !== null
      ? []
      : [`${plural(unsent, "call")} not sent while the server could not be reached; it came back`]),
  ];
}

const briefSeconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

export const operationCount = ({ workloads }: Result): number =>
  workloads.reduce((total, { history }) => total + history.operations.length, 0);
