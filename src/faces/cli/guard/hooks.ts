/**
 * The files of hooks: which are ours, putting ours in the place of others and putting the others back. No step loses a
 * hook: each file is written beside its place and moved there at once, and an interrupted step is finished by the next run.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { CliError, exitCodes } from "../failure.js";
import { type HookName, hookText, keptName, origin, thisInstallation } from "./hook-script.js";

export interface Outcome {
  readonly hook: HookName;
  readonly file: string;
  readonly action: "installed" | "updated" | "unchanged" | "removed" | "restored" | "absent" | "left";
  /** The hook that was there first, and runs before ours. */
  readonly kept: string | null;
}

type Found = "none" | "ours" | "changed" | "foreign";

interface Place {
  readonly hook: HookName;
  readonly file: string;
  readonly kept: string;
  readonly found: Found;
  readonly isKept: boolean;
  readonly madeDirectory: boolean;
}

function look(dir: string, hook: HookName): Place {
  const [file, kept] = [join(dir, hook), join(dir, keptName(hook))];
  const entry = lstatSync(file, { throwIfNoEntry: false });
  const isKept = lstatSync(kept, { throwIfNoEntry: false }) !== undefined;
  const nothing = { hook, file, kept, isKept, madeDirectory: false };
  if (entry === undefined) return { ...nothing, found: "none" };
  // A link is somebody else's, whatever it leads to.
  if (!entry.isFile()) return { ...nothing, found: "foreign" };
  const { is, madeDirectory } = origin(readFileSync(file, "utf8"));
  return { ...nothing, found: is, madeDirectory };
}

/** `edited`: written by us and changed since. `missing`: none, or one that is not ours. */
export type HookState = "installed" | "edited" | "missing";

export function stateIn(dir: string, hook: HookName): HookState {
  const { found } = look(dir, hook);
  return found === "ours" ? "installed" : found === "changed" ? "edited" : "missing";
}

/** All are looked at before any is touched: a refusal leaves everything as it was. */
export function installInto(dir: string, hooks: readonly HookName[]): Outcome[] {
  const madeDirectory = !existsSync(dir);
  const places = hooks.map((hook) => look(dir, hook));
  for (const place of places) refuseToReplace(place);
  mkdirSync(dir, { recursive: true });
  return places.map((place) => {
    const { hook, file, kept, found } = place;
    const text = hookText({
      hook,
      installation: thisInstallation(),
      madeDirectory: madeDirectory || place.madeDirectory,
    });
    const isKept = place.isKept || found === "foreign";
    const done = (action: Outcome["action"]): Outcome => ({ hook, file, action, kept: isKept ? kept : null });
    if (found === "ours" && isSame(file, text)) return done("unchanged");
    const beside = `${file}.${process.pid}.new`;
    try {
      writeFileSync(beside, text, { mode: 0o755, flag: "wx" });
      if (found === "foreign") renameSync(file, kept);
      renameSync(beside, file);
    } finally {
      rmSync(beside, { force: true });
    }
    return done(found === "ours" ? "updated" : "installed");
  });
}

const isSame = (file: string, text: string): boolean =>
  readFileSync(file, "utf8") === text && (lstatSync(file).mode & 0o100) !== 0;

function refuseToReplace({ hook, file, kept, found, isKept }: Place): void {
  if (found === "changed") throw editedByHand(file, kept);
  if (found !== "foreign") return;
  if (lstatSync(file).isDirectory())
    throw new CliError(`${file} is a directory: git runs no such hook. Move it away`, exitCodes.conflict);
  // A hook manager wrote its own again, over ours: the same as before may take its place once more.
  if (isKept && !isSameEntry(file, kept))
    throw new CliError(
      `${file} was put there after holdfast guard install, and ${kept} is what was there before it. Keep what you need of both as ${hook}, remove ${keptName(hook)}, and repeat this`,
      exitCodes.conflict,
      { code: "hook_replaced" },
    );
}

const editedByHand = (file: string, kept: string): CliError =>
  new CliError(
    `${file} was written by holdfast guard install and edited since. Move your own lines to ${kept}, make it executable, remove ${file}, and repeat this`,
    exitCodes.conflict,
    { code: "hook_edited" },
  );

function isSameEntry(one: string, other: string): boolean {
  const [a, b] = [lstatSync(one), lstatSync(other)];
  return a.isFile() && b.isFile() && readFileSync(one).equals(readFileSync(other));
}

export function uninstallFrom(dir: string, hooks: readonly HookName[]): Outcome[] {
  const places = hooks.map((hook) => look(dir, hook));
  for (const { file, kept, found, isKept, hook } of places) {
    if (found === "changed") throw editedByHand(file, kept);
    if (found === "foreign" && isKept)
      throw new CliError(
        `${file} was not written by holdfast guard install, and is left alone; ${kept} is what was there before. Keep what you need of both as ${hook}, and remove ${keptName(hook)}`,
        exitCodes.conflict,
        { code: "hook_replaced" },
      );
  }
  const outcomes = places.map(({ hook, file, kept, found, isKept }): Outcome => {
    const done = (action: Outcome["action"]): Outcome => ({ hook, file, action, kept: null });
    if (found === "foreign") return done("left");
    // In one step: whoever commits meanwhile finds the one or the other.
    if (isKept) renameSync(kept, file);
    else if (found === "ours") rmSync(file);
    else return done("absent");
    return done(isKept ? "restored" : "removed");
  });
  if (places.some(({ madeDirectory }) => madeDirectory)) removeIfEmpty(dir);
  return outcomes;
}

function removeIfEmpty(dir: string): void {
  try {
    rmdirSync(dir);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
  }
}
