/** `holdfast migrate`: all data from one store to another, step by step, each of which can be done again. */
import { randomBytes } from "node:crypto";
import { isSameStore, isStoreUrl, openSource, openTarget, withoutPassword } from "../../engines/open.js";
import type { Target } from "../../store/archive.js";
import { systemClocks } from "../../store/clock.js";
import { MigrationConflict, migrate, type Summary } from "../../store/migration.js";
import { StoreError } from "../../store/store.js";
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
  const source = await opened(openSource(from), exitCodes.notFound);
  let target: Target | undefined;
  try {
    target = await opened(openTarget(to), exitCodes.usage);
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

/** What is named wrongly is a matter of usage, whatever the engine says of it; all else is the store's. */
async function opened<Opened>(opening: Promise<Opened>, exitCode: number): Promise<Opened> {
  try {
    return await opening;
  } catch (error) {
    throw error instanceof StoreError && error.kind === "unsupported"
      ? new CliError(error.message, exitCode)
      : error;
  }
}

function report(flags: MigrateFlags, from: string, to: string, summary: Summary): void {
  const { counts, records, leases, isRepeated } = summary;
  if (flags.json === true) {
    printJson({ from, to, records, leases, counts, repeated: isRepeated });
    return;
  }
  const parts = Object.entries(counts).map(([kind, count]) => `  ${String(count).padStart(9)}  ${kind}`);
  printLines(
    isRepeated
      ? `${from} was moved to ${to} by an earlier run, complete. It had:`
      : `Moved ${records} records from ${from} to ${to}:`,
    ...parts,
    `Leases that are held, each with what was left of it: ${leases}.`,
    "",
    "Next:",
    `  holdfast serve --store '${withoutPassword(flags.to)}'     on each server, with the same HOLDFAST_ADMIN_TOKEN and HOLDFAST_TOKENS as before`,
    "  holdfast verify                                  if you want to see that it keeps its promises there",
    `${from} is sealed for ever: keep it until you are sure, then remove it. Backups of it are of before the move: make a new one.`,
  );
}
