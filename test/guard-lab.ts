// Where the guard is tested: a real server, real repositories with a bare remote, and git as a user runs it, so that the
// hooks are run by git itself. Alice works in the repository with runner-1's token; bob is runner-2.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Lab, openLab } from "./cli-lab.js";
import { call, mainFile, temporaryDir } from "./server.js";
import { type Ended, runToEnd } from "./system-program.js";

type Variables = Record<string, string | undefined>;

export interface Clone {
  readonly dir: string;
  git(...args: readonly string[]): Promise<Ended>;
  /** As `git`, and it must succeed. Returns what it printed. */
  done(...args: readonly string[]): Promise<string>;
  gitWith(env: Variables, ...args: readonly string[]): Promise<Ended>;
  write(path: string, text: string): void;
  /** Writes the file and commits it, past all hooks. */
  commit(path: string, text: string): Promise<void>;
  holdfast(...args: readonly string[]): Promise<Ended>;
  holdfastWith(env: Variables, ...args: readonly string[]): Promise<Ended>;
  /** `guard check --json`; its data, or the details of its refusal. */
  check(...args: readonly string[]): Promise<Checked>;
  /** `.holdfast.toml`, as it lies in the work tree. */
  policy(word: string, globs?: readonly string[]): void;
}

export interface Checked {
  readonly code: number | null;
  readonly error: string | null;
  readonly policy: { readonly value: string; readonly from: string };
  readonly checked: boolean;
  readonly touched: number;
  readonly held: readonly { path: string; resource: string; owner: string; next: string }[];
  readonly required: readonly { path: string; resource: string; pattern: string; next: string }[];
  readonly unlockable: readonly { path: string; reason: string; pattern: string | null }[];
  readonly notes: readonly string[];
}

export interface GuardLab extends AsyncDisposable {
  readonly lab: Lab;
  /** A repository with one commit, and no remote. */
  repository(): Promise<Clone>;
  bare(): Promise<string>;
  /** With `origin` set to a bare repository that has `main`. */
  withRemote(): Promise<{ clone: Clone; remote: string }>;
  at(dir: string): Clone;
  /** Takes locks over HTTP. */
  take(token: "alice" | "bob", ...names: readonly string[]): Promise<void>;
  /** Gives back all that was taken. */
  freeAll(): Promise<void>;
}

const tokens = { alice: "secret-a", bob: "secret-b" };

export async function openGuardLab(): Promise<GuardLab> {
  const lab = await openLab();
  const env: Variables = {
    ...lab.env,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "Alice",
    GIT_AUTHOR_EMAIL: "alice@example.com",
    GIT_COMMITTER_NAME: "Alice",
    GIT_COMMITTER_EMAIL: "alice@example.com",
    GIT_EDITOR: "true",
  };
  let taken: { token: string; name: string; leaseId: string }[] = [];
  const at = (dir: string): Clone => cloneAt(dir, env);
  const bare = async (): Promise<string> => {
    const dir = join(temporaryDir("holdfast-remote-"), "remote.git");
    await at(dirname(dir)).done("init", "-q", "--bare", "-b", "main", dir);
    return dir;
  };
  const repository = async (): Promise<Clone> => {
    const clone = at(temporaryDir("holdfast-clone-"));
    await clone.done("init", "-q", "-b", "main");
    await clone.commit("README", "first\n");
    return clone;
  };
  return {
    lab,
    at,
    bare,
    repository,
    withRemote: async () => {
      const [clone, remote] = [await repository(), await bare()];
      await clone.done("remote", "add", "origin", remote);
      await clone.done("push", "-q", "-u", "origin", "main");
      return { clone, remote };
    },
    take: async (who, ...names) => {
      for (const name of names) {
        const token = tokens[who];
        const path = `/locks/${encodeURIComponent(name)}/acquire`;
        const { body } = await call<{ status: string; lease_id: string }>(lab.server, "POST", path, {
          token,
          body: { ttl_seconds: 600, metadata: `for ${who}` },
        });
        assert.equal(body.status, "acquired", `${name}: ${JSON.stringify(body)}`);
        taken.push({ token, name, leaseId: body.lease_id });
      }
    },
    freeAll: async () => {
      for (const { token, name, leaseId } of taken)
        await call(lab.server, "POST", `/locks/${encodeURIComponent(name)}/release`, {
          token,
          body: { lease_id: leaseId },
        });
      taken = [];
    },
    [Symbol.asyncDispose]: () => lab[Symbol.asyncDispose](),
  };
}

function cloneAt(dir: string, env: Variables): Clone {
  const gitWith = (more: Variables, ...args: readonly string[]): Promise<Ended> =>
    runToEnd("git", args, { cwd: dir, env: { ...env, ...more } });
  const holdfastWith = (more: Variables, ...args: readonly string[]): Promise<Ended> =>
    runToEnd(process.execPath, [mainFile, ...args], { cwd: dir, env: { ...env, ...more } });
  const done = async (...args: readonly string[]): Promise<string> => {
    const ended = await gitWith({}, ...args);
    assert.equal(ended.code, 0, `git ${args.join(" ")}\n${ended.text}`);
    return ended.stdout;
  };
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  };
  return {
    dir,
    gitWith,
    git: (...args) => gitWith({}, ...args),
    done,
    write,
    commit: async (path, text) => {
      write(path, text);
      await done("add", "--", path);
      await done("commit", "-q", "--no-verify", "-m", `change ${path}`);
    },
    holdfastWith,
    holdfast: (...args) => holdfastWith({}, ...args),
    check: async (...args) => checkedIn(await holdfastWith({}, "guard", "check", "--json", ...args)),
    policy: (word, globs = []) =>
      write(".holdfast.toml", `lock_policy = "${word}"\nrequire = ${JSON.stringify(globs)}\n`),
  };
}

export function checkedIn({ code, stdout, text }: Ended): Checked {
  const { ok, data, error } = JSON.parse(stdout || "{}") as {
    ok: boolean;
    data?: Checked;
    error?: { code: string; details: Checked };
  };
  const found = ok ? data : error?.details;
  assert.ok(found !== undefined, text);
  assert.equal(ok, code === 0, text);
  return { ...found, code, error: error?.code ?? null };
}

/** A program that reads standard input, as a hook of git's does. */
export async function withInput(
  { dir }: Clone,
  env: Readonly<Variables>,
  args: readonly string[],
  input: string,
): Promise<Ended> {
  const child = spawn(process.execPath, [mainFile, ...args], {
    cwd: dir,
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr, text: stdout + stderr };
}

/** Names and paths of what was found, sorted: enough to compare. */
export const heldPaths = ({ held }: Checked): string[] => held.map(({ path }) => path).sort();
