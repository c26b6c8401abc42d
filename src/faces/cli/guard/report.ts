/** What the guard found, in lines for people and in fields for programs. */
import { whoIs } from "../../../client/errors.js";
import { repeated, shellWord } from "../lock/desk.js";
import { instantText } from "../output.js";
import type { ServerFlags } from "../settings.js";
import { reasonClause } from "../wording.js";
import type { Findings, HeldLock } from "./judgement.js";
import type { LockPolicy } from "./policy.js";

export interface Report {
  readonly policy: LockPolicy;
  /** How many paths were looked at. */
  readonly touched: number;
  /** False where the policy is off, or the locks could not be read. */
  readonly isChecked: boolean;
  readonly findings: Findings;
  /** What could not be told exactly. */
  readonly notes: readonly string[];
  /** As typed: suggested commands repeat them. */
  readonly flags: ServerFlags;
}

/** Paths that `require` refuses. */
export function refusedPaths({ held, required, unlockable }: Findings): number {
  const demanded = unlockable.filter(({ pattern }) => pattern !== null);
  return new Set([...held, ...required, ...demanded].map(({ path }) => path)).size;
}

/** Two lines for each finding: what it is, and the next command, where there is one. */
export function findingLines({ findings, flags }: Report): string[] {
  const { held, required, unlockable } = findings;
  return [
    ...held.flatMap(({ path, name, lock }) => [
      heldLine(path, name, lock),
      `  To wait for it: ${acquireCommand(name, flags, " --wait 10m")}`,
    ]),
    ...required.flatMap(({ path, name, pattern }) => [
      `${path} needs a lock, and you hold none that covers it (require: ${pattern})`,
      `  To take it: ${acquireCommand(name, flags)}`,
    ]),
    ...unlockable.flatMap(({ path, why, pattern, above }) => [
      `${path} cannot be locked by its name: ${why}`,
      ...(pattern === null
        ? []
        : [`  It needs a lock (require: ${pattern}): rename it, or ${acquireCommand(above, flags)}`]),
    ]),
  ];
}

function heldLine(path: string, name: string, lock: HeldLock): string {
  const by = `${path} is held by ${whoIs(lock.principal, lock.owner)}`;
  const as = lock.name === name ? "" : ` with ${lock.name}`;
  const since = lock.since === null ? "" : ` since ${instantText(lock.since)}`;
  const until = lock.expiresAt === null ? "" : ` until ${instantText(lock.expiresAt)} unless renewed`;
  return `${by}${as}${since}${until}${reasonClause(lock.metadata)}`;
}

const acquireCommand = (name: string, flags: ServerFlags, more = ""): string =>
  `holdfast lock acquire --resource ${shellWord(name)}${more}${repeated(flags)}`;

/** The same for programs. */
export function reportFields(report: Report): Record<string, unknown> {
  const { policy, touched, isChecked, findings, notes, flags } = report;
  return {
    policy: { value: policy.word, from: policy.from },
    checked: isChecked,
    touched,
    held: findings.held.map(({ path, name, lock }) => ({
      path,
      resource: lock.name,
      owner: lock.principal,
      since_unix_ms: lock.since?.getTime() ?? null,
      expires_unix_ms: lock.expiresAt?.getTime() ?? null,
      metadata: lock.metadata ?? null,
      next: acquireCommand(name, flags, " --wait 10m"),
    })),
    required: findings.required.map(({ path, name, pattern }) => ({
      path,
      resource: name,
      pattern,
      next: acquireCommand(name, flags),
    })),
    unlockable: findings.unlockable.map(({ path, why, pattern, above }) => ({
      path,
      reason: why,
      pattern,
      ...(pattern === null ? {} : { next: acquireCommand(above, flags) }),
    })),
    notes,
  };
}
