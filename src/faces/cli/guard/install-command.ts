/**
 * `holdfast guard install` and `holdfast guard uninstall`: where a repository's hooks live, and what was done to them.
 * Hooks that other repositories use are not touched unless that is asked for.
 */
import { existsSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { CliError, exitCodes } from "../failure.js";
import { shellWord } from "../lock/desk.js";
import { printJson, printLines, warn } from "../output.js";
import { git, tryGit } from "./git.js";
import { hookNames } from "./hook-script.js";
import { installInto, type Outcome, uninstallFrom } from "./hooks.js";
import { configKey, policyOf } from "./policy.js";
import { type Repository, repositoryHere, workTreesOf } from "./repository.js";

export interface InstallFlags {
  readonly json?: boolean;
  readonly forceShared?: boolean;
}

export async function installCommand(flags: InstallFlags): Promise<void> {
  const repository = await repositoryWithWorkTree();
  const dir = await hooksDirOf(repository, repository.root, flags);
  // Before anything is written: with a policy that cannot be read, every commit would be refused.
  const policy = await policyOf(repository);
  const hooks = installInto(dir, hookNames);
  const fields = { hooks, policy: { value: policy.word, from: policy.from } };
  warn(...policy.warnings.map((line) => `holdfast: ${line}`));
  if (await isTracked(repository.root, dir))
    warn(
      `holdfast: ${dir} is part of what is committed here, and the hooks name a program on this machine: leave them out of commits`,
    );
  if (flags.json === true) return printJson(fields);
  printLines(
    "Hooks installed",
    ...hooks.map(
      ({ file, action, kept }) =>
        `  ${file}: ${action}${kept === null ? "" : `; what was there runs first (${basename(kept)})`}`,
    ),
    `  Policy: ${policy.word} (${policy.from})`,
    ...(policy.word === "off"
      ? [
          `  To turn it on: git config ${configKey} warn, or lock_policy = "warn" in .holdfast.toml for everybody`,
        ]
      : []),
  );
}

export async function uninstallCommand(flags: InstallFlags): Promise<void> {
  const repository = await repositoryWithWorkTree();
  const dir = await hooksDirOf(repository, repository.root, flags);
  const hooks = uninstallFrom(dir, hookNames);
  // Installed before core.hooksPath was set: git does not run them, and they are ours all the same.
  const usual = join(repository.commonDir, "hooks");
  const forgotten = resolve(usual) === dir ? [] : uninstallFrom(usual, hookNames).filter(isDone);
  const all = [...hooks, ...forgotten];
  if (flags.json === true) return printJson({ hooks: all });
  printLines(
    all.some(isDone) ? "Hooks uninstalled" : "Nothing to uninstall",
    ...all.map(({ file, action }) => `  ${file}: ${actionText(action)}`),
  );
}

const isDone = ({ action }: Outcome): boolean => action === "removed" || action === "restored";

const actionText = (action: Outcome["action"]): string =>
  action === "left"
    ? "left alone, it is not Holdfast's"
    : action === "restored"
      ? "as it was before"
      : action;

async function repositoryWithWorkTree(): Promise<Repository & { readonly root: string }> {
  const { root, commonDir } = await repositoryHere();
  if (root !== null) return { root, commonDir };
  throw new CliError(
    "this is a bare repository: nobody commits in it. Install the guard in the clones, and call holdfast guard check --pre-receive in this one's pre-receive hook",
    exitCodes.usage,
    { code: "bare_repository" },
  );
}

/** Git runs hooks from the top of the work tree, and means a relative core.hooksPath from there. */
async function hooksDirOf(repository: Repository, root: string, flags: InstallFlags): Promise<string> {
  const set = await tryGit(["config", "--type=path", "--get", "core.hooksPath"]);
  const dir = set.code === 0 ? resolve(root, set.text) : join(repository.commonDir, "hooks");
  if ((set.text === "" && set.code === 0) || (existsSync(dir) && !statSync(dir).isDirectory()))
    throw new CliError(
      `core.hooksPath is ${JSON.stringify(set.text)}, which is no directory: hooks are turned off. Unset it, and repeat this`,
      exitCodes.usage,
    );
  const own = [repository.commonDir, ...(await workTreesOf(repository))].map(realPath);
  if (flags.forceShared === true || own.some((top) => isWithin(realPath(dir), top))) return dir;
  throw new CliError(
    `core.hooksPath is ${dir}, outside this repository: other repositories may run its hooks, too. Give this one its own with git config core.hooksPath ${shellWord(join(repository.commonDir, "hooks"))}, or use that directory nevertheless with --force-shared`,
    exitCodes.usage,
    { code: "shared_hooks" },
  );
}

/** Of the part of it that is there. */
function realPath(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const above = dirname(path);
  return above === path ? path : join(realPath(above), basename(path));
}

function isWithin(path: string, top: string): boolean {
  const way = relative(top, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && resolve(top, way) === path;
}

/** Whether git has files of it, so that the next `git add` would take ours along. */
async function isTracked(root: string, dir: string): Promise<boolean> {
  if (!isWithin(realPath(dir), realPath(root))) return false;
  return (
    (await git(["ls-files", "-z", "--", `:(top,literal)${relative(realPath(root), realPath(dir))}`])) !== ""
  );
}
