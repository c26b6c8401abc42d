/** Finding a repository and what it is set to, without starting git: a lock in a shell loop pays for every process. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { StoreError } from "../../store/store.js";
import { GitProgram, whyOf } from "./git-program.js";

/** How long git may take for one thing, in ms: longer than a slow network, shorter than a person's patience. */
export const gitTimeoutMs = 30_000;
/** How far the wall clocks of two machines may be apart, in ms, unless `holdfast.skew` says otherwise. */
export const skewDefaultMs = 15 * 60_000;

export interface RepositorySettings {
  readonly remotes: readonly string[];
  /** Those whose pushes may go elsewhere than what is fetched from them, or to several places. */
  readonly rerouted: readonly string[];
  /** Who decides: the name of a remote or `local`; null: not set. */
  readonly authority: string | null;
  readonly lockPolicy: string | null;
  readonly skewMs: number;
}

export class Repository {
  constructor(
    /** Of this worktree. */
    readonly gitDir: string,
    /** Shared by all worktrees: where objects and references are. */
    readonly commonDir: string,
    /** null: a bare repository. */
    readonly workTree: string | null,
    readonly env: NodeJS.ProcessEnv,
  ) {}

  /** What this worktree keeps for itself. */
  get stateDir(): string {
    return join(this.gitDir, "holdfast");
  }

  /** What all worktrees share. */
  get sharedDir(): string {
    return join(this.commonDir, "holdfast");
  }

  /** Where remotes whose address is a relative path are looked for, whichever worktree asks: in the main one. */
  get home(): string {
    return basename(this.commonDir) === ".git" ? dirname(this.commonDir) : this.commonDir;
  }

  git(timeoutMs = gitTimeoutMs): GitProgram {
    return new GitProgram(this.home, this.env, timeoutMs);
  }

  /** Where pushes to a remote go, as git works it out. */
  async pushAddresses(remote: string): Promise<readonly string[]> {
    const said = await this.git().output(["remote", "get-url", "--push", "--all", "--", remote]);
    return said.split("\n").filter((line) => line !== "");
  }

  async settings(): Promise<RepositorySettings> {
    const git = this.git();
    const end = await git.run([
      "config",
      "-z",
      "--get-regexp",
      "^(remote\\..*\\.(push)?url|url\\..*\\.pushinsteadof|holdfast\\..*)$",
    ]);
    const { code, stdout } = end;
    // 1: nothing is set. Whatever else it is, a remote that decides must not be taken for none.
    if (code !== 0 && code !== 1)
      throw new StoreError(
        "unavailable",
        `the settings of ${this.commonDir} cannot be read: ${whyOf(end, git.timeoutMs)}`,
      );
    const keys: string[] = [];
    const values = new Map<string, string>();
    if (code === 0)
      for (const entry of stdout.split("\0")) {
        const at = entry.indexOf("\n");
        if (at <= 0) continue;
        keys.push(entry.slice(0, at));
        values.set(entry.slice(0, at), entry.slice(at + 1));
      }
    const named = (pattern: RegExp): string[] => keys.flatMap((key) => pattern.exec(key)?.[1] ?? []);
    const fetched = named(/^remote\.(.*)\.url$/s);
    const pushed = named(/^remote\.(.*)\.pushurl$/s);
    const isRewritten = keys.some((key) => /^url\..*\.pushinsteadof$/s.test(key));
    const remotes = [...new Set(fetched)];
    return {
      remotes,
      rerouted: remotes.filter(
        (name) => isRewritten || pushed.includes(name) || fetched.filter((one) => one === name).length > 1,
      ),
      authority: values.get("holdfast.authority") ?? null,
      lockPolicy: values.get("holdfast.lockpolicy") ?? null,
      skewMs: skewOf(values.get("holdfast.skew")),
    };
  }
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };

function skewOf(text: string | undefined): number {
  if (text === undefined) return skewDefaultMs;
  const match = /^(\d{1,6})([smh]?)$/.exec(text);
  if (match !== null) return Number(match[1]) * (units[match[2] || "s"] ?? 0);
  throw new StoreError(
    "unsupported",
    `git config holdfast.skew is ${JSON.stringify(text)}: give a time as 90s, 15m or 1h`,
  );
}

/** The repository that a command run in `cwd` means, as git itself would find it. */
export function findRepository(cwd: string, env: NodeJS.ProcessEnv): Repository {
  const named = env["GIT_DIR"];
  if (named) {
    const dir = resolve(cwd, named);
    if (!isGitDir(dir)) throw new StoreError("unsupported", `GIT_DIR names ${dir}, which is no repository`);
    const tree = env["GIT_WORK_TREE"];
    return repositoryAt(dir, tree ? resolve(cwd, tree) : treeOf(dir, cwd), env);
  }
  for (let at = resolve(cwd); ; at = dirname(at)) {
    const found = gitDirIn(at);
    if (found !== null) return repositoryAt(found, at, env);
    if (isGitDir(at)) return repositoryAt(at, treeOf(at, null), env);
    if (dirname(at) === at)
      throw new StoreError(
        "unsupported",
        `${cwd} is not in a git repository: go into one, make one with git init, or name a server with --server`,
      );
  }
}

/** `.git` as a directory, or as the file that a worktree or a submodule has. */
function gitDirIn(dir: string): string | null {
  const dotGit = join(dir, ".git");
  const stat = statSync(dotGit, { throwIfNoEntry: false });
  if (stat === undefined) return null;
  if (stat.isDirectory()) return isGitDir(dotGit) ? dotGit : null;
  const target = /^gitdir: (.*?)\r?\n?$/s.exec(readFileSync(dotGit, "utf8"))?.[1];
  const found = target === undefined ? null : resolve(dir, target);
  if (found !== null && isGitDir(found)) return found;
  throw new StoreError(
    "unsupported",
    `${dotGit} points to no repository: git worktree repair, or git submodule update, may mend it`,
  );
}

const isGitDir = (dir: string): boolean =>
  existsSync(join(dir, "HEAD")) && (existsSync(join(dir, "refs")) || existsSync(join(dir, "commondir")));

function repositoryAt(gitDir: string, workTree: string | null, env: NodeJS.ProcessEnv): Repository {
  const file = join(gitDir, "commondir");
  if (!existsSync(file)) return new Repository(gitDir, gitDir, workTree, env);
  const common = readFileSync(file, "utf8").trim();
  return new Repository(gitDir, isAbsolute(common) ? common : resolve(gitDir, common), workTree, env);
}

/** A command run inside `.git` means the tree around it; a bare repository has none. */
function treeOf(gitDir: string, otherwise: string | null): string | null {
  return gitDir.endsWith("/.git") ? dirname(gitDir) : otherwise;
}
