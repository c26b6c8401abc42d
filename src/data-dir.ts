/**
 * What stands in the data directory besides the data: the operator's token that the first start made, and the URL
 * of the server that runs on it, so that commands find it. Only the server's own user may read either.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeDirectory } from "./store/directory.js";

export const operatorTokenFile = (dataDir: string): string => join(dataDir, "operator-token");
const urlFile = (dataDir: string): string => join(dataDir, "server-url");

/** The token that an earlier start kept, or null. A file that a crash left empty counts as none. */
export const keptToken = (dataDir: string): string | null => contentOf(operatorTokenFile(dataDir));

export function keepToken(dataDir: string, token: string): void {
  write(dataDir, operatorTokenFile(dataDir), token);
}

export function forgetToken(dataDir: string): void {
  rmSync(operatorTokenFile(dataDir), { force: true });
}

/** Where the server on this data listens, or null. A server that was killed leaves its last URL behind. */
export const announcedUrl = (dataDir: string): string | null => contentOf(urlFile(dataDir));

/** Does nothing where there is no data directory: the data is elsewhere then. */
export function announceUrl(dataDir: string, url: string): void {
  if (existsSync(dataDir)) write(dataDir, urlFile(dataDir), url);
}

/** Takes back the own announcement, not that of another. */
export function withdrawUrl(dataDir: string, url: string): void {
  if (announcedUrl(dataDir) === url) rmSync(urlFile(dataDir), { force: true });
}

function contentOf(file: string): string | null {
  return existsSync(file) ? readFileSync(file, "utf8").trim() || null : null;
}

/** Made anew, so that the mode is ours whatever was there before. */
function write(dataDir: string, file: string, text: string): void {
  makeDirectory(dataDir);
  rmSync(file, { force: true });
  writeFileSync(file, `${text}\n`, { mode: 0o600, flag: "wx" });
}
