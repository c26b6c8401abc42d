// Where the command line is tested on git repositories: a bare remote, clones of it, a `holdfast` on the PATH, no server,
// and nothing of the machine's own settings, of git's or of a CI.
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bareEnvironment, jsonOf } from "./cli-lab.js";
import { mainFile, temporaryDir } from "./server.js";
import { type Ended, runToEnd } from "./system-program.js";

type Env = Record<string, string | undefined>;

/** A directory in which commands run. */
export interface Clone {
  readonly dir: string;
  readonly env: Env;
  git(...args: string[]): string;
  /** One command, of this process's session. */
  holdfast(args: readonly string[], env?: Env): Promise<Ended>;
  /** A bash script: a session of its own. */
  script(text: string, env?: Env): Promise<Ended>;
  /** As `lock status` here sees it. */
  holderOf(name: string): Promise<string | null>;
}

export interface GitLab {
  readonly dir: string;
  readonly remote: string;
  /** A new clone of the remote. */
  clone(name: string): Clone;
  /** Any directory, as the place where commands run. */
  at(dir: string): Clone;
  command(name: string, text: string): void;
}

export function openGitLab(): GitLab {
  const dir = temporaryDir("holdfast-git-");
  const bin = join(dir, "bin");
  mkdirSync(bin);
  const command = (name: string, text: string): void => {
    writeFileSync(join(bin, name), text);
    chmodSync(join(bin, name), 0o755);
  };
  command(
    "holdfast",
    `#!/bin/sh\nif [ "$1" = issue ]; then shift; exec issue "$@"; fi\nexec '${process.execPath}' '${mainFile}' "$@"\n`,
  );
  const env: Env = {
    ...bareEnvironment(dir),
    PATH: `${bin}:${process.env["PATH"]}`,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "Test",
    GIT_AUTHOR_EMAIL: "test@example.com",
    GIT_COMMITTER_NAME: "Test",
    GIT_COMMITTER_EMAIL: "test@example.com",
  };
  const git = (cwd: string, args: readonly string[]): string =>
    execFileSync("git", args, {
      cwd,
      env: { ...process.env, ...env },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    }).trim();
  const remote = join(dir, "remote.git");
  git(dir, ["init", "-q", "--bare", "--initial-branch=main", remote]);
  const at = (place: string): Clone => cloneAt(place, env, (args) => git(place, args));
  return {
    dir,
    remote,
    at,
    command,
    clone: (name) => {
      git(dir, ["clone", "-q", remote, name]);
      return at(join(dir, name));
    },
  };
}

function cloneAt(dir: string, env: Env, git: (args: readonly string[]) => string): Clone {
  let scripts = 0;
  const holdfast: Clone["holdfast"] = (args, more = {}) =>
    runToEnd(process.execPath, [mainFile, ...args], { env: { ...env, ...more }, cwd: dir });
  return {
    dir,
    env,
    git: (...args) => git(args),
    holdfast,
    script: (text, more = {}) => {
      scripts += 1;
      const file = `${dir}-${process.pid}-script-${scripts}.sh`;
      writeFileSync(file, text);
      return runToEnd("bash", [file], { env: { ...env, ...more }, cwd: dir });
    },
    holderOf: async (name) => {
      const ended = await holdfast(["lock", "status", "--json"]);
      const { data } = jsonOf<{ locks: { resource: string; owner: string }[] }>(ended);
      return data.locks.find(({ resource }) => resource === name)?.owner ?? null;
    },
  };
}

/** Who a worktree is to others. */
export async function actorOf(clone: Clone, ...flags: string[]): Promise<string> {
  const name = `who-${process.pid}`;
  const env = { HOLDFAST_SESSION: "who" };
  const ended = await clone.holdfast(["lock", "acquire", name, "--json", ...flags], env);
  await clone.holdfast(["lock", "release", name, ...flags], env);
  return jsonOf<{ lock: { owner: string } }>(ended).data.lock.owner;
}
