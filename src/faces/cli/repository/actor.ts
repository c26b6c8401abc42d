/**
 * Who a worktree is to others that share its locks: an actor id that anybody may see, and a secret by which it finds its
 * own lease ids again. Both are made from one random seed, kept in the worktree's git directory and readable only by its
 * user, and from that directory's own number: a copied clone is another actor at once, a moved one stays the same.
 */
import { createHmac, randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Repository } from "../../../engines/open.js";
import { makeDirectory } from "../../../store/directory.js";
import { CliError, exitCodes } from "../failure.js";

export interface Actor {
  /** 128 bits in hex: the principal of its leases. */
  readonly id: string;
  readonly secret: Buffer;
}

const seedBytes = 32;

export const actorFile = (stateDir: string): string => join(stateDir, "actor.json");

export function actorOf({ gitDir, stateDir }: Pick<Repository, "gitDir" | "stateDir">): Actor {
  const file = actorFile(stateDir);
  const seed = seedIn(file) ?? newSeed(stateDir, file);
  const { ino } = statSync(gitDir, { bigint: true });
  const derived = (what: string): Buffer => createHmac("sha256", seed).update(`${what} ${ino}`).digest();
  return { id: derived("actor").toString("hex").slice(0, 32), secret: derived("secret") };
}

function newSeed(stateDir: string, file: string): Buffer {
  const fresh = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    makeDirectory(stateDir);
    const seed = randomBytes(seedBytes).toString("hex");
    writeFileSync(fresh, `${JSON.stringify({ version: 1, seed })}\n`, { mode: 0o600, flag: "wx" });
    // Of two first commands at the same moment one comes first, and both are its actor.
    linkSync(fresh, file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EEXIST")
      throw new CliError(
        `cannot keep this worktree's identity in ${stateDir} (${code}): make the directory writable for you`,
        exitCodes.storage,
      );
  } finally {
    rmSync(fresh, { force: true });
  }
  return seedIn(file) ?? unreadable(file, "it went away while it was read");
}

/** Null where there is none yet. One that cannot be read is not replaced: the leases taken with it would be lost. */
function seedIn(file: string): Buffer | null {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? null : unreadable(file, code);
  }
  try {
    const { version, seed } = JSON.parse(text) as { version?: unknown; seed?: unknown };
    if (version === 1 && typeof seed === "string" && /^[0-9a-f]{64}$/.test(seed))
      return Buffer.from(seed, "hex");
  } catch {
    // Told below.
  }
  return unreadable(file, "it is damaged, or of a newer version");
}

function unreadable(file: string, why: string): never {
  throw new CliError(
    `${file} holds this worktree's identity and cannot be read (${why}): remove it to begin anew; locks taken with it then end by themselves`,
    exitCodes.storage,
  );
}
