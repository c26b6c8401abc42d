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
import { resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { restoreStore } from "../../engines/open.js";
import { newId } from "../../service/bearer.js";
import { CliError, durationMs, exitCodes } from "./failure.js";
import { type ReachFlags, reach, storeOf } from "./reach.js";

export async function backupCommand(file: string, flags: ReachFlags): Promise<void> {
  const target = resolve(file);
  if (existsSync(target)) throw new CliError(`${target} exists already: name a new file`, exitCodes.usage);
  const partial = `${target}.partial`;
  rmSync(partial, { force: true });
  const reached = await reach(flags);
  try {
    if ("store" in reached) await reached.store.backup(partial);
    else await download(await reached.server.call("GET", "/backup"), partial);
    renameSync(partial, target);
  } finally {
    rmSync(partial, { force: true });
    if ("store" in reached) await reached.store.close();
  }
  const bytes = statSync(target).size;
  if (flags.json === true) process.stdout.write(`${JSON.stringify({ ok: true, file: target, bytes })}\n`);
  else
    process.stdout.write(
      `Backed up to ${target} (${bytes} bytes). It holds secrets: keep it safe.\nRestore with: holdfast restore ${target} --data DIR\n`,
    );
}

/** The copy counts as made only when all of it is on the disk. */
async function download(response: Response, path: string): Promise<void> {
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
  const quietMs =
    flags.wait === false ? 0 : typeof flags.wait === "string" ? durationMs(flags.wait, "--wait") : undefined;
  const store = storeOf(flags);
  const [from, to] = [resolve(backup), resolve(store.replace(/^\w+:/, ""))];
  if (!existsSync(from)) throw new CliError(`there is no backup ${from}`, exitCodes.notFound);
  if (store.startsWith("sqlite:") && existsSync(to))
    throw new CliError(
      `${to} exists already: move it away first, or restore into another --data directory`,
      exitCodes.usage,
    );
  const restored = await restoreStore({
    backup: from,
    store,
    ...(quietMs === undefined ? {} : { quietMs }),
    principal: `restore by ${userInfo().username}`,
    auditId: newId("au"),
  });
  const { path, leasesEnded } = restored;
  if (flags.json === true) process.stdout.write(`${JSON.stringify({ ok: true, ...restored })}\n`);
  else
    process.stdout.write(
      `Restored to ${path}: ${leasesEnded} leases of the backup are ended, tokens go on above any granted before.\n${quietText(restored.quietMs)}\n`,
    );
}

const quietText = (quietMs: number): string =>
  quietMs === 0
    ? "It grants at once."
    : `It grants nothing for ${Math.ceil(quietMs / 1000)} s, until leases granted since the backup are over (--no-wait skips that).`;
