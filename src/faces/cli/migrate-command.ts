/** `holdfast migrate`: all data from one store to another, step by step, each of which can be done again. */
import { randomBytes } from "node:crypto";
import type { AnyRecord } from "../../core/records.js";
import {
  isSameStore,
  isShared,
  isStoreUrl,
  openSource,
  openTarget,
  withoutPassword,
} from "../../engines/open.js";
import type { Target } from "../../store/archive.js";
import { systemClocks } from "../../store/clock.js";
import { MigrationConflict, migrate, type Summary } from "../../store/migration.js";
import { NoDataError, StoreUrlError } from "../../store/store.js";
import { CliError, exitCodes } from "./failure.js";
import { printJson, printLines, warn } from "./output.js";

export interface MigrateFlags {
  readonly from: string;
  readonly to: string;
  readonly json?: boolean;
}

export async function migrateCommand(flags: MigrateFlags): Promise<void> {
  const { from, to } = flags;
  for (const [flag, url] of [
    ["--from", from],
    ["--to", to],
  ] as const)
    refuseOther(flag, url);
  if (isSameStore(from, to)) throw wrong("--from and --to name the same store");
  const source = await opened("--from", openSource(from));
  let target: Target | undefined;
  try {
    target = await opened("--to", openTarget(to));
    const summary = await migrate(source, target, {
      newId: () => randomBytes(4).toString("hex"),
      monotonic: systemClocks.monotonic,
      tell: (step) => warn(`holdfast: ${step}`),
    });
    report(flags, source.location, target.location, summary);
  } catch (error) {
    throw error instanceof MigrationConflict ? new CliError(error.message, exitCodes.conflict) : error;
  } finally {
    await target?.close();
    await source.close();
  }
}

/** Locks in a repository belong to its clones, and those in memory to one process: neither is carried. */
function refuseOther(flag: string, url: string): void {
  if (/^memory:/.test(url))
    throw wrong(`${flag}: memory: keeps nothing, so there is nothing to carry from it or to it`);
  if (/^git:|\.git\/?$/.test(url))
    throw wrong(`${flag} ${url}: locks in a git repository are not carried; they stay with the repository`);
  if (!isStoreUrl(url))
    throw wrong(
      `${flag} ${withoutPassword(url)} is no store: use sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE or etcd://HOST:2379`,
    );
}

const wrong = (why: string): CliError => new CliError(why, exitCodes.usage);

/** An engine does not know which of the two it is. */
async function opened<Opened>(flag: string, opening: Promise<Opened>): Promise<Opened> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof StoreUrlError) throw wrong(`${flag}: ${error.why}`);
    if (error instanceof NoDataError) throw new CliError(`${flag}: ${error.message}`, exitCodes.notFound);
    throw error;
  }
}

function report(flags: MigrateFlags, from: string, to: string, summary: Summary): void {
  const { counts, records, leases, isRepeated } = summary;
  if (flags.json === true) {
    printJson({ from, to, records, leases, counts, repeated: isRepeated });
    return;
  }
  printLines(
    isRepeated
      ? `${from} was moved to ${to} by an earlier run, complete. It had:`
      : `Moved ${records} records from ${from} to ${to}:`,
    ...partsOf(counts),
    `Leases that are held, each with what was left of it: ${leases}.`,
    "",
    "Next:",
    `  holdfast serve --store '${withoutPassword(flags.to)}'     ${isShared(flags.to) ? "on each server, " : ""}with the same HOLDFAST_ADMIN_TOKEN and HOLDFAST_TOKENS as before`,
    "  holdfast verify                                  if you want to see that it keeps its promises there",
    `${from} is sealed for ever: keep it until you are sure, then remove it. Backups of it are of before the move: make a new one.`,
  );
}

/** What people know of; the rest is the store's own. */
const own = "records of the store's own";
const words = {
  lock: "names, held or remembered",
  session: "sessions",
  request: "request ids",
  token: "bearer tokens",
  "token-name": own,
  floor: own,
  audit: "audit records",
  node: "nodes of the work graph",
  history: "steps in their history",
  policy: "policies of the work graph",
  line: own,
  peer: own,
  anchors: own,
} as const satisfies Record<AnyRecord["kind"], string>;

function partsOf(counts: Summary["counts"]): string[] {
  const sums = new Map<string, number>();
  for (const [kind, word] of Object.entries(words))
    if (counts[kind] !== undefined) sums.set(word, (sums.get(word) ?? 0) + counts[kind]);
  return [...sums].map(([word, sum]) => `  ${`${word}:`.padEnd(28)} ${String(sum).padStart(9)}`);
}
