// A simulated run for people: what was asked and answered, what was done to the server, and what is wrong, in the
// order in which it happened.
import type { Call, Operation, Reply, Seen } from "../../src/verify/history.js";
import type { Simulated } from "./run.js";

interface Line {
  readonly at: number;
  readonly text: string;
}

export function story({ seed, history, notes, violations }: Simulated): string {
  const lines: Line[] = [
    ...history.operations.map((operation, index) => ({ at: operation.began, text: told(operation, index) })),
    ...history.seen.map((seen) => ({ at: seen.at, text: heard(seen) })),
    ...notes.map(({ at, what }) => ({ at, text: `  * ${what}` })),
  ];
  lines.sort((one, other) => one.at - other.at);
  return [
    `seed ${seed}`,
    ...lines.map(({ at, text }) => `${at.toFixed(3).padStart(11)}  ${text}`),
    ...violations.map(accused),
  ].join("\n");
}

export const accused = ({ invariant, says, operations }: Simulated["violations"][number]): string =>
  `✖ ${invariant}: ${says}${operations.length === 0 ? "" : ` (${operations.map((at) => `#${at}`).join(", ")})`}`;

function told({ process, principal, call, ended, began, reply }: Operation, index: number): string {
  const tookMs = ended === Number.POSITIVE_INFINITY ? "" : ` after ${(ended - began).toFixed(3)}`;
  return `#${index} ${process} (${principal}) ${asked(call)} → ${answered(reply)}${tookMs}`;
}

function asked({ op, ...fields }: Call): string {
  const set = Object.entries(fields).filter(([, value]) => value !== null && value !== 0);
  return [op, ...set.map(([name, value]) => (name === "name" ? value : `${name}=${value}`))].join(" ");
}

const answered = ({ kind, ...fields }: Reply): string =>
  [kind, ...Object.entries(fields).map(([name, value]) => `${name}=${value}`)].join(" ");

const heard = ({ stream, event, name, token, id }: Seen): string =>
  `    ${stream}: ${event} ${name} ${token}${id === null ? "" : ` at ${id}`}`;
