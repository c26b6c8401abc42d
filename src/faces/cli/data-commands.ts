/** `holdfast backup` and `holdfast restore`. */
import {
  chmodSync,
  closeSync,
  createWriteStream,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { userInfo } from "node:os";
import { dirname, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { newAuditId } from "../../service/bearer.js";
import { CliError, durationMs, exitCodes } from "./failure.js";
import { printJson } from "./output.js";
import { type ReachFlags, type Remote, reach, storeOf } from "./reach.js";

export async function backupCommand(file: string, flags: ReachFlags): Promise<void> {
  const target = resolve(file);
  if (existsSync(target)) throw new CliError(`${target} exists already: name a new file`, exitCodes.usage);
  if (!existsSync(dirname(target)))
    throw new CliError(`there is no directory ${dirname(target)}: make it first`, exitCodes.usage);
  const partial = `${target}.partial`;
  rmSync(partial, { force: true });
  const reached = await reach(flags);
  try {
    if ("store" in reached) await reached.store.backup(partial);
    else await download(reached.server, partial);
    renameSync(partial, target);
  } finally {
    rmSync(partial, { force: true });
    if ("store" in reached) await reached.store.close();
  }
  const bytes = statSync(target).size;
  if (flags.json === true) printJson({ file: target, bytes });
  else
    process.stdout.write(
      `Backed up ${reached.where} to ${target} (${bytes} bytes). It holds secrets: keep it safe.\nRestore with: holdfast restore ${target} --data DIR\n`,
    );
}

/** The copy counts as made only when all of it is on the disk. */
async function download(server: Remote, path: string): Promise<void> {
  const response = await server.open("GET", "/backup");
  const type = response.headers.get("content-type");
  // Another program's page would be found out only when it is to be restored.
  if (type !== "application/octet-stream") throw server.stranger(response, `content of type ${type}`);
  const expected = Number(response.headers.get("content-length") ?? -1);
  if (response.body === null) throw new CliError("the server sent no data", exitCodes.storage);
  await pipeline(Readable.fromWeb(response.body as never), createWriteStream(path, { mode: 0o600 }));
  if (expected >= 0 && statSync(path).size !== expected)
    throw new CliError("the connection broke before the backup was complete: try again", exitCodes.storage);
  const descriptor = openSync(path, "r");
  fsyncSync(descriptor);
  closeSync(descriptor);
  chmodSync(path, 0o600);
}

export interface RestoreFlags {
  readonly data?: string;
  readonly store?: string;
  /** false: --no-wait. */
  readonly wait?: string | boolean;
  readonly json?: boolean;
}

export async function restoreCommand(backup: string, flags: RestoreFlags): Promise<void> {
  const wish = quietWish(flags);
  const store = storeOf(flags);
  const from = resolve(backup);
  if (!existsSync(from)) throw new CliError(`there is no backup ${from}`, exitCodes.notFound);
  const { OccupiedError, restoreStore } = await import("../../engines/open.js");
  const restored = await restoreStore({
    backup: from,
    store,
    ...wish,
    principal: `restore by ${userInfo().username}`,
    auditId: newAuditId(),
  }).catch((error: unknown) => {
    throw error instanceof OccupiedError ? new CliError(error.message, exitCodes.usage) : error;
  });
  const { path, quietMs, leasesEnded } = restored;
  if (flags.json === true) printJson({ path, quiet_ms: quietMs, leases_ended: leasesEnded });
  else
    process.stdout.write(
      `Restored to ${path}: ${leasesEnded === 1 ? "1 lease of the backup is" : `${leasesEnded} leases of the backup are`} ended, tokens go on above any granted before.\n` +
        `${quietText(quietMs)}\n` +
        `Start it with: holdfast serve ${flags.store ? `--store ${store}` : `--data ${dirname(path)}`}\n`,
    );
}

/** No lease lasts longer than a year, whatever is configured. */
const waitMaxDays = 366;

function quietWish({ wait }: RestoreFlags): { quietMs?: number } {
  if (typeof wait !== "string") return wait === false ? { quietMs: 0 } : {};
  const quietMs = durationMs(wait, "--wait");
  if (quietMs > waitMaxDays * 86_400_000)
    throw new CliError(`--wait ${wait}: at most ${waitMaxDays}d`, exitCodes.usage);
  return { quietMs };
}

const quietText = (quietMs: number): string =>
  quietMs === 0
    ? "It grants at once."
    : `It grants nothing for ${Math.ceil(quietMs / 1000)} s, until leases granted since the backup are over (--no-wait skips that).`;
